"""Which token comes next: the likeliest, or one drawn at random from the likely ones.

The order is that of the transformers library: repetition penalty, temperature, the k likeliest, then the fewest that
hold `top_p` of the probability (Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgex.errors import RunError


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen.

    Attributes:
        temperature: Scores are divided by it; 0 takes the likeliest, whatever the other fields say but the penalty.
        top_k: Only so many of the likeliest are drawn from; None or 0 takes all.
        top_p: Only the fewest that hold this share of the probability; None or 1 takes all.
        repetition_penalty: Scores of ids that are in the text already are divided by it where positive, else
            multiplied (Keskar et al., "CTRL", 2019); 1 changes nothing.
        seed: Of the draws; None draws one.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0
    seed: int | None = None

    def check(self) -> Sampling:
        """The same, if each value can be.

        Raises:
            RunError: One cannot.
        """
        for name, value, allowed, words in (
            ("temperature", self.temperature, 0 <= self.temperature < math.inf, "0 or more"),
            ("top_k", self.top_k, self.top_k is None or self.top_k >= 0, "0 or more"),
            ("top_p", self.top_p, self.top_p is None or 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("repetition_penalty", self.repetition_penalty, 0 < self.repetition_penalty < math.inf, "above 0"),
            ("seed", self.seed, self.seed is None or self.seed >= 0, "0 or more"),
        ):
            if not allowed:
                raise RunError(f"{name} must be {words}, not {value}")
        return self


GREEDY = Sampling()


class Sampler:
    """Chooses one token after the other.

    Attributes:
        seed: What the draws start from; None where nothing is drawn.
    """

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling.check()
        self.is_greedy = sampling.temperature == 0 and sampling.repetition_penalty == 1
        draws = sampling.temperature > 0
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if sampling.seed is None and draws else sampling.seed
        self.seed = seed if draws else None
        self._random = np.random.default_rng(seed) if draws else None

    def choose(self, scores: np.ndarray, text: Sequence[int]) -> int:
        """The next token.

        Args:
            scores: Float `[V]`; not changed.
            text: Ids before it, for the repetition penalty.

        Raises:
            RunError: The scores are NaN.
        """
        if self.is_greedy:
            # NaN counts as the largest. -inf is how a model forbids a token.
            best = int(scores.argmax())
            _check_best(scores[best])
            return best
        found = scores.astype(np.float64)
        _check_best(found.max())
        if self._sampling.repetition_penalty != 1 and len(text):
            seen = np.unique(np.asarray(text))
            found[seen] = np.where(
                found[seen] > 0,
                found[seen] / self._sampling.repetition_penalty,
                found[seen] * self._sampling.repetition_penalty,
            )
        if self._random is None:
            return int(found.argmax())
        ids, shares = distribution(found, self._sampling)
        # The first id whose cumulated share exceeds the draw; the sum may end a rounding error below 1.
        drawn = int(np.searchsorted(np.cumsum(shares), self._random.random(), side="right"))
        return int(ids[min(drawn, len(ids) - 1)])


def _check_best(score: float) -> None:
    if not np.isfinite(score):
        raise RunError(
            f"the best score that the model gave is {score}", fix="edgex verify ARTIFACT compares it with PyTorch"
        )


def distribution(scores: np.ndarray, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """What is drawn from.

    Args:
        scores: Float64 `[V]`.
        sampling: With a temperature above 0.

    Returns:
        (ids int64 `[k]`, likeliest first; their probabilities float64 `[k]`, which add up to 1).
    """
    kept = min(sampling.top_k or len(scores), len(scores))
    ids = np.argpartition(-scores, kept - 1)[:kept] if kept < len(scores) else np.arange(len(scores))
    ids = ids[np.argsort(-scores[ids], kind="stable")]
    with np.errstate(over="ignore"):  # a temperature near 0 leaves the likeliest alone
        shares = np.exp((scores[ids] - scores[ids[0]]) / sampling.temperature)
    shares /= shares.sum()
    if sampling.top_p is not None and sampling.top_p < 1:
        before = np.cumsum(shares) - shares
        # The likeliest always stays.
        within = max(1, int(np.searchsorted(before, sampling.top_p, side="left")))
        ids, shares = ids[:within], shares[:within] / shares[:within].sum()
    return ids, shares
