"""With room, no loop of calls takes memory and gives it back in every round, however deep the stack is."""

import resource
from types import FunctionType

import pytest

from edgex.runtime.support.process.frames import call_with_room

# More frames than a chunk of 16 KiB holds, so that at one of these depths the next call begins a chunk.
_DEPTHS = range(400)
_ROUNDS = 200


def _small():
    return None


# Larger than a step of depth, so that no chunk's end is stepped over; far smaller than a chunk.
_callee = FunctionType(_small.__code__.replace(co_stacksize=200), {})


def _faults_of_loop(depth):
    """Pages that the system handed out while a loop called a function, at this depth of the stack."""
    if depth:
        return _faults_of_loop(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(_ROUNDS):
        _callee()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _most_faults():
    return max(_faults_of_loop(depth) for depth in _DEPTHS)


def test_no_depth_waits_for_memory_in_every_round():
    assert _most_faults() > _ROUNDS / 2  # without room, a loop at one of the depths does
    assert call_with_room(_most_faults) < _ROUNDS / 2


def test_result_and_errors_are_the_bodys():
    assert call_with_room(lambda: 5) == 5

    def fail():
        raise SystemExit(3)

    with pytest.raises(SystemExit) as caught:
        call_with_room(fail)
    assert caught.value.code == 3
