"""A copy of this process answers, or its end is told."""

import os
import signal

import pytest

from edgex.runtime.support.process.child import ChildEnded
from edgex.runtime.support.process.forked import ask_copy


def test_it_knows_what_this_process_knows_and_changes_nothing_here():
    known = [1, 2]

    def answer():
        known.append(3)
        return {"known": known, "pid": os.getpid()}

    said = ask_copy(answer, "the copy")
    assert said["known"] == [1, 2, 3] and said["pid"] != os.getpid()
    assert known == [1, 2]


def test_its_end_is_told():
    with pytest.raises(ChildEnded, match="the copy ended: killed by SIGKILL") as caught:
        ask_copy(lambda: os.kill(os.getpid(), signal.SIGKILL) or {}, "the copy")
    assert caught.value.signal == "SIGKILL"
    with pytest.raises(ChildEnded, match="the copy ended: early") as caught:
        ask_copy(lambda: os._exit(0) or {}, "the copy")
    assert caught.value.signal is None
