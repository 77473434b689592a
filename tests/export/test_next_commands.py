"""Commands that are told to the user can be run as they are told."""

from __future__ import annotations

import json

import pytest
from decoder_support import add_processor_files
from language_support import make_decoder

import edgex as api
from edgex.errors import CaptureError, LoweringError
from edgex.export.language_model.request import LanguageRequest
from edgex.export.next_commands import commands_for, language_flags, name_model, repeat_flags
from edgex.export.settings import ExportSettings
from edgex.runtime.artifact.artifact import open_artifact


def test_the_model_and_what_it_is_stand_in_place_of_the_unknown_name():
    error = LoweringError("no", fix="see `edgex why MODEL -t onnx-cpu,reference` which target takes it")
    name_model(error, "my net.py:Net", LanguageRequest(64, 16))
    assert error.fix == (
        "see `edgex why 'my net.py:Net' -t onnx-cpu,reference --llm --context 64 --chunk 16` which target takes it"
    )
    other = CaptureError("no").with_others([CaptureError("nor", fix="edgex export MODEL --dry-run names it")])
    name_model(other, "net.py")
    assert other.fix is None and other.others[0].fix == "edgex export net.py --dry-run names it"


@pytest.mark.parametrize(
    ("asked", "flags"),
    [
        (None, ""),
        (LanguageRequest(64, 16), " --llm --context 64 --chunk 16"),
        (LanguageRequest(64, 16, 32, kv="int8"), " --llm --context 64 --chunk 16 --source 32 --kv int8"),
        (LanguageRequest(8, 1, head="float", embedding="int8"),
         " --llm --context 8 --chunk 1 --head none --embedding int8"),
    ],
)  # fmt: skip
def test_flags_of_a_language_model(asked, flags):
    assert language_flags(asked) == flags


def test_an_export_is_repeated_with_its_flags():
    settings = ExportSettings(
        ("onnx-cpu",), quantize="8da4w", group_size=16, rewrite=False, language=LanguageRequest(64, 16, head="int8")
    )
    said = " --llm --context 64 --chunk 16 --head int8 --quantize 8da4w --group-size 16"
    assert repeat_flags(settings) == said and repeat_flags(settings, rewrite=False) == f"{said} --no-rewrite"
    assert " --head" not in language_flags(settings.language, quantized=False)


def test_a_language_model_is_to_write_text_next(tmp_path, edgex):
    made = api.export_model(make_decoder(), target="reference", context=24, chunk=4, output=tmp_path, name="my decoder")
    generate, profile = commands_for(made)
    assert generate == f"edgex generate '{made.path}' --ids 1,2,3" and profile == f"edgex profile '{made.path}' --llm"
    done = edgex("generate", str(made.path), "--ids", "1,2,3", "--max-new", "2")
    assert done.returncode == 0, done.stderr
    add_processor_files(made.path, {"tokenizer.json": "{}"})
    assert commands_for(open_artifact(made.path, "size"))[0].endswith('--prompt "Once upon a time"')


def test_other_models_are_run_next(model_file, edgex):
    done = edgex("export", str(model_file("convnet")), "-t", "reference", "--json")
    (artifact,) = json.loads(done.stdout)["artifacts"]
    assert artifact["next"] == ["edgex run convnet.reference.edgex", "edgex profile convnet.reference.edgex"]
    planned = edgex("export", "convnet.py", "-t", "reference", "--dry-run", "--force", "--json")
    assert json.loads(planned.stdout)["artifacts"][0]["next"] == []
