"""What an artifact of a language model says of itself: the manifest's `llm`.

```
"llm": {"vocabulary": 49152, "context": 2048, "chunk": 256, "bos": 1, "eos": [2], "cache_bytes": 94371840,
        "cache_dtype": "float32", "prefill": "prefill", "decode": "decode"}
```

Both methods take `tokens` int64 `[1, n]` and `position` int64 `[1]`, the place of the first of them in the text. They
give the scores of what follows the last of them, float32 `[1, vocabulary]`. Nothing but `position` says how much of the
cache counts: a smaller one takes tokens back.

A model with an encoder has `"encode": "encode", "start": [0]` besides: the method that reads what the text is about,
and the tokens that its texts begin with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from edgex.errors import RunError

if TYPE_CHECKING:
    import numpy as np

ENCODE, PREFILL, DECODE = "encode", "prefill", "decode"
TOKENS, POSITION = "tokens", "position"


@dataclass(frozen=True)
class LanguageModel:
    """The manifest's `llm`.

    Attributes:
        vocabulary: How many tokens there are: ids are 0 to this, less one.
        context: How many tokens a text may have, the prompt included.
        chunk: How many tokens one call of prefill takes at most.
        bos: The token that begins a text; None where the model has none, or it is not known.
        eos: The tokens that end one; empty where they are not known.
        cache_bytes: What the cache takes.
        cache_dtype: What it is kept in.
        prefill: Name of the method that takes several tokens.
        decode: Name of the method that takes one.
        encode: Name of the method that reads what the text is about; None where there is none.
        start: What texts begin with where nobody says otherwise; only with an encoder.
        rewinds: Whether a smaller position takes tokens back: a recurrent state has them mixed in. Written where not.
    """

    vocabulary: int
    context: int
    chunk: int
    bos: int | None
    eos: tuple[int, ...]
    cache_bytes: int
    cache_dtype: str = "float32"
    prefill: str = PREFILL
    decode: str = DECODE
    encode: str | None = None
    start: tuple[int, ...] = ()
    rewinds: bool = True

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields as they are named here."""
        said = {**asdict(self), "eos": list(self.eos), "start": list(self.start)}
        unsaid = {*(("encode", "start") if self.encode is None else ()), *(("rewinds",) if self.rewinds else ())}
        return {name: value for name, value in said.items() if name not in unsaid}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LanguageModel:
        """The inverse of `to_json`."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        return cls(**{**known, "eos": tuple(data["eos"]), "start": tuple(data.get("start", ()))})

    def fault(self, tokens: np.ndarray, position: np.ndarray) -> RunError | None:
        """Why the engine must not see these tokens at this position; None where it may.

        Args:
            tokens: int64 `[1, n]`.
            position: int64 `[1]`.
        """
        first, count = int(position[0]), tokens.shape[1]
        if first < 0:
            return RunError(f"position is {first}: a text begins at 0", fix="take back no more tokens than there are")
        if first + count > self.context:
            return RunError(
                f"the context is full: {count} token{'' if count == 1 else 's'} at position {first} would end at "
                f"{first + count} of {self.context}",
                fix="begin a new text at position 0, or export again with a larger --context",
            )
        # A single token is the usual case, and a reduction takes longer than a comparison.
        least, most = (int(tokens[0, 0]),) * 2 if count == 1 else (int(tokens.min()), int(tokens.max()))
        if least < 0 or most >= self.vocabulary:
            return RunError(
                f"token {least if least < 0 else most} is not in the vocabulary of {self.vocabulary}",
                fix=f"ids are 0 to {self.vocabulary - 1}: was the text encoded with this model's tokenizer?",
            )
        return None
