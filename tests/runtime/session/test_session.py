"""What a Session checks, converts and carries, on every target."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import edgex
from edgex.errors import RunError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_golden
from edgex.runtime.session.numerics import measure_sqnr_db

from model_support import TARGETS  # isort: skip

Exported = Callable[[str, str], Path]


@pytest.mark.parametrize("target", TARGETS)
def test_run_takes_numpy_torch_and_dlpack(exported: Exported, target: str) -> None:
    with edgex.load(exported("convnet", target)) as session:
        x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
        (expected,) = session.run(x)
        for given in (torch.from_numpy(x), torch.from_numpy(x).requires_grad_(True)):
            np.testing.assert_array_equal(session.run(given)[0], expected)
        np.testing.assert_array_equal(session.run(x=x)[0], expected)
        assert expected.dtype == np.float32 and expected.shape == (1, 5)


@pytest.mark.parametrize("target", TARGETS)
def test_other_floats_and_masks_are_refused(exported: Exported, target: str) -> None:
    x = torch.rand(1, 3, 8, 8)
    with edgex.load(exported("convnet", target)) as session:
        for dtype, name in ((torch.bfloat16, "bfloat16"), (torch.float16, "float16"), (torch.float64, "float64")):
            with pytest.raises(RunError, match=f"is {name}, the artifact takes float32"):
                session.run(x.to(dtype))
        masked = np.ma.masked_greater(x.numpy(), 0.5)
        with pytest.raises(RunError, match="masked array") as caught:
            session.run(masked)
        assert caught.value.fix is not None and "x.filled(0)" in caught.value.fix
        np.testing.assert_array_equal(session.run(np.ma.array(x.numpy()))[0], session.run(x)[0])


@pytest.mark.parametrize("target", TARGETS)
def test_memory_order_does_not_change_the_numbers(exported: Exported, target: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    with edgex.load(exported("convnet", target)) as session:
        (expected,) = session.run(x)
        channels_last = torch.from_numpy(x).to(memory_format=torch.channels_last)
        fortran = np.asfortranarray(x)
        reversed_view = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
        for other in (channels_last, fortran, reversed_view):
            (actual,) = session.run(other)
            sqnr = measure_sqnr_db(expected, actual)
            assert sqnr > 120, f"{sqnr:.1f} dB"


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_are_the_callers_own(exported: Exported, target: str) -> None:
    random = np.random.default_rng(0)
    one, two = (random.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(2))
    with edgex.load(exported("convnet", target)) as session:
        (first,) = session.run(one)
        kept = first.copy()
        session.run(two)
        np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_are_not_written_and_read_only_ones_are_taken(exported: Exported, target: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    before = x.copy()
    x.flags.writeable = False
    with edgex.load(exported("convnet", target)) as session:
        session.run(x)
    np.testing.assert_array_equal(x, before)


X = np.zeros((1, 3, 8, 8), np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        ((), {}, "missing input: x"),
        ((X, X), {}, "2 inputs given, 1 expected"),
        ((X,), {"x": X}, "given twice"),
        ((), {"y": X}, "unknown input 'y'"),
        ((X.astype(np.float64),), {}, "is float64, the artifact takes float32"),
        ((X.astype(np.int64),), {}, "is int64, the artifact takes float32"),
        ((X[0],), {}, "has shape (3, 8, 8)"),
        ((X[:, :2],), {}, "has shape (1, 2, 8, 8)"),
        ((np.zeros((2, 3, 8, 8), np.float32),), {}, "has shape (2, 3, 8, 8)"),
        (("x",), {}, "is a str, not a tensor"),
    ],
)
def test_wrong_inputs_are_refused(exported: Exported, target: str, args: tuple, kwargs: dict, sentence: str) -> None:
    with edgex.load(exported("convnet", target)) as session, pytest.raises(RunError) as caught:
        session.run(*args, **kwargs)
    assert sentence in caught.value.what


@pytest.mark.parametrize("target", TARGETS)
def test_dynamic_dimensions_are_held_to_their_bounds(exported: Exported, target: str) -> None:
    random = np.random.default_rng(0)

    def inputs(batch: int, other: int | None = None) -> dict[str, np.ndarray]:
        return {
            "x": random.standard_normal((batch, 6)).astype(np.float32),
            "scale": random.random((batch if other is None else other, 1)).astype(np.float32),
        }

    with edgex.load(exported("dynamic", target)) as session:
        for batch in (1, 4, 8):
            logits, norm = session.run(**inputs(batch))
            assert logits.shape == (batch, 3) and norm.shape == (batch,)
        for wrong, sentence in ((inputs(0), "outside batch=1..8"), (inputs(9), "outside batch=1..8")):
            with pytest.raises(RunError, match=sentence):
                session.run(**wrong)
        with pytest.raises(RunError, match="dimension 'batch' is 3 in input 'x' and 4 in input 'scale'"):
            session.run(**inputs(3, 4))
        assert [spec.name for spec in session.outputs] == ["logits", "norm"]


@pytest.mark.parametrize("target", TARGETS)
def test_state_is_carried_reset_and_not_shared(exported: Exported, target: str) -> None:
    x = np.ones(4, np.float32)
    path = exported("counter", target)
    with edgex.load(path) as one, edgex.load(path) as two:
        counts = [float(one.run(x)[1][0]) for _ in range(3)]
        assert counts == [6.0, 7.0, 8.0]
        assert float(two.run(x)[1][0]) == 6.0  # a second Session has state of its own
        one.reset()
        total, count = one.run(x)
        assert float(count[0]) == 6.0
        np.testing.assert_allclose(total, 6.0 * x)
        assert float(two.run(x)[1][0]) == 7.0  # and is not reset with the first


@pytest.mark.parametrize("target", TARGETS)
def test_a_closed_session_says_so(exported: Exported, target: str) -> None:
    session = edgex.load(exported("counter", target))
    session.close()
    session.close()
    for use in (lambda: session.run(np.ones(4, np.float32)), session.reset):
        with pytest.raises(RunError, match="closed"):
            use()


@pytest.mark.parametrize("target", TARGETS)
def test_two_threads_with_a_session_each_get_right_results(exported: Exported, target: str) -> None:
    path = exported("convnet", target)
    random = np.random.default_rng(0)
    inputs = [random.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(20)]
    with edgex.load(path) as session:
        expected = [session.run(x)[0] for x in inputs]
    wrong: list[float] = []

    def serve() -> None:
        with edgex.load(path) as session:
            for x, reference in zip(inputs, expected, strict=True):
                sqnr = measure_sqnr_db(reference, session.run(x)[0])
                if sqnr < 120:
                    wrong.append(sqnr)

    threads = [threading.Thread(target=serve) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"SQNR {wrong} dB"


@pytest.mark.parametrize("target", TARGETS)
def test_threads_below_one_are_refused(exported: Exported, target: str) -> None:
    with pytest.raises(RunError, match="threads must be at least 1"):
        edgex.load(exported("convnet", target), threads=0)


@pytest.mark.parametrize("target", TARGETS)
def test_executed_on_names_who_ran(exported: Exported, target: str) -> None:
    words = {"reference": "torch", "xnnpack": "XnnpackBackend", "onnx-cpu": "CPUExecutionProvider"}
    with edgex.load(exported("convnet", target)) as session:
        assert words[target] in session.executed_on


def test_golden_outputs_are_the_same_on_every_target(exported: Exported) -> None:
    golden = [read_golden(open_artifact(exported("dynamic", target))) for target in TARGETS]
    names = [[case.name for case in cases] for cases in golden]
    assert names[0] == names[1] == names[2]
    for step, other in zip(golden[0][0].steps, golden[1][0].steps, strict=True):
        for name, value in step.outputs.items():
            np.testing.assert_array_equal(value, other.outputs[name])
