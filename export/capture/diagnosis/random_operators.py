"""Which operators draw random numbers in eager, each with the user's line: seen in a run, not guessed from the code."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from edgex.delegates.graph.schema import content_of, leaves_of, overload_of, schema_of
from edgex.delegates.graph.torch_internals import OpOverload, TorchDispatchMode
from edgex.errors import CaptureError
from edgex.export.source.eager import reference_conditions
from edgex.export.source.user_code.user_line import UserLine, innermost_line

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

_NOISE_FIX = "pass the noise as an input"
# By what is in the operator's name, or in the user's line. Dropout draws by `bernoulli_`, in place.
_ADVICE = {
    "attention": "give dropout_p=0.0 unless self.training",
    "bernoulli_": "dropout needs training=self.training; pass the noise as an input where it is meant",
    "multinomial": "return the probabilities and draw outside, or pass uniform noise as an input: the sample is "
    "(cumsum(p) > noise).int().argmax()",
    "bernoulli": "pass uniform noise as an input: noise < p",
    "rrelu": "give training=self.training",
}


@dataclass(frozen=True)
class Draw:
    """An operator that draws random numbers.

    Attributes:
        operator: `aten.randn.generator`.
        line: The user's line; None where none is on the stack.
        own: Whether from a generator that forward gives it, not from torch's own.
        value: What it drew, for comparison with another run's.
    """

    operator: str
    line: UserLine | None
    own: bool
    value: bytes

    def explain(self) -> CaptureError:
        """The refusal where outputs differ from run to run for it."""
        whose = "a torch.Generator" if self.own else "torch's generator"
        return CaptureError(
            f"forward draws random numbers from {whose}, with {self.operator}",
            None if self.line is None else str(self.line),
            self._advice(),
            why="no two runs give the same outputs, so that nothing can be proved; no target has this generator",
        )

    def explain_repeated(self) -> CaptureError:
        """The refusal where every run draws the same numbers."""
        return CaptureError(
            f"forward draws the same random numbers at every run, with {self.operator}",
            None if self.line is None else str(self.line),
            'draw them once, in __init__: self.register_buffer("noise", torch.randn(..., generator=g))',
            why="it seeds the generator itself; no target has this generator",
        )

    def _advice(self) -> str:
        text = self.operator if self.line is None else f"{self.operator} {self.line.text}"
        return next((advice for word, advice in _ADVICE.items() if word in text), _NOISE_FIX)


def may_draw(program: ExportedProgram) -> bool:
    """Whether a program has an operator that may draw random numbers, and something reads what it gives."""
    return any(
        node.op == "call_function" and _is_random(overload_of(node)) and _is_read(node) for node in program.graph.nodes
    )


def _is_read(node: Node) -> bool:
    overload = overload_of(node)
    return bool(node.users) or (overload is not None and schema_of(overload).is_mutable)


def _is_random(overload: Any) -> bool:
    return isinstance(overload, OpOverload) and torch.Tag.nondeterministic_seeded in overload.tags


def find_draws(call: Callable[[], Any], source_root: Path) -> tuple[Draw, ...]:
    """Run eager and note each operator after which a generator is in another state.

    Args:
        call: Runs the model; what it changes is the caller's to put back.
        source_root: Folder of the user's file.
    """
    watch = _Watch(source_root)
    with reference_conditions(), watch:
        call()
    return tuple(watch.found)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # its parent has no types
    def __init__(self, source_root: Path) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[Draw] = []
        self._root = source_root

    def __torch_dispatch__(self, func: Any, types: Iterable[Any], args: Any = (), kwargs: Any = None) -> Any:
        if not _is_random(func):
            return func(*args, **(kwargs or {}))
        own = next((one for one in (*args, *(kwargs or {}).values()) if isinstance(one, torch.Generator)), None)
        generator = own or torch.default_generator
        before = generator.get_state()
        result = func(*args, **(kwargs or {}))
        if not torch.equal(before, generator.get_state()):
            frames = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_stack(None)]
            line = innermost_line(frames[::-1], self._root)
            self.found.append(Draw(str(func), line, own is not None, _bytes_of(result)))
        return result


def _bytes_of(result: Any) -> bytes:
    tensors = [leaf for leaf in leaves_of(result) if isinstance(leaf, torch.Tensor)]
    return b"".join(content_of(tensor).numpy().tobytes() for tensor in tensors if tensor.numel())


def refusals_of(draws: Iterable[Draw]) -> list[CaptureError]:
    """One for each line."""
    found = {str(draw.line): draw.explain() for draw in reversed([*draws])}
    return list(found.values())[::-1]
