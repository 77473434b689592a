"""Tensors on their way, and what a program on a device says: read right, and refused where it is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgex.errors import DeviceError, RunError
from edgex.runtime.artifact.specs import NUMPY_DTYPES, Dim, TensorSpec
from edgex.runtime.execute.base import no_progress
from edgex.runtime.execute.linux.link import Done
from edgex.runtime.execute.linux.transcript import Transcript
from edgex.runtime.execute.tensors import describe_inputs, pack_tensors, unpack_tensors


@pytest.mark.parametrize("dtype", sorted(set(NUMPY_DTYPES) - {"complex64"}))
def test_every_dtype_comes_back(dtype: str) -> None:
    spec = TensorSpec("x y", dtype, (2, 3))
    array = (np.arange(6).reshape(2, 3) - (0 if dtype in ("uint8", "bool") else 3)).astype(NUMPY_DTYPES[dtype])
    scalar = TensorSpec("s", "int64", ())
    packed = pack_tensors([spec, scalar], {"x y": array, "s": np.asarray(7)})
    (first, second) = unpack_tensors(packed * 2)
    assert first["x y"].dtype == NUMPY_DTYPES[dtype] and second["s"] == 7
    np.testing.assert_array_equal(first["x y"], array)


def test_bfloat16_is_rounded_as_torch_rounds() -> None:
    import torch

    values = np.asarray([1.0, 1.00390625, 1.01171875, -3.14159, 1e-40, 3.4e38, np.inf, np.nan], np.float32)
    spec = TensorSpec("x", "bfloat16", (values.size,))
    (found,) = unpack_tensors(pack_tensors([spec], {"x": values}))
    np.testing.assert_array_equal(found["x"], torch.from_numpy(values).bfloat16().float().numpy())


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: b"x" + d, lambda d: d[:20]])
def test_damaged_tensors(damage) -> None:  # type: ignore[no-untyped-def]
    data = pack_tensors([TensorSpec("x", "float32", (2,))], {"x": np.ones(2, np.float32)})
    with pytest.raises(ValueError):
        unpack_tensors(damage(data))


def test_inputs_in_the_runners_words() -> None:
    specs = [TensorSpec("x", "float32", (Dim("batch", 1, 8), 6)), TensorSpec("s", "int64", ())]
    assert describe_inputs(specs) == ["x:float32:batch=1..8,6", "s:int64:scalar"]


def _said(*events: dict[str, object]) -> Transcript:
    reader = Transcript("right", "ssh:box", "net.edgex", no_progress)
    reader("a banner of some library")
    for event in events:
        reader(json.dumps(event))
    return reader


START, END = {"event": "start", "run_id": "right"}, {"event": "done", "run_id": "right"}


def test_a_good_answer() -> None:
    first = {"event": "first", "seconds": 0.5, "peak_rss_bytes": 9}
    loaded = {"event": "loaded", "method_seconds": 0.2}
    reader = _said(START, loaded, first, {"event": "round", "seconds": [1, 2]}, END)
    reader.finish(Done(0, b"", ""))
    assert reader.events.rounds == [(1.0, 2.0)]
    assert reader.cold().first == 0.5 and reader.cold().program is None and reader.cold().stages == {"first": 9}


@pytest.mark.parametrize(
    ("events", "done", "kind", "words"),
    [
        ([START], Done(139, b"", "last words"), DeviceError, "killed by SIGSEGV"),
        ([START], Done(137, b"", ""), DeviceError, "memory ran out"),
        ([START], Done(132, b"", ""), DeviceError, "processor lacks"),
        ([START, {"event": "done", "run_id": "other"}], Done(0, b"", ""), DeviceError, "that of another run"),
        ([], Done(1, b"", "version `GLIBC_2.38' not found"), DeviceError, "bring its system up to date"),
        ([], Done(127, b"", "libgomp.so.1: cannot open shared object file"), DeviceError, "install the library"),
        ([START, {"event": "error", "kind": "input", "what": "SHA-256", "code": 0}], Done(2, b"", ""), DeviceError,
         "refused the run"),
        ([START, {"event": "error", "kind": "engine", "what": "run it", "code": 0x14}], Done(6, b"", "no kernel"),
         RunError, "OperatorMissing"),
        ([START, {"event": "error", "kind": "engine", "what": "run it", "code": 0}], Done(6, b"", ""), RunError,
         "could not run it"),
    ],
)  # fmt: skip
def test_bad_answers(events, done, kind, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(kind) as caught:
        _said(*events).finish(done)
    assert words in str(caught.value)
    assert caught.value.exit_code == (8 if kind is DeviceError else 6)
