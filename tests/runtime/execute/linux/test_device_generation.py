"""Generation on a Linux device: this machine without Python. What strangers answer is played by a stand-in link."""

from __future__ import annotations

import json

import pytest
from decoder_support import CONTEXT, VOCABULARY, eager_greedy
from device_support import needs_compiler

import edgex as edgex_package
from edgex.errors import DeviceError, RunError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.execute.address import open_executor
from edgex.runtime.execute.base import GeneratesText
from edgex.runtime.execute.linux.link import LocalLink, Streamed
from edgex.runtime.execute.request import TextRequest
from edgex.runtime.generation.sampling import Sampling

pytestmark = needs_compiler
PROMPT = (7, 3, 58, 11, 0, 42, 19)


@pytest.fixture(scope="module")
def artifact(exported):
    return open_artifact(exported("decoder", "xnnpack"))


def test_the_ids_are_those_of_here(artifact) -> None:
    drawn = Sampling(1.2, top_k=40)
    with open_executor("local-native") as device:
        assert isinstance(device, GeneratesText)
        run = device.generate(artifact, TextRequest(PROMPT, 100, threads=1))
        assert run.finish is None and not run.spent.prefilled
        assert list(run) == eager_greedy(PROMPT, CONTEXT + 1 - len(PROMPT)) and run.finish == "context"
        other = device.generate(artifact, TextRequest(PROMPT, 20, drawn, threads=1))
        ids, seed = list(other), other.seed
    assert run.seed is None and run.load_seconds > 0
    assert (run.spent.prefilled, run.spent.decoded) == (len(PROMPT), CONTEXT - len(PROMPT))
    assert min(run.spent.prefill_seconds, run.spent.decode_seconds, run.spent.sampling_seconds) > 0
    assert run.result.threads == 1 and run.result.place.endswith("(on local-native)")
    assert run.result.describe_device()["model_sha256"] == artifact.manifest.file(".pte").sha256
    with edgex_package.load(artifact.path, threads=1) as session:
        sampling = Sampling(1.2, top_k=40, seed=seed)
        assert ids == list(session.generator().stream(PROMPT, max_new=20, sampling=sampling))


def test_a_text_that_is_left_early_leaves_nothing(artifact) -> None:
    with open_executor("local-native") as device:
        run = device.generate(artifact, TextRequest(PROMPT, 30))
        tokens = iter(run)
        assert [next(tokens), next(tokens)] == eager_greedy(PROMPT, 2)
        tokens.close()
        assert run.finish is None and (run.spent.prefilled, run.spent.decoded) == (len(PROMPT), 1)
        assert run.spent.prefill_seconds > 0 and run.load_seconds > 0
        assert len(list(device.generate(artifact, TextRequest(PROMPT, 3)))) == 3, "the next one runs"


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (TextRequest((VOCABULARY,)), RunError, "no such id"),
        (TextRequest((1,) * (CONTEXT + 1)), RunError, "do not fit the context"),
        (TextRequest(()), DeviceError, "the prompt is empty"),
        (TextRequest(PROMPT, sampling=Sampling(1.0, seed=10**30)), DeviceError, "at most 18 digits"),
    ],
    ids=["outside", "long", "empty", "seed"],
)
def test_what_is_refused(artifact, request_, error, words) -> None:
    with open_executor("local-native") as device, pytest.raises(error) as caught:
        list(device.generate(artifact, request_))
    assert words in caught.value.what


def test_artifacts_without_the_runner(exported) -> None:
    onnx = open_artifact(exported("decoder", "onnx-cpu"))
    with open_executor("local-native") as device:
        with pytest.raises(DeviceError, match="no artifact of onnxruntime"):
            device.generate(onnx, TextRequest(PROMPT))
        with pytest.raises(RunError, match="no language model"):
            device.generate(open_artifact(exported("convnet", "xnnpack")), TextRequest(PROMPT))


ENDED = {
    "event": "generated", "finish": "length", "seed": None, "decoded": 1, "load_seconds": 0.1, "prefill_seconds": 0.1,
    "decode_seconds": 0.1, "sampling_seconds": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        ([{"event": "token", "id": VOCABULARY, "seconds": 0.1}], 0, "nobody asked for"),
        ([{"event": "token", "id": 1, "seconds": 0.1}] * 9, 0, "nobody asked for"),
        ([{"event": "token", "id": -1, "seconds": 0.1}], 0, "outside 0.."),
        ([{"event": "token", "id": 1}], 0, "seconds"),
        ([{**ENDED, "finish": "because"}], 0, "no reason why a text ends"),
        ([{"event": "done"}], 0, "does not say how the text ended"),
        ([{"event": "model", "sha256": "0" * 64}, ENDED, {"event": "done"}], 0, "SHA-256 is 000"),
        (
            [{"event": "error", "kind": "engine", "what": "generate: the best score is nan", "code": 0}],
            6,
            "score is nan",
        ),
        ([], 137, "killed by SIGKILL"),
        ([], 0, "did not end well"),
    ],
)
def test_answers_of_a_stand_in(artifact, lines, code, words, monkeypatch) -> None:
    def answer(_link, job):
        run_id = job.commands[0][job.commands[0].index("--run-id") + 1]
        for line in [{"event": "start"}, *lines]:
            yield json.dumps({**line, **({"run_id": run_id} if line["event"] in ("start", "done") else {})})
        return Streamed(code, (code,), {}, "")

    monkeypatch.setattr(LocalLink, "stream", answer)
    with open_executor("local-native") as device:
        run = device.generate(artifact, TextRequest(PROMPT, 3))
        with pytest.raises((DeviceError, RunError)) as caught:
            list(run)
    assert words in f"{caught.value.what} {caught.value.why}"
