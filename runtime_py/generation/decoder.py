"""What a language model is to a generator: runs over a cache that is filled from the front.

```
prefill(tokens[1, n], position[1]) -> scores[1, V]      the next n tokens of a text
decode(tokens[1, 1], position[1])  -> scores[1, V]      the next one
encode(source)                                          what the text is about, where the model has an encoder
```

Artifacts that were exported with `--llm` have both methods. An ordinary artifact of a decoder with a cache has one,
which serves as both; it may count its position itself, and take tokens only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from edgex.errors import RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import Dim, StateSpec, TensorSpec
from edgex.runtime.generation.limits import Limits, counts_itself, read_limits


class LoadedMethod(Protocol):
    """What a generator needs of a Session: one method of a loaded artifact."""

    artifact: Artifact
    inputs: tuple[TensorSpec, ...]
    state: tuple[StateSpec, ...]

    def method(self, name: str) -> LoadedMethod:
        """Another method of what is loaded, over the same cache."""
        ...

    def run(self, *args: Any, **kwargs: Any) -> Sequence[np.ndarray]:
        """Run once, inputs in order or by name."""
        ...

    def reset(self) -> None:
        """Give the cache its initial value."""
        ...

    def read_state(self) -> Mapping[str, np.ndarray]:
        """Copies of the cache's tensors by name."""
        ...

    def write_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Put tensors into the cache."""
        ...


class CachedDecoder:
    """Runs a language model's methods. The caller counts positions and keeps within the limits.

    Attributes:
        limits: What it takes.
        counts_itself: Whether the model keeps its own position, so that nothing can be taken back.
    """

    def __init__(
        self, prefill: LoadedMethod, decode: LoadedMethod, limits: Limits, encode: LoadedMethod | None = None
    ) -> None:
        self.limits = limits
        self._encode = encode
        self._prefill, self._decode = prefill, decode
        self.counts_itself = counts_itself(decode.artifact.manifest.method)
        position = None if self.counts_itself else prefill.inputs[1]
        # [n] where each token's position is given, [1] or a scalar where only the first's is.
        self._position_each = position is not None and bool(position.shape) and isinstance(position.shape[0], Dim)
        self._position_rank = 1 if position is None else len(position.shape)
        # A run of a token reads its inputs here: nothing is made anew in the loop.
        self._token = np.zeros((1, 1), prefill.inputs[0].numpy_dtype)
        self._position = np.zeros((1,) * self._position_rank, np.int64 if position is None else position.numpy_dtype)
        self._inputs = (self._token,) if self.counts_itself else (self._token, self._position)
        self._run_token = decode.run

    @property
    def artifact(self) -> Artifact:
        """What was loaded."""
        return self._decode.artifact

    @property
    def state(self) -> tuple[StateSpec, ...]:
        """The cache's tensors."""
        return self._decode.state

    @property
    def cache_bytes(self) -> int:
        """Size of the cache."""
        return sum(prod(spec.shape) * spec.numpy_dtype.itemsize for spec in self.state)

    def encode(self, *args: Any, **kwargs: Any) -> None:
        """Have the encoder read a source; what it makes of it stays in the cache.

        Args:
            *args: Its inputs in order.
            **kwargs: Its inputs by name.

        Raises:
            RunError: There is no encoder, or the inputs are not what it takes.
        """
        if self._encode is None:
            raise RunError("the model has no encoder", fix="give it tokens alone")
        self._encode.run(*args, **kwargs)

    def decode(self, token: int, position: int) -> np.ndarray:
        """Run one token.

        Args:
            token: Its id.
            position: How many tokens the cache holds before it.

        Returns:
            Scores of the token after it, float32 `[V]`.
        """
        self._token[0, 0] = token
        self._position[...] = position
        (scores,) = self._run_token(*self._inputs)
        return self._last(scores)

    def run(self, ids: Sequence[int], position: int) -> np.ndarray:
        """Run tokens, as many at once as the model takes.

        Args:
            ids: At least one.
            position: How many tokens the cache holds before them.

        Returns:
            Scores of the token after the last, float32 `[V]`.
        """
        for at in range(0, len(ids), self.limits.chunk):
            part = ids[at : at + self.limits.chunk]
            scores = self.decode(part[0], position + at) if len(part) == 1 else self._prefill_part(part, position + at)
        return scores

    def _prefill_part(self, ids: Sequence[int], position: int) -> np.ndarray:
        inputs = [np.array([ids], self._token.dtype)]
        if not self.counts_itself:
            size = len(ids) if self._position_each else 1
            places = np.arange(position, position + size, dtype=self._position.dtype)
            inputs.append(places if self._position_rank else places.reshape(()))
        (scores,) = self._prefill.run(*inputs)
        return self._last(scores)

    def reset(self) -> None:
        """Give the cache its initial value."""
        self._decode.reset()

    def read_state(self) -> Mapping[str, np.ndarray]:
        """Copies of the cache's tensors by name."""
        return self._decode.read_state()

    def write_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Put tensors into the cache."""
        self._decode.write_state(values)

    def _last(self, scores: np.ndarray) -> np.ndarray:
        """Scores of the last position; some models give those of all."""
        last: np.ndarray = scores.reshape(-1, self.limits.vocabulary)[-1]
        return last


def read_decoder(loaded: LoadedMethod) -> CachedDecoder:
    """The decoder of a loaded artifact, whichever of its methods this is.

    Raises:
        RunError: It is no language model; see `read_limits`.
    """
    limits, llm = read_limits(loaded.artifact), loaded.artifact.manifest.llm
    if llm is None:
        return CachedDecoder(loaded, loaded, limits)
    encode = None if llm.encode is None else loaded.method(llm.encode)
    return CachedDecoder(loaded.method(llm.prefill), loaded.method(llm.decode), limits, encode)
