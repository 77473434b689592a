"""What is told of a part that an engine cannot run."""

import pytest

from edgex.export.bisect.parts.judging import first_line
from edgex.runtime.support.process.child import Child, ChildEnded

TASK = """
import os, signal, sys


def answer(request, tell):
    print("a warning of a library", file=sys.stderr, flush=True)
    if request["do"] == "raise":
        raise KeyError("boom")
    os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.parametrize(
    ("do", "line"),
    [("raise", "the engine ended: exit code 1: KeyError: 'boom'"), ("crash", "the engine ended: killed by SIGSEGV")],
)
def test_the_exception_that_ended_a_process_is_the_reason(tmp_path, monkeypatch, do, line):
    (tmp_path / "failing_engine.py").write_text(TASK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with pytest.raises(ChildEnded) as caught, Child("failing_engine:answer", "the engine") as child:
        child.ask({"do": do})
    assert first_line(caught.value) == line
