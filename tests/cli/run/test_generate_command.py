"""`edgex generate`: what it prints, what it refuses before it loads anything, and what Ctrl-C leaves."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from decoder_support import CONTEXT, add_processor_files, eager_greedy, train_tokenizer, unloaded
from device_support import needs_compiler

from edgex.runtime.generation.tokenizer import Tokenizer

PROMPT = [7, 3, 58, 11]
IDS = ",".join(map(str, PROMPT))
TEMPLATE = "<s>{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def artifact(exported):
    return str(exported("decoder", "onnx-cpu"))


@pytest.fixture
def with_text(own_copy, tmp_path):
    """An artifact with a tokenizer and a template."""
    copy = own_copy("decoder", "onnx-cpu")
    path = train_tokenizer(tmp_path / "tokenizer.json", special=("<s>", "</s>", "user", "system"))
    add_processor_files(copy, {"tokenizer.json": path.read_text(), "chat_template.jinja": TEMPLATE})
    return str(copy)


def test_ids_come_out(artifact, edgex):
    done = edgex("generate", artifact, "--ids", IDS, "--max-new", "9", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ",".join(map(str, eager_greedy(PROMPT, 9))) + "\n"
    assert "nothing says which id ends a text" in done.stderr and "4 tokens read" in done.stderr
    assert "9 written" in done.stderr and "as many as --max-new allows" in done.stderr


def test_the_document(artifact, edgex):
    done = edgex("generate", artifact, "--ids", IDS, "--max-new", "9", "--threads", "1", "--json", "-q")
    found = json.loads(done.stdout)
    assert not done.stderr and found["schema"] == "edgex.generate/1"
    assert found["ids"] == eager_greedy(PROMPT, 9) and found["text"] is None and found["finish"] == "length"
    assert set(found["seconds"]) == {"load", "encode", "prefill", "decode", "sampling", "text"}
    rates, seconds = found["tokens_per_second"], found["seconds"]
    assert rates == {"prefill": 4 / seconds["prefill"], "decode": 8 / seconds["decode"]}


def test_draws(artifact, edgex):
    def draw(*flags):
        return json.loads(edgex("generate", artifact, "--ids", IDS, "--max-new", "12", "--json", *flags).stdout)

    first = draw("--temperature", "1.5", "--top-k", "40", "--top-p", "0.95")
    seed = first["sampling"]["seed"]
    again = draw("--temperature", "1.5", "--top-k", "40", "--top-p", "0.95", "--seed", str(seed))
    assert again["ids"] == first["ids"] and again["sampling"] == first["sampling"]
    assert draw("--temperature", "0")["sampling"]["seed"] is None


def test_text_comes_out(with_text, edgex, tmp_path):
    """Drawn: the likeliest ids of a model with random weights are soon the same byte again and again."""
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", "here")

    def generate(*flags):
        flags = ("--prompt", "für ", "--max-new", "20", "--temperature", "2", "--seed", "1", *flags)
        return edgex("generate", with_text, *flags)

    found = json.loads(generate("--json").stdout)
    decoded = tokenizer.decode([*tokenizer.encode("für "), *found["ids"]])
    assert len(found["text"]) > 8 and "für " + found["text"] == decoded.rstrip("\ufffd")
    shown = generate("-q")
    assert shown.stdout == found["text"] + "\n" and not shown.stderr
    # up to a text that comes
    stop = found["text"][4:6]
    stopped = json.loads(generate("--stop", stop, "--json").stdout)
    assert stopped["text"] == found["text"][: found["text"].find(stop)] and stopped["finish"] == "stop"
    assert found["ids"][: len(stopped["ids"])] == stopped["ids"] != found["ids"]


def test_chat(with_text, edgex, tmp_path):
    ids = Tokenizer(tmp_path / "tokenizer.json", "here").encode("<s>systemjeuserfür", special=False)
    assert ids[0] == 0
    done = edgex("generate", with_text, "--chat", "--system", "je", "--prompt", "für", "--max-new", "5", "--json")
    assert json.loads(done.stdout)["ids"] == eager_greedy(ids, 5)


def test_the_models_own_settings_count(own_copy, edgex):
    copy = own_copy("decoder", "onnx-cpu")
    expected = eager_greedy(PROMPT, 6)
    end = next(token for token in expected if token != expected[0])
    config = {"eos_token_id": end, "do_sample": True, "temperature": 0.7, "num_beams": 2}
    add_processor_files(copy, {"generation_config.json": json.dumps(config)})
    done = edgex("generate", str(copy), "--ids", IDS, "--json")
    found = json.loads(done.stdout)
    assert found["sampling"]["temperature"] == 0.7 and found["sampling"]["top_k"] == 50
    assert "num_beams=2" in done.stderr
    done = edgex("generate", str(copy), "--ids", IDS, "--temperature", "0", "--top-k", "3", "--threads", "1")
    ended = expected[: expected.index(end)]
    assert done.stdout == ",".join(map(str, ended)) + "\n" and "the model ended the text" in done.stderr
    assert "--top-k: nothing is drawn at temperature 0" in done.stderr


@needs_compiler
def test_on_a_device(with_text, own_copy, edgex, tmp_path):
    """The tokenizer works here: text goes in and comes out, and a stop text ends the program there."""
    copy = own_copy("decoder", "xnnpack")
    add_processor_files(copy, {"tokenizer.json": (tmp_path / "tokenizer.json").read_text()})
    there = ("generate", str(copy), "--device", "local-native", "--prompt", "für ", "--temperature", "2", "--seed", "1")
    found = json.loads(edgex(*there, "--max-new", "20", "--json").stdout)
    assert found["ids"] == json.loads(edgex(*there[:2], *there[4:], "--max-new", "20", "--json").stdout)["ids"]
    assert found["device"]["kind"] == "local-native" and found["device"]["run_id"] and found["finish"] == "length"
    stop = found["text"][4:6]
    stopped = edgex(*there, "--max-new", "20", "--stop", stop)
    assert stopped.stdout == found["text"][: found["text"].find(stop)] + "\n" and "a stop text came" in stopped.stderr
    for flags, code, words in (
        (("--device", "adb"), 2, "does not go with --device adb"),
        (("--device", "local-native", "--device-python", "python3"), 2, "leave --device-python out"),
        (("--device-python", "python3"), 2, "is for a device"),
    ):
        refused = edgex("generate", str(copy), "--ids", "1", *flags)
        assert refused.returncode == code and words in refused.stderr, refused.stderr
    refused = edgex("generate", with_text, "--ids", "1", "--device", "local-native")
    assert refused.returncode == 8 and "no artifact of onnxruntime" in refused.stderr


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ([], 2, "needs --prompt or --ids"),
        (["--prompt", "a", "--ids", "1"], 2, "exclude each other"),
        (["--ids", "1,x"], 2, "ids are whole numbers"),
        (["--ids", ""], 2, "the prompt is empty"),
        (["--prompt", ""], 2, "the prompt is empty"),
        (["--ids", "1", "--chat"], 2, "--chat"),
        (["--ids", "1", "--system", "x"], 2, "add --chat"),
        (["--ids", "1", "--stop", ""], 2, "--stop"),
        (["--ids", "61"], 6, "no such id in a vocabulary of 61"),
        (["--ids", ",".join(["1"] * (CONTEXT + 1))], 6, f"do not fit the context of {CONTEXT}"),
        (["--prompt", "text"], 6, "carries no tokenizer.json"),
        (["--prompt", "text", "--chat"], 6, "carries no chat template"),
        (["--ids", "1", "--stop", "text"], 6, "leave --stop out"),
        (["--ids", "1", "--max-new", "0"], 2, "--max-new"),
        (["--ids", "1", "--temperature", "-1"], 2, "--temperature"),
        (["--ids", "1", "--top-p", "0"], 2, "--top-p"),
    ],
)
def test_refused_before_anything_is_loaded(flags, code, words, artifact, edgex, monkeypatch):
    def no_loading(*_args, **_kwargs):
        raise AssertionError("the engine was asked")

    monkeypatch.setattr("edgex.runtime.engines.loading.open_session", no_loading)
    done = edgex("generate", artifact, *flags)
    assert done.returncode == code and words in done.stderr, done.stderr
    assert not done.stdout


def test_how_long_generation_goes_on_is_said_once(artifact, edgex):
    done = edgex("generate", artifact, "--ids", "1", "--max-new", str(CONTEXT + 50))
    goes_on = [line for line in done.stderr.splitlines() if "goes on for" in line]
    assert len(goes_on) == 1 and f"generation goes on for {CONTEXT} tokens" in goes_on[0], done.stderr


def test_what_is_no_language_model(edgex, tmp_path):
    unloaded(tmp_path, state=())
    done = edgex("generate", "decoder.reference.edgex", "--ids", "1")
    assert done.returncode == 6 and "no language model" in done.stderr and "carries no state" in done.stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_keeps_the_text_so_far(as_json, exported, tmp_path):
    """A model that counts its own position never ends."""
    slow = tmp_path / "sitecustomize.py"
    slow.write_text(
        "import sys, time, edgex.runtime.generation.decoder as d\n"
        "real = d.CachedDecoder.decode\n"
        "def decode(*inputs):\n"
        "    time.sleep(0.2)\n"
        "    print('step', file=sys.stderr, flush=True)\n"
        "    return real(*inputs)\n"
        "d.CachedDecoder.decode = decode\n"
    )
    command = [sys.executable, "-m", "edgex", "generate", str(exported("decoder", "onnx-cpu")), "--ids", IDS, "-q"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    environment.pop("EDGEX_SUPERVISED", None)
    process = subprocess.Popen(
        [*command, *(["--json"] if as_json else [])],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    for _ in range(3):
        assert "step" in process.stderr.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in err, err
    expected = eager_greedy(PROMPT, 12)
    if as_json:
        found = json.loads(out)
        assert found["finish"] == "interrupted" and len(found["ids"]) >= 3
        assert found["ids"] == expected[: len(found["ids"])]
    else:
        ids = [int(token) for token in out.split(",")]
        assert len(ids) >= 3 and ids == expected[: len(ids)] and out.endswith("\n")


def test_a_real_process_imports_no_exporter(artifact, tmp_path):
    code = (
        "import sys\nfrom edgex.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'tokenizers', 'jinja2') if name in sys.modules])"
    )
    environment = {**os.environ, "EDGEX_SUPERVISED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, "generate", artifact, "--ids", IDS, "--max-new", "2", "-q"],
        capture_output=True, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
