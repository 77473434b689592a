"""The encoder of a language model that has one: a method `encode` that writes what the decoder attends to.

```
encode(source)                    reads the source, writes keys and values of it into buffers
prefill / decode(tokens, position)   read them, and write those of the tokens
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from edgex.errors import CaptureError, UsageError
from edgex.export.language_model.encoder_decoder import CachedEncoderDecoder
from edgex.export.source.eager import BufferSnapshot, reference_conditions
from edgex.export.source.methods import BoundMethod, check_fits
from edgex.export.source.user_file import run_user_code
from edgex.runtime.artifact.language_model import ENCODE
from edgex.runtime.artifact.specs import Dim

if TYPE_CHECKING:
    from edgex.export.source.source import ModelSource

_CONTRACT = """let encode write what the decoder reads into registered buffers, in place:
       def encode(self, source):
           self.memory.copy_(self.encoder(source))  # or self.cross_keys.index_copy_(2, places, keys)
           return self.memory"""


@dataclass(frozen=True)
class Encoder:
    """A model's encoder, with a call of it.

    Attributes:
        module: Its `forward` is the model's `encode`.
        args: Example inputs by position.
        kwargs: Example inputs by name.
        dynamic_shapes: As torch.export takes it, or None.
        dynamic: Dimensions by input and axis, instead.
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any = None
    dynamic: Mapping[tuple[str, int], Dim] = field(default_factory=dict)

    def run(self, model: torch.nn.Module, where: str, root: Path) -> None:
        """Read the example; what the decoder attends to is in the model's buffers then.

        Args:
            model: The whole model.
            where: The model, for messages.
            root: Folder of the user's file.

        Raises:
            CaptureError: It writes no buffer, or replaces one by another of another size.
        """
        before = BufferSnapshot(model)

        def call() -> Any:
            with reference_conditions():
                return self.module(*self.args, **self.kwargs)

        run_user_code(call, f"{where}.{ENCODE}", root)
        touched = before.touched()
        if not touched:
            raise CaptureError(f"{where}.{ENCODE} writes no buffer: nothing of it reaches the decoder", fix=_CONTRACT)
        now = dict(model.named_buffers())
        for name in touched:
            old, new = before.value_of(name), now.get(name)
            if old is not None and new is not None and old.shape != new.shape:
                raise CaptureError(
                    f"{where}.{ENCODE} replaces its buffer {name.removeprefix('model.')}, of {list(old.shape)}, by "
                    f"another of {list(new.shape)}",
                    why="a program's memory is planned once: what the decoder reads has one size",
                    fix=_CONTRACT,
                )


def find_encoder(module: torch.nn.Module, source: ModelSource) -> Encoder | None:
    """The encoder of a model; None where it has none.

    Args:
        module: The model with its cache.
        source: As the user gave it: its example inputs are the encoder's.

    Raises:
        UsageError: It has one, and its example inputs are missing or do not fit.
    """
    encode = getattr(module, ENCODE, None)
    if not callable(encode):
        return None
    where = f"{source.description}.{ENCODE}"
    if isinstance(module, CachedEncoderDecoder):
        return Encoder(BoundMethod(encode, module), (module.example,), {}, dynamic=module.dynamic)
    if not source.args and not source.kwargs:
        raise UsageError(
            f"{where} has no example inputs",
            why=f"a model with a method {ENCODE!r} is taken for an encoder with its decoder, whose inputs are its own",
            fix="give them: get_args() beside get_model(), or return (model, example inputs); a decoder alone names "
            "the method otherwise",
        )
    bound = BoundMethod(encode, module)
    check_fits(bound, (source.args, source.kwargs), where)
    return Encoder(bound, source.args, source.kwargs, source.dynamic_shapes)
