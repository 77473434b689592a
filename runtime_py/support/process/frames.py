"""Room for the frames of Python's calls in one piece, so that no call waits for memory.

CPython (3.11 to 3.13, Python/pystate.c) lays frames into chunks of 16 KiB, takes the next chunk from the system with
the call that no longer fits, and gives it back when that call returns. A loop whose calls begin a chunk does both in
every round. Which loop that is depends on how deep the stack is, so that any change of the code around it may bring it
or end it. `edgex run` of a small network took 0.28 s of processor time on onnx-cpu without this room and takes 0.24 s.

A frame larger than a chunk gets one of twice its size at the most, and what it calls finds room behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TypeVar

T = TypeVar("T")

# Words of 8 bytes. A little more than a power of two: the chunk is the next one, half of it left, which is room for a
# thousand calls of 60 words. Only what is used of it becomes memory.
_FRAME_WORDS = (1 << 16) + 256


def call_with_room(body: Callable[[], T]) -> T:
    """Call `body`; the frames of all that it calls lie in one chunk.

    Args:
        body: What a whole process is for: its end gives the chunk back.
    """
    roomy = FunctionType(_call.__code__.replace(co_stacksize=_FRAME_WORDS), {})
    result: T = roomy(body)
    return result


def _call(body: Callable[[], T]) -> T:
    return body()
