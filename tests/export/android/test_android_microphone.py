"""Sound from the microphone: only where it was asked for, by the model card or a flag."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from edgex.errors import UsageError
from edgex.export.android.generate import generate_app
from edgex.export.android.options import AppOptions
from edgex.runtime.artifact.card import check_card
from edgex.runtime.artifact.card_microphone import MicrophoneCard, parse_microphone, read_microphone_card
from edgex.runtime.artifact.golden import Case, Step

ENTRY = {"input": "waveform", "sample_rate": 16000}


@pytest.fixture
def listener_of(artifact_of):
    """Make an artifact that takes sound, with a model card."""

    def make(card, shape=(1, 800), dtype="float32"):
        step = Step({"waveform": np.zeros(shape, dtype)}, {"output_0": np.ones((1, 3), np.float32)})

        def change(manifest):
            manifest["methods"][0]["inputs"] = [{"name": "waveform", "dtype": dtype, "shape": list(shape)}]
            manifest["model"]["card"] = card

        return artifact_of(change, [Case("example", "compare", (step,))])

    return make


def permissions(app):
    root = ET.parse(app.path / "app/src/main/AndroidManifest.xml").getroot()
    return [
        element.attrib["{http://schemas.android.com/apk/res/android}name"] for element in root.iter("uses-permission")
    ]


def test_it_is_asked_for_by_card_or_flag_and_not_else(listener_of, tmp_path):
    by_card = generate_app(listener_of({"microphone": ENTRY}), tmp_path / "card", AppOptions())
    options = AppOptions(microphone=parse_microphone("waveform:8000"))
    by_flag = generate_app(listener_of({}), tmp_path / "flag", options)
    silent = generate_app(listener_of({}), tmp_path / "silent", AppOptions())
    assert permissions(by_card) == permissions(by_flag) == ["android.permission.RECORD_AUDIO"]
    assert permissions(silent) == []
    assert [app.screen for app in (by_card, by_flag, silent)] == ["sound", "sound", "tensors"]
    found = [
        json.loads((app.path / "model/src/main/assets/edgex/tiny/manifest.json").read_text())["microphone"]
        for app in (by_card, by_flag, silent)
    ]
    assert found == [ENTRY, {"input": "waveform", "sample_rate": 8000}, None]
    assert "asks for the microphone when Record is pressed" in (by_card.path / "README.md").read_text()


@pytest.mark.parametrize(
    ("shape", "dtype", "name", "words"),
    [
        ((1, 800), "float32", "wavefrom", "no input is called 'wavefrom'"),
        ((2, 800), "float32", "waveform", "is no sound"),
        ((1, 800), "float64", "waveform", "is no sound"),
        ((1, 1), "float32", "waveform", "is no sound"),
    ],
)
def test_an_input_that_is_no_sound_is_refused(listener_of, tmp_path, shape, dtype, name, words):
    with pytest.raises(UsageError, match=words):
        artifact = listener_of({}, shape, dtype)
        generate_app(artifact, tmp_path / "app", AppOptions(microphone=MicrophoneCard(name, 16000)))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("waveform", "is of type str"),
        ({"sample_rate": 16000}, "does not name its input"),
        ({**ENTRY, "rate": 1}, "has a key 'rate'"),
        ({**ENTRY, "sample_rate": 100}, "has the sample_rate 100"),
        ({**ENTRY, "sample_rate": True}, "has the sample_rate True"),
    ],
)
def test_a_card_that_is_wrong_is_refused_before_anything_slow(entry, words):
    with pytest.raises(UsageError, match=words):
        check_card({"microphone": entry}, "model.py")
    assert read_microphone_card({}, "model.py") is None


@pytest.mark.parametrize("text", ["waveform", "waveform:", "waveform:16k", ":16000", "waveform:3999"])
def test_the_flag_has_one_form(text):
    with pytest.raises(UsageError, match="expected name:rate"):
        parse_microphone(text)
