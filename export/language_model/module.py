"""The module that is captured for a language model: tokens and a position in, the scores of the next token out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from edgex.errors import CaptureError
from edgex.export.language_model.valid_prefix import PrefixLengths

_CONTRACT = """give a module like this, with its cache in buffers that it writes in place:
       def forward(self, tokens, position):  # int64 [1, n], int64 [1]
           places = position + torch.arange(tokens.shape[1])
           ...
           self.keys.index_copy_(2, places, keys)  # registered buffer [1, heads, context, size]
           ...
           return logits  # [1, n, vocabulary] or [1, vocabulary]
       or a decoder of transformers"""


class NextToken(torch.nn.Module):
    """A decoder that keeps its own cache, behind the signature of `prefill` and `decode`.

    Where the model ends in a linear layer, that layer sees the last token only:

    ```
    before:  logits = linear(x)[:, -1]          # x [1, n, width]: n products with the largest matrix of the model
    after:   logits = linear(x[:, -1:])[:, -1]
    ```

    Attributes:
        model: Takes tokens int64 `[1, n]` and the position of the first, int64 `[1]`; gives scores `[1, n, vocabulary]`
            or, of the last token alone, `[1, vocabulary]`.
        prefix: What the model sees of its cache; None is all of it.
    """

    def __init__(
        self, model: torch.nn.Module, head: torch.nn.Module | None = None, prefix: PrefixLengths | None = None
    ) -> None:
        """Put the signature around it.

        Args:
            model: Keeps its own cache.
            head: The linear layer in it whose result is the model's, as `find_head` finds it.
            prefix: Shows it the filled part of its cache only.
        """
        super().__init__()
        self.model, self.prefix = model, prefix
        # In a tuple: it is a part of the model, and no second one of this module.
        self._head = () if head is None else (head,)

    @property
    def head(self) -> torch.nn.Module | None:
        """The linear layer that sees the last token only."""
        return self._head[0] if self._head else None

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> dict[str, torch.Tensor]:
        """`{"logits": [1, vocabulary]}`: what follows the last of the tokens."""
        # Only for this call: the module is the user's.
        hooks = [head.register_forward_pre_hook(_keep_last) for head in self._head]
        try:
            with nullcontext() if self.prefix is None else self.prefix.shown(self, tokens, position):
                logits = self.model(tokens, position)
        finally:
            for hook in hooks:
                hook.remove()
        return {"logits": logits[:, -1] if logits.dim() == 3 else logits}


def find_head(model: torch.nn.Module, run: Callable[[], Any]) -> torch.nn.Module | None:
    """The linear layer whose result the model gives as it is; None where something comes after it.

    Args:
        model: The decoder.
        run: Calls it; gives scores `[1, n, vocabulary]`.
    """
    results: list[tuple[torch.nn.Module, Any]] = []
    layers = [part for part in model.modules() if isinstance(part, torch.nn.Linear)]
    hooks = [layer.register_forward_hook(lambda part, _, result: results.append((part, result))) for layer in layers]
    try:
        scores = run()
    finally:
        for hook in hooks:
            hook.remove()
    calls = [part for part, result in results if result is scores]
    # A layer that is called twice, as a tied one may be, must see all tokens in its other call.
    once = [part for part in calls if sum(other is part for other, _ in results) == 1]
    return once[0] if once and scores.dim() == 3 else None


def _keep_last(_part: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (args[0][:, -1:], *args[1:])


def check_takes_position(model: torch.nn.Module, where: str) -> None:
    """Refuse a module that cannot be called with tokens and a position.

    Raises:
        CaptureError: Its forward takes something else.
    """
    try:
        inspect.signature(model.forward).bind(None, None)
    except TypeError as error:
        raise CaptureError(
            f"{where}: forward cannot be called with tokens and a position", why=str(error), fix=_CONTRACT
        ) from error


def check_logits(logits: object, tokens: int, where: str) -> int:
    """The vocabulary's size, read off what the model gives for some tokens.

    Raises:
        CaptureError: It is not scores over a vocabulary.
    """
    if isinstance(logits, torch.Tensor) and logits.is_floating_point():
        shape = tuple(logits.shape)
        if shape[:-1] in ((1,), (1, tokens)):
            return shape[-1]
        found = f"a tensor {list(shape)}"
    else:
        found = f"{logits.dtype}" if isinstance(logits, torch.Tensor) else f"a {type(logits).__name__}"
    raise CaptureError(
        f"{where} gives {found} for {tokens} tokens, not scores [1, vocabulary] or [1, {tokens}, vocabulary]",
        fix=_CONTRACT,
    )
