"""Generation by the native runner: the ids of Python's generator, drawn ones too, and what strangers' ids do to it."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess

import numpy as np
import pytest
from decoder_support import CHUNK, CONTEXT, VOCABULARY, add_processor_files, eager_greedy, unloaded
from device_support import needs_compiler

import edgex
from edgex.errors import DeviceError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.language_model import LanguageModel
from edgex.runtime.execute.kit.bundle import write_bundle
from edgex.runtime.execute.kit.generation import decoder_flags, is_language_model, sampling_flags
from edgex.runtime.execute.kit.kit import this_machine
from edgex.runtime.generation.sampling import Sampling
from edgex.runtime.generation.settings import read_generation_settings

PROMPT = [7, 3, 58, 11, 0, 42, 19]
LONG = [number * 7 % VOCABULARY for number in range(2 * CHUNK + 1)]


@pytest.fixture(scope="module")
def bundle(exported, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "a decoder"
    write_bundle(open_artifact(exported("decoder", "xnnpack")), f"linux-{this_machine()}", folder, force=False)
    return folder


@pytest.fixture(scope="module")
def generator(exported):
    with edgex.load(exported("decoder", "xnnpack"), threads=1) as session:
        yield session.generator()


@pytest.fixture
def generate(bundle):
    """Run a bundle's generate.sh."""

    def run(*flags, data=b""):
        command = [bundle / "generate.sh", "--threads", "1", *map(str, flags)]
        return subprocess.run(command, input=data, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False)

    return run


def _join(ids) -> str:
    return ",".join(map(str, ids))


def _events(done) -> list[dict]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@needs_compiler
@pytest.mark.parametrize("prompt", [PROMPT, LONG, LONG[:CHUNK], [5]], ids=["one run", "chunks", "a chunk", "one id"])
def test_greedy_ids_are_those_of_python_and_of_eager(prompt, generate, generator) -> None:
    done = generate("--ids", _join(prompt), "--max-new", 8)
    generator.reset()
    assert done.stdout.decode() == _join(generator.stream(prompt, max_new=8)) + "\n", done.stderr
    assert done.stdout.decode() == _join(eager_greedy(prompt, 8)) + "\n"
    assert f"[{len(prompt)} tokens read at" in done.stderr.decode() and "8 written at" in done.stderr.decode()


@needs_compiler
def test_the_cache_that_onednn_writes_in_place_goes_on_without_python(exported, tmp_path) -> None:
    folder = tmp_path / "bundle"
    write_bundle(open_artifact(exported("decoder", "onednn")), f"linux-{this_machine()}", folder, force=False)
    command = [folder / "generate.sh", "--threads", "1", "--ids", _join(LONG), "--max-new", "8"]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False)
    assert done.stdout.decode() == _join(eager_greedy(LONG, 8)) + "\n", done.stderr


@needs_compiler
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.3, seed=0),
        Sampling(1.0, top_k=5, seed=7),
        Sampling(2.5, top_p=0.8, seed=1 << 32),
        Sampling(0.7, top_k=30, top_p=0.95, repetition_penalty=1.4, seed=123456789012),
        Sampling(0.0, repetition_penalty=1.8),
    ],
    ids=str,
)
def test_a_seed_draws_what_it_draws_in_python(sampling, generate, generator) -> None:
    given = {name: value for name, value in dataclasses.asdict(sampling).items() if value is not None}
    flags = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]
    done = generate("--ids", _join(PROMPT), "--max-new", 30, *flags)
    generator.reset()
    assert done.stdout.decode() == _join(generator.stream(PROMPT, max_new=30, sampling=sampling)) + "\n", done.stderr


@needs_compiler
def test_how_a_text_ends(generate) -> None:
    expected = eager_greedy(PROMPT, CONTEXT + 1 - len(PROMPT))
    end = next(token for token in expected if token != expected[0])
    until = expected[: expected.index(end)]
    for flags, ids, finish in (
        (("--max-new", 3), expected[:3], "length"),
        (("--max-new", 100), expected, "context"),
        (("--eos", end), until, "eos"),
        (("--eos", f"{VOCABULARY},{end}"), until, "eos"),
        (("--eos", end, "--ignore-eos", "--max-new", 12), expected[:12], "length"),
        (("--eos", expected[0]), [], "eos"),
    ):
        events = _events(generate("--ids", _join(PROMPT), "--json", "--run-id", "r1", *flags))
        assert [event["id"] for event in events if event["event"] == "token"] == ids, flags
        said = {event["event"]: event for event in events}
        told = said["generated"]
        assert (told["finish"], told["prompt_tokens"], told["tokens"]) == (finish, len(PROMPT), len(ids)), flags
        assert told["first_token_seconds"] >= told["prefill_seconds"] > 0 and told["seed"] is None
        assert said["start"]["run_id"] == said["done"]["run_id"] == "r1" and said["loaded"]["threads"] == 1
    drawn = {}
    for flags in ((), ("--seed", "5")):
        events = _events(generate("--ids", _join(PROMPT), "--json", "--temperature", "1", *flags))
        drawn[flags] = next(event["seed"] for event in events if event["event"] == "generated")
    assert drawn[("--seed", "5")] == 5 and drawn[()] is not None, "it can be drawn again"


@needs_compiler
def test_ids_of_files_and_of_stdin(generate, tmp_path) -> None:
    expected = (_join(eager_greedy(PROMPT, 4)) + "\n").encode()
    (tmp_path / "ids.txt").write_text("\n".join(map(str, PROMPT)) + "\n")
    for source, data in ((tmp_path / "ids.txt", b""), ("-", b" 7, 3 ,58\r\n11 0\t42,,19")):
        done = generate("--ids-file", source, "--max-new", 4, data=data)
        assert done.stdout == expected, done.stderr


BAD = {
    "no ids": (("--ids", ""), "the prompt is empty"),
    "separators only": (("--ids", " , ,"), "the prompt is empty"),
    "an empty file": (("--ids-file", "/dev/null"), "the prompt is empty"),
    "a word": (("--ids", "1,two"), '--ids: "t" at byte 3: ids are whole numbers'),
    "a fraction": (("--ids", "1.5"), '"." at byte 2'),
    "outside": (("--ids", f"1,{VOCABULARY}"), f"{VOCABULARY}: no such id in a vocabulary of {VOCABULARY}"),
    "below": (("--ids", "1,-1"), "-1: no such id"),
    "far outside": (("--ids", "9" * 30), "no such id"),
    "a long prompt": (("--ids", ",".join("1" * (CONTEXT + 1))), f"more ids than the context of {CONTEXT} holds"),
    "no prompt": ((), "--ids is missing"),
    "two prompts": (("--ids", "1", "--ids-file", "-"), "exclude each other"),
    "no such file": (("--ids-file", "/no/such"), "cannot read /no/such"),
    "a folder": (("--ids-file", "/"), "cannot read /"),
    "nothing to write": (("--ids", "1", "--max-new", "0"), "--max-new 0: expected 1 or more"),
    "a cold text": (("--ids", "1", "--temperature", "-1"), "--temperature -1: it is out of bounds"),
    "no share": (("--ids", "1", "--top-p", "0"), "--top-p 0: it is out of bounds"),
    "not a share": (("--ids", "1", "--top-p", "nan"), "--top-p nan: it is out of bounds"),
    "a seed": (("--ids", "1", "--seed", "-3"), "--seed -3: expected a whole number"),
    "no such flag": (("--ids", "1", "--prompt", "x"), "unknown flag: --prompt"),
    "another model": (("--ids", "1", "--sha256", "0" * 64), "is damaged"),
}


@needs_compiler
@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name, generate) -> None:
    flags, words = BAD[name]
    done = generate(*flags)
    assert done.returncode == 2 and not done.stdout and words in done.stderr.decode(), done.stderr


@needs_compiler
def test_ids_of_strangers(generate) -> None:
    """Refused in one short sentence of plain letters, however long or strange they are."""
    noise = random.Random(0)
    hostile = [bytes(noise.randrange(256) for _ in range(200)) for _ in range(12)]
    hostile += [b"\0", b"-", b"1,-", b"\x1b[2J", b"7" * 1_000_000, b"1," * 1_000_000, b"\xff\xfe1\x00", b"--1", b"0x10"]
    for data in hostile:
        done = generate("--ids-file", "-", "--json", data=data)
        error = json.loads(done.stdout.splitlines()[-1])
        assert done.returncode == 2 and error["event"] == "error" and error["kind"] == "input", data[:20]
        assert len(error["what"]) < 100 and error["what"].isprintable(), data[:20]


@needs_compiler
def test_an_engine_that_fails(generate) -> None:
    for flags, words in (
        (("--vocabulary", VOCABULARY + 1), f"does not give scores of {VOCABULARY + 1} ids"),
        (("--method", "other"), "could not load the program's method"),
    ):
        done = generate("--ids", "1,2", *flags)
        assert done.returncode == 6 and words in done.stderr.decode(), done.stderr


@needs_compiler
def test_what_a_bundle_of_a_language_model_holds(own_copy, edgex, bundle, tmp_path) -> None:
    artifact = own_copy("decoder", "xnnpack")
    expected = eager_greedy(PROMPT, 9)
    config = json.dumps({"eos_token_id": [VOCABULARY - 1, expected[4]], "repetition_penalty": 1.0})
    add_processor_files(artifact, {"tokenizer.json": "{}", "generation_config.json": config})
    made = edgex("bundle", str(artifact), "--runtime", f"linux-{this_machine()}", "-o", "out")
    assert made.returncode == 0 and "out/generate.sh --ids 1,2,3" in made.stdout, made.stderr
    assert (tmp_path / "out/processor/generation_config.json").read_text() == config
    listed = {entry["path"] for entry in json.loads((tmp_path / "out/bundle.json").read_text())["files"]}
    assert {"generate.sh", "run.sh", "processor/tokenizer.json"} <= listed
    done = subprocess.run(["out/generate.sh", "--ids", _join(PROMPT)], cwd=tmp_path, capture_output=True, text=True)
    until = expected[: expected.index(expected[4])]
    assert done.stdout == _join(until) + "\n" and "the model ended the text" in done.stderr
    assert subprocess.run([bundle / "run.sh"], capture_output=True, check=False).returncode == 0, "its self-test"


def test_what_the_runner_is_told(tmp_path) -> None:
    config = {"eos_token_id": [2, 5], "do_sample": True, "temperature": 0.6, "top_k": 0, "top_p": 0.9}
    artifact = unloaded(tmp_path, files={"generation_config.json": json.dumps(config)})
    pairs = iter(decoder_flags(artifact))
    assert list(zip(pairs, pairs, strict=True)) == [
        ("--method", "forward"),
        ("--input", f"tokens:int64:1,n=1..{CHUNK}"),
        ("--input", "position:int64:1"),
        ("--vocabulary", str(VOCABULARY)),
        ("--context", str(CONTEXT)),
        ("--eos", "2,5"),
    ]
    own = read_generation_settings(artifact).sampling
    assert sampling_flags(own) == ["--temperature", "0.6", "--top-p", "0.9"] and not sampling_flags(Sampling())
    (method,) = artifact.manifest.methods
    llm = LanguageModel(VOCABULARY, CONTEXT, CHUNK, None, (), 0)
    for entry, refused in (("forward", False), ("other", True)):
        methods = tuple(
            dataclasses.replace(method, name=name, native=native)
            for name, native in (("prefill", "forward"), ("decode", entry))
        )
        changed = dataclasses.replace(
            artifact, manifest=dataclasses.replace(artifact.manifest, methods=methods, llm=llm)
        )
        if refused:
            with pytest.raises(DeviceError, match="two programs"):
                decoder_flags(changed)
        else:
            assert decoder_flags(changed)[:2] == ["--method", "forward"]
    assert is_language_model(artifact)
    stateless = dataclasses.replace(method, state=())
    assert not is_language_model(
        dataclasses.replace(artifact, manifest=dataclasses.replace(artifact.manifest, methods=(stateless,)))
    )


def test_numpy_still_draws_what_the_runner_does() -> None:
    """The runner's generator is NumPy's; should a release draw otherwise, the seeds of the two part."""
    assert np.random.default_rng(7).random(3).tolist() == [0.625095466604667, 0.8972138009695755, 0.7756856902451935]
