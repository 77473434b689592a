"""All that keeps a model from being captured, not only what torch.export stumbles over first.

The model is run once in eager on its example inputs, and watched: every place where Python reads a value out of a
tensor, and every operator that does not work on tensors without values. What another path through the model holds is
not seen.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from edgex.delegates.graph.schema import schema_of
from edgex.delegates.graph.torch_internals import FakeTensorMode, OpOverload, TorchDispatchMode, pytree
from edgex.errors import CaptureError, EdgexError
from edgex.export.capture.diagnosis.export_failures import explain_data_dependence, explain_missing_fake
from edgex.export.source.eager import BufferSnapshot, reference_conditions
from edgex.export.source.source import ModelSource
from edgex.export.source.user_code.user_line import UserLine, is_machinery, is_own, line_of_frames

# Methods of a tensor that hand its values to Python.
_READS = ("__bool__", "__int__", "__float__", "__index__", "__array__", "item", "tolist", "numpy")
# What edgex and torch put between the model and this watch.
_MODES = ("__torch_function__", "__torch_dispatch__")
_PACKED = (torch.nn.utils.rnn.__file__, torch.nn.modules.rnn.__file__)
# PyTorch's own operators have fake kernels, or are torch.export's to complain about.
_OWN = ("aten", "prims", "prim", "profiler")


def find_blockers(source: ModelSource, first: CaptureError) -> tuple[EdgexError, ...]:
    """Everything in the way of capturing a model.

    Args:
        source: The model, with its weights; its buffers are as before afterwards.
        first: What capture raised; it comes first, for it is known for sure, and then what it tells of others.
    """
    found = [first, *first.others]
    if isinstance(source.module, torch.nn.Module):
        watch, buffers = _Watch(source.source_root), BufferSnapshot(source.module)
        try:
            with reference_conditions(), watch.operators(), watch.reads():
                source.module(*source.args, **source.kwargs)
        except Exception:  # the model may fail on its own inputs, which capture has said already
            pass
        finally:
            buffers.restore()
        places = {error.where for error in found if error.where}
        # What is known of a line says more than that it reads a value.
        found += [blocker for blocker in watch.reading if blocker.where not in places]
        found += watch.operating
    unique: dict[tuple[str | None, str], EdgexError] = {}
    for blocker in found:
        unique.setdefault((blocker.where, blocker.what), blocker)
    return tuple(unique.values())


class _Watch:
    """Collects blockers while the model runs."""

    def __init__(self, source_root: Path) -> None:
        self.reading: list[CaptureError] = []
        self.operating: list[CaptureError] = []
        self._root = source_root
        self._judged: dict[str, bool] = {}

    def reads(self) -> TorchFunctionMode:
        """A mode that notes where values are read out of tensors."""
        return _Reads(self._note_read)

    def operators(self) -> TorchDispatchMode:
        """A mode that notes operators without a fake kernel."""
        return _Operators(self._note_operator)

    def _note_read(self) -> None:
        line = self._user_line()
        if line is not None:
            what, why, fix = explain_data_dependence(None, line)
            self.reading.append(CaptureError(what, str(line), fix, why=why))

    def _note_operator(self, operator: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        name = schema_of(operator).name
        if name not in self._judged:
            self._judged[name] = _works_without_values(operator, args, kwargs)
        if not self._judged[name]:
            line = self._user_line()
            what, why, fix = explain_missing_fake(name)
            self.operating.append(CaptureError(what, None if line is None else str(line), fix, why=why))

    def _user_line(self) -> UserLine | None:
        # Without the lines' texts: a loop may read a value many thousand times.
        frames, calls = [], []
        for frame, number in traceback.walk_stack(None):
            file = frame.f_code.co_filename
            frames.append((file, number))
            if file != __file__ and frame.f_code.co_name not in _MODES:
                calls.append(file)
        if any(file in _PACKED for file, _ in frames):  # capture keeps packed sequences padded, and reads no lengths
            return None
        if is_own(next((file for file in calls if is_own(file) or not is_machinery(file)), "")):
            return None  # what a module of edgex reads, around the user's: how much of a cache is filled
        return line_of_frames([frame for frame in reversed(frames) if frame[0] != __file__], self._root)


class _Reads(TorchFunctionMode):
    def __init__(self, note: Callable[[], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[Any], args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") in _READS and args and isinstance(args[0], torch.Tensor):
            self._note()
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]  # its parent has no types
    def __init__(self, note: Callable[[OpOverload, Sequence[Any], dict[str, Any]], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._note = note

    def __torch_dispatch__(self, func: Any, types: Iterable[Any], args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, OpOverload) and func.namespace not in _OWN:
            self._note(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _works_without_values(operator: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode:
            operator(*pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))[0], **kwargs)
    except Exception:  # whatever it raises, torch.export would meet it too
        return False
    return True
