"""Who is timed when: the order of turns, and how much a turn takes. All that times things side by side asks here."""

from __future__ import annotations

import random

# A block of one contestant within a round: short against the time in which a machine's speed changes. Of the same
# number of samples, many short blocks tell more than few long ones.
BLOCK_SECONDS = 0.005
MIN_BLOCK_SAMPLES, MAX_BLOCK_SAMPLES = 3, 25


class Turns:
    """Shuffled orders of the contestants, each followed by itself reversed: nobody is always after the same one."""

    def __init__(self, count: int, generator: random.Random) -> None:
        self._count, self._random = count, generator
        self._to_reverse: list[int] | None = None

    def shuffled(self) -> list[int]:
        """Any order."""
        return self._random.sample(range(self._count), self._count)

    def next(self) -> list[int]:
        """The order of the next round."""
        if self._to_reverse is not None:
            order, self._to_reverse = self._to_reverse[::-1], None
        else:
            order = self._to_reverse = self.shuffled()
        return order


def choose_block_samples(
    sample_seconds: float, block_seconds: float = BLOCK_SECONDS, least: int = MIN_BLOCK_SAMPLES
) -> int:
    """Samples of one contestant in a block.

    Args:
        sample_seconds: How long a sample takes.
        block_seconds: How long a block should take.
        least: Samples of a block, however long they take.
    """
    return max(least, min(MAX_BLOCK_SAMPLES, int(block_seconds / max(sample_seconds, 1e-9))))
