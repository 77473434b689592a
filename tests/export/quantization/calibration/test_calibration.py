"""Calibration data: every form of it, what is wrong with it, and that one sample at a time is in memory."""

from __future__ import annotations

import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from edgex.errors import UsageError
from edgex.export.capture.program import Capture, capture
from edgex.export.quantization.calibration.samples import (
    MOST_HELD_OUT,
    MOST_SAMPLES,
    Samples,
    check_calibration,
    find_calibration,
)
from edgex.export.source.source import ModelSource, wrap_model

HERE = Path(__file__).parent


class Words(nn.Module):
    """An embedding, which takes integers up to 9, and a float input with a dynamic batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.embedding(ids).sum(1) * scale


ARGS = (torch.arange(6).reshape(2, 3), torch.rand(2, 1))


@pytest.fixture(scope="module")
def captured() -> Capture:
    batch = torch.export.Dim("batch", min=1, max=4)
    return capture(Words().eval(), ARGS, dynamic_shapes=({0: batch}, {0: batch}), source_root=HERE)


@pytest.fixture
def source() -> ModelSource:
    return wrap_model(Words().eval(), ARGS, {})


def sample(batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 10, (batch, 3)), torch.rand(batch, 1)


def samples_of(value: Any, captured: Capture, source: ModelSource, limit: int | None = None) -> Samples:
    return Samples(find_calibration(value, source, captured.eager), captured.eager, HERE, limit)


def failure(value: Any, captured: Capture, source: ModelSource) -> UsageError:
    with pytest.raises(UsageError) as caught:
        list(samples_of(value, captured, source))
    assert caught.value.exit_code == 2
    return caught.value


def test_masks_are_not_ignored(captured: Capture, source: ModelSource) -> None:
    ids, scale = sample()
    masked = np.ma.masked_greater(scale.numpy(), -1.0)
    assert "masked array" in failure([(ids, masked)], captured, source).what


@pytest.mark.parametrize("data", [torch.rand(4, 3), np.zeros((4, 3), np.float32), lambda: torch.rand(4, 3)])
def test_one_tensor_is_no_list_of_samples(data: Any, captured: Capture, source: ModelSource) -> None:
    """Going through it would calibrate on the rows of what may be one sample."""
    error = failure(data, captured, source)
    assert "not a list of samples" in error.what and "[x] for one sample" in str(error.fix)
    if not callable(data):
        with pytest.raises(UsageError, match="calibration is one"):
            check_calibration(data)


def test_every_tenth_sample_is_held_out(captured: Capture, source: ModelSource) -> None:
    data = [sample() for _ in range(45)]
    samples = samples_of(data, captured, source)
    used = list(samples)
    assert [number for number, _ in samples.held_out] == [10, 20, 30]
    assert len(samples.held_out) == MOST_HELD_OUT
    assert samples.used == len(used) == 42
    assert torch.equal(samples.held_out[0][1][0], data[9][0])
    assert not any(tensors[0] is data[9][0] for tensors in used)
    assert len(list(samples)) == 42, "a second pass starts over"


@pytest.mark.parametrize("form", ["tuple", "pair", "numpy", "function", "generator function"])
def test_forms_of_samples(form: str, captured: Capture, source: ModelSource) -> None:
    ids, scale = sample()
    forms: dict[str, Any] = {
        "tuple": [(ids, scale)],
        "pair": [((ids, scale), {})],
        "numpy": [(ids.numpy(), scale.numpy())],
        "function": lambda: [(ids, scale)],
        "generator function": lambda: iter([(ids, scale)]),
    }
    (tensors,) = list(samples_of(forms[form], captured, source))
    assert torch.equal(tensors[0], ids)
    assert torch.equal(tensors[1], scale)


def test_rows_without_the_batch_dimension_are_samples(captured: Capture, source: ModelSource, tmp_path: Path) -> None:
    ids, scale = torch.randint(0, 10, (12, 3)), torch.rand(12, 1)
    np.savez(tmp_path / "rows.npz", ids=ids.numpy(), scale=scale.numpy())
    samples = samples_of(str(tmp_path / "rows.npz"), captured, source)
    tensors = list(samples)
    assert [tuple(t.shape) for t in tensors[0]] == [(1, 3), (1, 1)]
    assert torch.equal(tensors[3][0][0], ids[3])
    assert list(samples.unbatched) == [spec.name for spec in captured.eager.inputs]
    assert not samples_of([sample(1)], captured, source).unbatched


def test_a_dynamic_batch_may_vary(captured: Capture, source: ModelSource) -> None:
    assert [len(tensors[0]) for tensors in samples_of([sample(1), sample(4)], captured, source)] == [1, 4]


def test_one_sample_at_a_time_is_alive(captured: Capture, source: ModelSource) -> None:
    alive: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
    most = 0

    def stream() -> Iterator[Any]:
        nonlocal most
        for _ in range(60):
            ids, scale = sample()
            alive.add(scale)
            yield ids, scale
            del ids, scale
            most = max(most, len(alive))

    for tensors in samples_of(stream, captured, source):
        del tensors
    # One that is in use, and those held out for the proof.
    assert most <= MOST_HELD_OUT + 2


def test_a_stream_without_an_end_ends(captured: Capture, source: ModelSource) -> None:
    def stream() -> Iterator[Any]:
        while True:
            yield sample()

    samples = samples_of(stream, captured, source)
    assert sum(1 for _ in samples) + len(samples.held_out) == MOST_SAMPLES
    limited = samples_of(stream, captured, source, limit=5)
    assert len(list(limited)) == 5


def test_npz(captured: Capture, source: ModelSource, tmp_path: Path) -> None:
    ids, scale = np.random.default_rng(0).integers(0, 10, (3, 2, 3)), np.ones((3, 2, 1), np.float32)
    for name, save in (("plain", np.savez), ("compressed", np.savez_compressed)):
        path = tmp_path / f"{name}.npz"
        save(path, ids=ids, scale=scale)
        found = list(samples_of(str(path), captured, source))
        assert len(found) == 3
        assert np.array_equal(found[2][0].numpy(), ids[2])
        assert found[2][1].dtype == torch.float32


def test_file_and_function(captured: Capture, source: ModelSource, tmp_path: Path) -> None:
    path = tmp_path / "data.py"
    path.write_text("import torch\ndef some():\n    yield torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 1)\n")
    samples = samples_of(f"{path}:some", captured, source)
    assert len(list(samples)) == 1
    assert samples.data.origin == "data.py:some"
    with pytest.raises(UsageError, match=r"data\.py has no 'sone'"):
        samples_of(f"{path}:sone", captured, source)


def test_random_data_says_so_and_has_the_examples_values(captured: Capture, source: ModelSource) -> None:
    samples = samples_of("random:12", captured, source)
    found = list(samples)
    assert samples.data.random
    assert (samples.used, samples.held_out) == (12, [])
    assert torch.equal(found[0][0].sort().values.flatten().sort().values, ARGS[0].flatten())
    assert not torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[3][0], list(samples)[3][0]), "seeded"


def test_no_data_is_refused_with_the_ways_to_give_some(captured: Capture, source: ModelSource) -> None:
    with pytest.raises(UsageError, match="needs calibration data, and there is none") as caught:
        find_calibration(None, source, captured.eager)
    assert "calibration_data()" in str(caught.value.fix)
    assert "random:32" in str(caught.value.fix)


def spoiled(what: str) -> Any:
    ids, scale = sample()
    return {
        "nan": (ids, scale * float("nan")),
        "inf": (ids, scale / 0),
        "dtype": (ids.int(), scale),
        "static shape": (ids[:, :2], scale),
        "dynamic shape": sample(5),
        "rank": (ids, scale[:, 0]),
        "missing": (ids,),
        "names": {"ids": ids, "scale": scale},
        "type": 7,
        "string": ("a", scale),
    }[what]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nan", "calibration sample 2 of calibration: input 'scale' holds NaN"),
        ("inf", "calibration sample 2 of calibration: input 'scale' holds infinity"),
        ("dtype", "input 'ids' is int32, the example is int64"),
        ("static shape", "input 'ids' has shape (2, 2), the model takes ids: int64[batch=1..4, 3]"),
        ("dynamic shape", "input 'ids' has shape (5, 3), the model takes ids: int64[batch=1..4, 3]"),
        ("rank", "input 'scale' has shape (2,), the model takes scale: float32[batch=1..4, 1]"),
        ("missing", "calibration sample 2 of calibration has another structure than the example inputs"),
        ("names", "calibration sample 2 of calibration has another structure than the example inputs"),
        ("type", "calibration sample 2 of calibration gives an object of type int as example inputs"),
        ("string", "calibration sample 2 of calibration has another structure than the example inputs"),
    ],
)
def test_bad_samples(what: str, message: str, captured: Capture, source: ModelSource) -> None:
    error = failure([sample(), spoiled(what)], captured, source)
    assert message in error.what


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "calibration gives no samples"),
        (5, "calibration gives an object of type int"),
        ((torch.zeros(1), torch.zeros(1)), "calibration gives an object of type tuple"),
        ({"ids": 1}, "calibration gives an object of type dict"),
        (iter([]), "calibration is an object of type list_iterator, which can be gone through only once"),
        (lambda: None, "calibration() gives an object of type NoneType"),
    ],
)
def test_no_samples_at_all(value: Any, message: str, captured: Capture, source: ModelSource) -> None:
    assert message in failure(value, captured, source).what


def test_a_function_that_raises_shows_the_users_line(captured: Capture, source: ModelSource) -> None:
    def broken() -> Iterator[Any]:
        yield sample()
        raise KeyError("no such scan")  # the line

    error = failure(broken, captured, source)
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "# the line" in text)
    assert error.what == "calibration() fails"
    assert str(error.where).startswith(f"{Path(__file__).name}:{line}: raise KeyError")
    assert error.why == "KeyError: 'no such scan'"


def test_bad_npz_files(captured: Capture, source: ModelSource, tmp_path: Path) -> None:
    ids, scale = np.zeros((3, 2, 3), np.int64), np.ones((3, 2, 1), np.float32)
    arrays: dict[str, dict[str, Any]] = {
        "has no array for the input 'scale'": {"ids": ids},
        "there is no input 'skale'": {"ids": ids, "scale": scale, "skale": scale},
        "the arrays hold different numbers of samples": {"ids": ids[:2], "scale": scale},
        "gives no samples": {"ids": ids[:0], "scale": scale[:0]},
        "input 'ids' is int32": {"ids": ids.astype(np.int32), "scale": scale},
        "input 'scale' is float64": {"ids": ids, "scale": scale.astype(np.float64)},
        "cannot be read sample by sample": {"ids": np.asfortranarray(np.zeros((3, 2, 3), np.int64)), "scale": scale},
        "input 'scale' holds NaN": {"ids": ids, "scale": scale * np.nan},
    }
    for message, content in arrays.items():
        np.savez(tmp_path / "data.npz", **content)
        assert message in failure(str(tmp_path / "data.npz"), captured, source).what
    (tmp_path / "data.npz").write_bytes(b"no zip")
    assert "cannot be read as an .npz file" in failure(str(tmp_path / "data.npz"), captured, source).what
    np.savez(tmp_path / "whole.npz", ids=ids, scale=scale)
    with zipfile.ZipFile(tmp_path / "whole.npz") as whole, zipfile.ZipFile(tmp_path / "cut.npz", "w") as cut:
        cut.writestr("ids.npy", whole.read("ids.npy")[:-8])
        cut.writestr("scale.npy", whole.read("scale.npy"))
    assert "the file ends before its last sample" in str(failure(str(tmp_path / "cut.npz"), captured, source).why)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("data.csv", "this is no data"),
        ("random", "this is no data"),
        ("random:0", "gives no samples"),
        ("nowhere.npz", "no such file: nowhere.npz"),
        ("nowhere.py:fn", "no such file: nowhere.py"),
        ("model.py", "this is no data"),
    ],
)
def test_flags_are_checked_before_anything_slow(value: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_calibration(value)


def test_integers_out_of_range_are_blamed_on_the_sample(captured: Capture, source: ModelSource) -> None:
    ids, scale = sample()
    samples = samples_of([(ids + 100, scale)], captured, source)
    (tensors,) = list(samples)
    error = samples.explain(IndexError("in the graph"), tensors)
    assert error is not None
    assert error.what == "calibration sample 1 of calibration cannot be run"
    assert str(error.why).startswith("IndexError: index out of range")
    assert str(error.where).startswith(Path(__file__).name)
    assert samples.explain(RuntimeError("ours"), list(sample())) is None, (
        "where eager runs, the fault is not the data's"
    )
