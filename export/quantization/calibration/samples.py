"""Calibration data: where it comes from, one sample at a time, and what is wrong with it.

```
calibration_data() in the model's file      a list, a generator, anything that can be gone through
--calibration data.npz                      arrays by input name; the first axis counts samples, and a batch of 1
                                            may be left out: [8, 3, 224, 224] for an input [1, 3, 224, 224]
--calibration file.py:fn                    a function as calibration_data
--calibration random:32                     the example's values in random order: says so everywhere
```

A sample has one of the forms of example inputs: a tuple, a dict, `(args, kwargs)`, or a tensor. Only one sample is in
memory at a time.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.errors import EdgexError, UsageError, nearest_name
from edgex.export.quantization.calibration.npz_rows import open_rows

if TYPE_CHECKING:
    import torch

    from edgex.export.source.eager import EagerModel
    from edgex.export.source.source import ModelSource
    from edgex.runtime.artifact.specs import Dim, TensorSpec

# Below this many samples ranges depend on which ones they happen to be.
FEW_SAMPLES = 8
# A generator without an end must end somewhere.
MOST_SAMPLES = 512
SEED = 20260713
# Held out for the proof: samples on which nothing was measured.
HELD_OUT_EVERY = 10
MOST_HELD_OUT = 3

_FUNCTION = re.compile(r"^(?P<file>.+\.py):(?P<name>\w+)$")
_RANDOM = re.compile(r"^random:(?P<count>\d+)$")


@dataclass(frozen=True)
class CalibrationData:
    """Samples that can be gone through.

    Attributes:
        origin: Where they come from, for messages and the manifest.
        open: Starts over, and gives one sample after the other in the forms of example inputs.
        flat: A sample is a list of tensors in the order of the model's inputs instead.
        random: Nothing was measured: the samples are random.
    """

    origin: str
    open: Callable[[], Iterable[Any]]
    flat: bool = False
    random: bool = False


def check_calibration(value: Any, flag: str = "--calibration") -> None:
    """Check the value of `--calibration`, or of another flag that takes the same, before anything slow.

    Raises:
        UsageError: It has none of the forms, or the file is not there.
    """
    if not isinstance(value, str):
        if _is_array(value):
            raise _refuse_array(flag.removeprefix("--").replace("-", "_"), value)  # only Python code has arrays
        return
    if match := _RANDOM.match(value):
        if int(match["count"]) == 0:
            raise UsageError(f"{flag} random:0 gives no samples", fix=f"{flag} random:32")
        return
    match = _FUNCTION.match(value)
    path = Path(match["file"] if match else value)
    if match is None and path.suffix != ".npz":
        raise UsageError(
            f"{flag} {value}: this is no data",
            fix="give data.npz, file.py:function or random:N, or define calibration_data() in the model's file",
        )
    if not path.is_file():
        near = sorted(file.name for file in path.parent.glob(f"*{path.suffix}")) if path.parent.is_dir() else []
        raise UsageError(
            f"{flag}: no such file: {path}", why=nearest_name(path.name, near) if near else None,
            fix="check the path",
        )  # fmt: skip


def of_method(value: Any, method: str | None) -> Any:
    """What is given for one of several methods: of a dict by method its own entry, of random data the same.

    Args:
        value: As `find_calibration` takes it, or a dict by method.
        method: Its name; None where the model has one method.

    Raises:
        UsageError: A file says nothing of methods, or the method is not in the dict.
    """
    if method is None or value is None:
        return value
    if isinstance(value, str):
        if _RANDOM.match(value):
            return value
        raise UsageError(
            f"--calibration {value} does not go with several methods",
            fix='define calibration_data = {"METHOD": samples, …} in the file, or use --calibration random:32',
        )
    if not isinstance(value, Mapping) or method not in value:
        has = f"there are {', '.join(map(str, value))}" if isinstance(value, Mapping) else "it is no dict by method"
        raise UsageError(f"there is no calibration data for method {method!r}", why=has, fix="give each method its own")
    return value[method]


def find_calibration(value: Any, source: ModelSource, eager: EagerModel, name: str = "calibration") -> CalibrationData:
    """The data that the user gave, else the model file's.

    Args:
        value: `--calibration`, or what Python code hands over: a function or something that can be gone through.
        source: The model, whose file may define `calibration_data`.
        eager: Gives the example, from which random samples are made.
        name: What Python objects are called in messages.

    Raises:
        UsageError: There is none, or it cannot be opened.
    """
    if value is None and source.calibration_data is None:
        raise UsageError(
            "this recipe needs calibration data, and there is none",
            source.description,
            "define `calibration_data()` in the model's file, which gives some tens of typical inputs, or use "
            "--calibration data.npz or file.py:function; --calibration random:32 calibrates on random data and says so",
        )
    if value is None:
        return _of_object(source.calibration_data, "calibration_data", source.source_root)
    if not isinstance(value, str):
        return _of_object(value, name, source.source_root)
    if match := _RANDOM.match(value):
        return _random(eager, int(match["count"]))
    if match := _FUNCTION.match(value):
        return _of_function(Path(match["file"]), match["name"])
    return _of_npz(Path(value), eager)


def _of_object(value: Any, name: str, source_root: Path) -> CalibrationData:
    """A function or something iterable; what it raises is reported with its line."""
    from edgex.export.source.user_file import run_user_code

    label = f"{name}()" if callable(value) else name
    if isinstance(value, Iterator):
        raise UsageError(
            f"{label} is an object of type {type(value).__name__}, which can be gone through only once",
            fix="give the function that makes it, or a list",
        )

    def samples() -> Iterator[Any]:
        given = run_user_code(value, label, source_root) if callable(value) else value
        if _is_array(given):
            raise _refuse_array(label, given)
        # A tuple or a dict is one sample of another form; going through it would calibrate on its parts.
        if isinstance(given, (str, bytes, tuple, Mapping)) or not isinstance(given, Iterable):
            raise UsageError(
                f"{label} gives an object of type {type(given).__name__}",
                fix="give a list or a generator of samples, each in the form of the example inputs",
            )
        steps = run_user_code(lambda: iter(given), label, source_root)
        end = object()
        while (sample := run_user_code(lambda: next(steps, end), label, source_root)) is not end:
            yield sample

    return CalibrationData(label, samples)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _refuse_array(name: str, value: Any) -> UsageError:
    """One tensor may be one sample or a row for each: of a sequence, its steps would be calibrated on one by one."""
    return UsageError(
        f"{name} is one {type(value).__name__}, not a list of samples",
        why="nothing says whether it is one sample, or each of its rows is",
        fix="give [x] for one sample, or list(x.split(1)) for one of each row",
    )


def _of_function(path: Path, name: str) -> CalibrationData:
    from edgex.export.source.user_file import load_file

    namespace = load_file(path)
    if name not in namespace:
        names = [key for key, found in namespace.items() if callable(found)]
        raise UsageError(f"{path.name} has no {name!r}", why=nearest_name(name, names))
    data = _of_object(namespace[name], name, path.resolve().parent)
    return CalibrationData(f"{path.name}:{name}", data.open)


def _of_npz(path: Path, eager: EagerModel) -> CalibrationData:
    """Arrays by input name, read from the file sample by sample."""
    names = [spec.name for spec in eager.inputs]

    def samples() -> Iterator[Any]:
        import torch

        try:
            with ExitStack() as stack:
                rows = open_rows(path, names, stack)
                for sample in zip(*rows, strict=True):
                    yield [
                        torch.from_numpy(row).to(torch.bfloat16)
                        if spec.dtype == "bfloat16" and row.dtype == np.float32
                        else torch.from_numpy(row)
                        for spec, row in zip(eager.inputs, sample, strict=True)
                    ]
        except (OSError, ValueError, TypeError, zipfile.BadZipFile, zlib.error) as error:
            raise UsageError(
                f"{path.name} cannot be read as an .npz file", str(path), why=f"{type(error).__name__}: {error}"
            ) from error

    return CalibrationData(path.name, samples, flat=True)


def _random(eager: EagerModel, count: int) -> CalibrationData:
    """The example's values in another order: its range, and none of its structure."""

    def samples() -> Iterator[Any]:
        import torch

        generator = torch.Generator().manual_seed(SEED)
        for _ in range(count):
            made = []
            for tensor in eager.example:
                order = torch.randperm(tensor.numel(), generator=generator)
                made.append(tensor.reshape(-1)[order].reshape(tensor.shape))
            yield made

    return CalibrationData(f"random:{count}", samples, flat=True, random=True)


class Samples:
    """Checked samples, one at a time, of which every tenth is held out for the proof.

    Args:
        data: Where they come from.
        eager: Gives the inputs' names, dtypes and shapes.
        source_root: Folder of the user's file.
        limit: Most samples to read; None is `MOST_SAMPLES`.
        progress: Called with each sample's number, and with None after the last one.
        noun: What a sample is called in messages.
        hold_out: Hold some out; else all are given.

    Attributes:
        used: How many samples the last pass gave for calibration.
        held_out: Samples that it did not give, with their numbers: tensors in the order of the inputs.
        unbatched: Inputs whose samples came without the batch dimension of 1, and were given one.
    """

    def __init__(
        self,
        data: CalibrationData,
        eager: EagerModel,
        source_root: Path,
        limit: int | None = None,
        progress: Callable[[int | None, Samples], None] = lambda _number, _samples: None,
        noun: str = "calibration sample",
        hold_out: bool = True,
    ) -> None:
        self.data = data
        self.used = 0
        self.held_out: list[tuple[int, list[torch.Tensor]]] = []
        self.unbatched: dict[str, None] = {}
        self._eager, self._source_root, self._limit, self._progress = eager, source_root, limit, progress
        self._noun, self._most_held_out = noun, MOST_HELD_OUT if hold_out and not data.random else 0
        self._number = 0

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        """Start over, and give tensors in the order of the model's inputs.

        Raises:
            UsageError: A sample is not what the model takes, or holds NaN or infinity; or there is none.
        """
        samples = iter(self.data.open())
        self.used = 0
        self.held_out = []
        end = object()
        for number in range(1, (self._limit or MOST_SAMPLES) + 1):
            sample = next(samples, end)
            if sample is end:
                break
            self._number = number
            self._progress(number, self)
            sample = read_sample(sample, self.data.flat, self._label, self._eager, self.unbatched)
            if number % HELD_OUT_EVERY == 0 and len(self.held_out) < self._most_held_out:
                self.held_out.append((number, sample))
            else:
                self.used += 1
                yield sample
            del sample
        if self.used == 0:
            raise UsageError(f"{self.data.origin} gives no samples", fix="some tens of typical inputs are needed")
        self._progress(None, self)

    @property
    def _label(self) -> str:
        return f"{self._noun} {self._number} of {self.data.origin}"

    def explain(self, error: Exception, sample: list[torch.Tensor]) -> EdgexError | None:
        """The error for a sample on which the model itself raises, with the user's line; None where eager runs it."""
        from edgex.export.source.user_code.user_line import line_of_error

        self._eager.reset()
        try:
            self._eager.run(sample)
        except Exception as raised:  # the user's own code
            line = line_of_error(raised, self._source_root)
            return UsageError(
                f"{self._label} cannot be run",
                None if line is None else str(line),
                "give inputs that the model takes",
                why=f"{type(raised).__name__}: {(str(raised).splitlines() or [''])[0]}",
            )
        finally:
            self._eager.reset()
        return None


def read_sample(
    sample: Any, flat: bool, label: str, eager: EagerModel, unbatched: dict[str, None]
) -> list[torch.Tensor]:
    """The sample's tensors in the order of the inputs, each as the model takes it.

    Args:
        sample: As the data gives it.
        flat: It is a list of tensors in that order already.
        label: What it is called in messages.
        eager: Gives names, dtypes and shapes.
        unbatched: Gets the names of the inputs that came without a batch dimension.

    Raises:
        UsageError: It is not what the model takes, or holds NaN or infinity.
    """
    from edgex.export.source.example_inputs import read_call

    tensors = sample
    if not flat:
        args, kwargs = read_call(_torch_leaves(sample), label)
        try:
            tensors = eager.flatten(args, kwargs)
        except ValueError:
            tensors = []
        if len(tensors) != len(eager.inputs):
            names = ", ".join(spec.name for spec in eager.inputs)
            raise UsageError(
                f"{label} has another structure than the example inputs",
                why=f"the model takes {names}; the sample is {_words(sample)}",
                fix="give each sample in the form of the example inputs",
            )
    found = []
    for spec, tensor in zip(eager.inputs, tensors, strict=True):
        if _lacks_batch(spec, tensor):
            tensor = tensor.unsqueeze(0)
            unbatched.setdefault(spec.name)
        _check_tensor(spec, tensor, label)
        found.append(tensor.detach().contiguous())
    return found


def _lacks_batch(spec: TensorSpec, tensor: torch.Tensor) -> bool:
    """Whether a sample is one row of what the model takes: `[3, 224, 224]` for an input `[1, 3, 224, 224]`."""
    if tensor.dim() != len(spec.shape) - 1:
        return False
    first = spec.shape[0]
    return (first == 1 if isinstance(first, int) else first.min <= 1) and _fits(tuple(tensor.shape), spec.shape[1:])


def _fits(shape: tuple[int, ...], dims: tuple[int | Dim, ...]) -> bool:
    return len(shape) == len(dims) and all(
        size == dim if isinstance(dim, int) else dim.min <= size <= dim.max
        for size, dim in zip(shape, dims, strict=True)
    )


def _check_tensor(spec: TensorSpec, tensor: torch.Tensor, label: str) -> None:
    """Raise UsageError unless dtype and shape are the input's and all values are finite."""
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype != spec.dtype:
        raise UsageError(f"{label}: input {spec.name!r} is {dtype}, the example is {spec.dtype}")
    shape = tuple(tensor.shape)
    if not _fits(shape, spec.shape):
        raise UsageError(f"{label}: input {spec.name!r} has shape {shape}, the model takes {spec}")
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise UsageError(
            f"{label}: input {spec.name!r} holds {'NaN' if bool(tensor.isnan().any()) else 'infinity'}",
            why="no range can be measured with it",
            fix="leave the sample out, or clean the data",
        )


def _words(sample: Any) -> str:
    """What a sample is, for a message."""
    if isinstance(sample, Mapping):
        return f"a dict with {', '.join(map(str, sample)) or 'nothing'}"
    if isinstance(sample, (tuple, list)):
        return f"a {type(sample).__name__} of {len(sample)}"
    return f"an object of type {type(sample).__name__}"


def _torch_leaves(sample: Any) -> Any:
    """NumPy arrays as tensors: data sets often hold them."""
    import torch

    from edgex.delegates.graph.torch_internals import pytree

    def as_torch(leaf: Any) -> Any:
        if np.ma.is_masked(leaf):
            raise UsageError("a sample is a masked array", fix="say what stands in the masked places: x.filled(0)")
        return torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf

    return pytree.tree_map(as_torch, sample)
