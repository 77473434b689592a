"""The module that is captured for a language model: tokens and a position in, the scores of the next token out."""

from __future__ import annotations

import inspect

import torch

from edgex.errors import CaptureError

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

    Attributes:
        model: Takes tokens int64 `[1, n]` and the position of the first, int64 `[1]`; gives scores `[1, n, vocabulary]`
            or, of the last token alone, `[1, vocabulary]`.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> dict[str, torch.Tensor]:
        """`{"logits": [1, vocabulary]}`: what follows the last of the tokens."""
        logits = self.model(tokens, position)
        return {"logits": logits[:, -1] if logits.dim() == 3 else logits}


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
