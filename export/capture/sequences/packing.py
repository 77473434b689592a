"""`pack_padded_sequence` and `pad_packed_sequence`: how many rows a packed sequence has depends on the lengths.

torch.export has no size for them. So, while it follows, a packed sequence is its padded data and its lengths:

```
packed = pack_padded_sequence(x, lengths, batch_first=True)      # x: [batch, time, features], and nothing is moved
packed, h = self.gru(packed)                                     # aten.gru of whole sequences; see `recurrence`
y, _ = pad_packed_sequence(packed, batch_first=True)             # where(time < lengths, y, 0), to the longest length
```

What forward does with the rows themselves is done with padded ones where it is done row by row, and refused else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch
from torch.nn import functional
from torch.nn.utils import rnn
from torch.overrides import TorchFunctionMode

from edgex.errors import CaptureError
from edgex.export.capture.sequences.recurrence import run_layers
from edgex.export.capture.torch_internals import packs, pads, size_between

NOTICE = (
    "pack_padded_sequence's checks of the lengths are left out: where eager raises (a length of 0, or beyond the "
    "sequence), the artifact gives numbers"
)
FOUND_SIZE = (
    "pad_packed_sequence gives as many steps as the longest of the lengths has, a size that every run finds; "
    "total_length=x.size(1) keeps it fixed, which runs quicker"
)

_ROWS_FIX = (
    "compute on the padded tensor instead, before pack_padded_sequence or behind pad_packed_sequence(..., "
    "total_length=x.size(1)), with a mask of the lengths"
)
_RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
# What does the same to each row, whatever is in the others.
_BY_ROW = frozenset(
    (
        *(functional.linear, functional.dropout, functional.relu, functional.gelu, functional.silu),
        *(
            functional.embedding,
            torch.embedding,
            functional.leaky_relu,
            functional.elu,
            functional.layer_norm,
            torch.layer_norm,
            functional.hardtanh,
        ),
        *(torch.tanh, torch.sigmoid, torch.relu, torch.dropout, torch.exp, torch.abs, torch.neg),
    )
)


class PackedAsPadded(TorchFunctionMode):
    """Keeps packed sequences padded.

    Attributes:
        notices: What the user should know of those that were met, a sentence each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.notices: dict[str, None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        if func is torch.sort and _frame_of(rnn.pack_padded_sequence) is not None:
            return args[0], _Order(args[0].shape[0])
        if func is torch.as_tensor and _frame_of(rnn.pack_padded_sequence) is not None:
            return _lengths(args[0])
        if packs(func):
            self.notices.setdefault(NOTICE)
            return _pack(*args)
        if pads(func) and isinstance(args[0], _Rows):
            frame = _frame_of(rnn.pad_packed_sequence)
            rows, _, batch_first, padding_value, _ = args
            total_length = None if frame is None else frame.f_locals["total_length"]
            return self._pad(rows, batch_first, padding_value, total_length)
        if func in _RECURRENT and isinstance(args[0], _Rows):
            return _recur(func, *args)
        if func is torch.Tensor.__getitem__ and isinstance(args[1], _Order):
            return args[0]
        for one in (*args, *(kwargs or {}).values()):  # before the modes around this one see what is no tensor
            if isinstance(one, (_Rows, _Sizes, _Order)):
                return one.__torch_function__(func, types, args, kwargs)
        return func(*args, **(kwargs or {}))

    def _pad(
        self, rows: _Rows, batch_first: bool, padding_value: float, total_length: int | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x, lengths = rows.padded, rows.lengths
        time = x.shape[0]
        inside = torch.arange(time).reshape(-1, 1) < lengths
        x = torch.where(inside.reshape(*inside.shape, *[1] * (x.dim() - 2)), x, padding_value)
        if total_length is None:
            x = x.narrow(0, 0, self._longest(lengths, time))
        elif total_length != time:
            shorter = total_length < time
            more = (total_length - time, *x.shape[1:])
            x = x[:total_length] if shorter else torch.cat((x, x.new_full(more, padding_value)))
        return (x.transpose(0, 1) if batch_first else x), lengths

    def _longest(self, lengths: torch.Tensor, time: int) -> int:
        """How many steps the longest sequence has, of `time` at most; a number that only the run finds."""
        longest: int = lengths.max().item()  # type: ignore[assignment]  # a SymInt, while torch.export follows
        if isinstance(longest, int):
            return longest
        self.notices.setdefault(FOUND_SIZE)
        return size_between(longest, 1, time)


def _lengths(numbers: Any) -> torch.Tensor:
    """Lengths that forward has as numbers, `lengths.tolist()` among them: such are of a run."""
    if all(isinstance(number, int) for number in numbers):
        return torch.tensor(numbers, dtype=torch.int64)
    return torch.stack([torch.scalar_tensor(number, dtype=torch.int64) for number in numbers])


def _pack(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[_Rows, _Sizes]:
    x = x.transpose(0, 1) if batch_first else x
    if lengths.dim() != 1 or lengths.shape[0] != x.shape[1]:
        raise CaptureError(
            f"pack_padded_sequence has {lengths.numel()} lengths for {x.shape[1]} sequences",
            fix="give one length for each sequence",
        )
    return _Rows(x, lengths), _Sizes(x.shape[0], x.shape[1])


def _recur(
    layer: Callable[..., Any],
    rows: _Rows,
    _sizes: _Sizes,
    start: Any,
    parameters: list[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> Any:
    if train and dropout:
        raise CaptureError("dropout between recurrent layers draws random numbers", fix="put the layer in eval mode")
    starts = list(start) if isinstance(start, (list, tuple)) else [start]
    y, ends = run_layers(layer, rows.padded, rows.lengths, starts, parameters, has_biases, num_layers, bidirectional)
    return rows.like(y), *ends


def _frame_of(function: Any) -> FrameType | None:
    """The frame of a function of torch's that is running; None where it is not. Other modes' frames are between."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame


@dataclass(frozen=True)
class _Order:
    """An order of the batch that is not carried out: sequences stay where they are."""

    count: int

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.index_select:
            return args[0]
        if func is torch.empty_like:  # the beginning of an inverse
            return args[0]
        raise _refusal("the order of its sequences (sorted_indices, unsorted_indices)")

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def to(self, *_: Any, **__: Any) -> _Order:
        return self

    def cpu(self) -> _Order:
        return self

    def numel(self) -> int:
        return self.count

    def scatter_(self, *_: Any) -> _Order:
        return self

    def __getattr__(self, name: str) -> Any:
        raise _refusal("the order of its sequences (sorted_indices, unsorted_indices)")


@dataclass(frozen=True)
class _Sizes:
    """`batch_sizes`: of them, the batch and the longest possible sequence are known."""

    time: int
    batch: int

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _refusal("its batch_sizes")

    def __getitem__(self, at: Any) -> int:
        if not isinstance(at, int) or at != 0:
            raise _refusal("its batch_sizes")
        return self.batch

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def size(self, at: int) -> int:
        return self.time

    def __getattr__(self, name: str) -> Any:
        raise _refusal("its batch_sizes")


@dataclass(frozen=True)
class _Rows:
    """The rows of a packed sequence, `[time, batch, ...]` in place of `[rows, ...]`."""

    padded: torch.Tensor
    lengths: torch.Tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rows = [one for one in (*args, *(kwargs or {}).values()) if isinstance(one, _Rows)]
        if func not in _BY_ROW or len(rows) != 1:
            raise _refusal(f"its rows ({getattr(func, '__name__', func)})")
        padded = [one.padded if isinstance(one, _Rows) else one for one in args]
        named = {name: one.padded if isinstance(one, _Rows) else one for name, one in (kwargs or {}).items()}
        return rows[0].like(func(*padded, **named))

    def __getattr__(self, name: str) -> Any:
        raise _refusal(f"its rows (.data.{name})")

    def like(self, padded: torch.Tensor) -> _Rows:
        return replace(self, padded=padded)

    @property
    def dtype(self) -> torch.dtype:
        return self.padded.dtype

    @property
    def device(self) -> torch.device:
        return self.padded.device

    @property
    def is_cuda(self) -> bool:
        return False

    def dim(self) -> int:
        return self.padded.dim() - 1

    def size(self, at: int | None = None) -> int:
        if at is None or at in (0, -self.dim()):
            raise _refusal("how many rows it has")
        return self.padded.shape[at if at < 0 else at + 1]


def explain_rows(what: str) -> tuple[str, str, str]:
    """Of a packed sequence that forward uses as it is: what, why and fix."""
    return (
        f"forward computes with a packed sequence, and {what}",
        "how many rows it has depends on the lengths; an exported program keeps sequences padded",
        _ROWS_FIX,
    )


def _refusal(what: str) -> CaptureError:
    said, why, fix = explain_rows(f"reads {what}")
    return CaptureError(said, fix=fix, why=why)
