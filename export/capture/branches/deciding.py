"""Values that Python asks of tensors: noted in eager runs, and answered while torch.export traces without any.

```
if not padding_mask.any(): padding_mask = None       # torch.export: "data-dependent control flow"
within `Answering({site: False}, …)`:                # the program masks with what there is, be it nothing
```
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from edgex.delegates.graph.torch_internals import pytree
from edgex.export.capture.python_state.known_values import READERS, writes
from edgex.export.source.user_code.user_line import is_own

_TRUTHS = frozenset([torch.Tensor.__bool__, torch.Tensor.is_nonzero, torch.is_nonzero])
_TESTS = frozenset([torch.equal, torch.Tensor.equal, torch.allclose, torch.Tensor.allclose, torch.Tensor.__contains__])
_NUMBERS = frozenset(
    [
        *(torch.Tensor.item, torch.Tensor.tolist),
        *(torch.Tensor.__int__, torch.Tensor.__float__, torch.Tensor.__index__),
    ]
)
_NONZERO = frozenset([torch.nonzero, torch.Tensor.nonzero, torch.argwhere, torch.Tensor.argwhere, torch.where])
# torch's Python around what the user calls, which is not what asks.
_WRAPPERS = ("torch/overrides.py", "torch/_tensor.py", "torch/utils/_contextlib.py")

# Files and lines, from the outermost in.
Frames = list[tuple[str, int]]


@dataclass(frozen=True)
class Site:
    """Where a value is asked for.

    Attributes:
        file: Of the code that asks.
        function: In it, by its qualified name.
        line: In the file.
        instruction: Which of the line's questions it is, as an offset in the function's byte code.
    """

    file: str
    function: str
    line: int
    instruction: int


class EndlessLoop(Exception):
    """`while x.sum() < 9`, of inputs or with an answer for which it does not end."""


class Listening(TorchFunctionMode):
    """Notes in an eager run what Python asks of tensors, and answers settled truths otherwise than they are.

    Attributes:
        said: What tensors said, by site, in the order in which they were asked.
        constant: Whether a site's values came from no input and no state, so that no input changes them.
        operators: How many functions of torch were called.
        truths: Where truths were asked for, one after the other.
        hits: Where places of a vector that are not zero were asked for, and whether they were some of it only.
    """

    def __init__(
        self,
        settled: Mapping[Site, bool],
        given: Iterable[torch.Tensor],
        *,
        lazy_items: bool,
        most_answers: float = math.inf,
    ) -> None:
        """Listen from now on.

        Args:
            settled: Sites whose answer is always this one.
            given: Inputs and state.
            lazy_items: Let `tensor.item()` of what is given be a tensor, so that comparisons of it are truths too.
            most_answers: How often a site may ask.
        """
        super().__init__()
        self.said: dict[Site, list[Any]] = {}
        self.constant: dict[Site, bool] = {}
        self.operators = 0
        self.truths: list[Site] = []
        self.hits: dict[Site, bool] = {}
        self._settled, self._lazy_items, self._most_answers = settled, lazy_items, most_answers
        self._given = WeakIdKeyDictionary()
        # Memory into which something given was written, through whatever view. Weak: once it is gone, what comes to lie
        # in its place is something else.
        self._written: set[StorageWeakRef | None] = set()
        self._give(given)
        # A number in Python: what is made of it comes from the inputs, and no tensor shows it.
        self._reads = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        kwargs = kwargs or {}
        self.operators += 1
        operands = _tensors((args, kwargs))
        given = any(operand in self._given or _memory(operand) in self._written for operand in operands)
        if _asks_truth(func, args):
            site, _ = _find_site()
            self.truths.append(site)
            found = bool(func(*args, **kwargs))
            self._note(site, found, given)
            if len(self.said[site]) > self._most_answers:
                raise EndlessLoop
            return self._settled.get(site, found)
        if self._lazy_items and given and _is_item(func, args):
            found = args[0].reshape(())
        else:
            found = func(*args, **kwargs)
            if func in _NUMBERS:
                self._note(_find_site()[0], found, given)
            elif asks_places(func, args, kwargs):
                site, _ = _find_site()
                count = len(found[0] if isinstance(found, tuple) else found)
                self.hits[site] = self.hits.get(site, False) or 0 < count < len(args[0])
            self._reads = self._reads or (given and func in READERS)
        if given:
            self._give(_tensors(found))
            if writes(func, kwargs):
                self._written.update(map(_memory, _tensors((args[:1], kwargs.get("out")))))
        return found

    def _note(self, site: Site, found: Any, given: bool) -> None:
        self.said.setdefault(site, []).append(found)
        self.constant[site] = self.constant.get(site, True) and not given and not self._reads

    def _give(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            self._given[tensor] = True


class AllPlaces(TorchFunctionMode):
    """Gives all places of a vector where those that are not zero are asked for. Entered inside of the other modes."""

    def __init__(self, sites: Collection[Site]) -> None:
        """Give them at these sites."""
        super().__init__()
        self._sites = sites

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        kwargs = kwargs or {}
        if asks_places(func, args, kwargs) and _find_site()[0] in self._sites:
            places = torch.arange(args[0].shape[0], device=args[0].device)
            return (places,) if func is torch.where or kwargs.get("as_tuple") else places[:, None]
        return func(*args, **kwargs)


class Answering(TorchFunctionMode):
    """Answers what Python asks while torch.export traces: as settled, else as an eager run has noted it.

    Attributes:
        asked: Sites of truths that inputs decide, in the order in which they were asked first, with their frames.
        places: A mode to be entered inside of all others: it gives all places at the sites of `whole`.
    """

    def __init__(
        self,
        settled: Mapping[Site, bool],
        noted: Mapping[Site, Sequence[Any]],
        constant: Collection[Site],
        *,
        lazy_items: bool,
        whole: Collection[Site] = (),
    ) -> None:
        """Answer from now on.

        Args:
            settled: Sites whose answer is always this one.
            noted: `Listening.said` of an eager run.
            constant: Sites whose values no input changes.
            lazy_items: As in the eager run.
            whole: Sites of `nonzero` that give all places.
        """
        super().__init__()
        self.asked: dict[Site, Frames] = {}
        self._settled, self._noted, self._constant, self._lazy_items = settled, noted, constant, lazy_items
        self._count: dict[Site, int] = {}
        self.places = AllPlaces(whole)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        kwargs = kwargs or {}
        if (truth := _asks_truth(func, args)) or func in _NUMBERS:
            site, frames = _find_site()
            at = self._count[site] = self._count.get(site, -1) + 1
            answers = self._noted.get(site, ())
            if truth and site not in self._constant:
                self.asked.setdefault(site, frames)
            if truth and site in self._settled:
                return self._settled[site]
            if at < len(answers) and (truth or site in self._constant):
                return answers[at]
        if self._lazy_items and _is_item(func, args):
            return args[0].reshape(())
        return func(*args, **kwargs)

    def begin(self, *_: Any) -> None:
        """A run of forward begins: questions are counted from here. A forward pre-hook."""
        self._count.clear()


def _asks_truth(func: Any, args: Sequence[Any]) -> bool:
    if func in _TESTS:
        return True
    return func in _TRUTHS or (func is torch.Tensor.item and args[0].dtype is torch.bool)


def asks_places(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether it is `vector.nonzero()`, in one of its forms."""
    return func in _NONZERO and len(args) == 1 and args[0].dim() == 1 and not {*kwargs} - {"as_tuple"}


def _is_item(func: Any, args: Sequence[Any]) -> bool:
    return func is torch.Tensor.item and args[0].numel() == 1


def _memory(tensor: torch.Tensor) -> StorageWeakRef | None:
    """Its storage; None for what has none, a sparse tensor for one."""
    if tensor.layout is not torch.strided:
        return None
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]  # torch gives it no types


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _find_site() -> tuple[Site, Frames]:
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and _is_between(frame):
        frame = frame.f_back
    if frame is None:
        return Site("", "", 0, 0), []
    frames: Frames = []
    outer: FrameType | None = frame
    while outer is not None:
        frames.append((outer.f_code.co_filename, outer.f_lineno))
        outer = outer.f_back
    code = frame.f_code
    return Site(code.co_filename, code.co_qualname, frame.f_lineno, frame.f_lasti), frames[::-1]


def _is_between(frame: FrameType) -> bool:
    """Whether it is of a mode, torch's or edgex's, and not of what asks."""
    file = frame.f_code.co_filename
    return frame.f_code.co_name == "__torch_function__" or is_own(file) or Path(file).as_posix().endswith(_WRAPPERS)
