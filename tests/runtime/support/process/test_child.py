"""Children: started safely, asked in lines, ended with their parent."""

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from edgex.errors import ArtifactError, RunError
from edgex.runtime.support.process.child import Child, ChildEnded
from edgex.runtime.support.process.shadowed_modules import explain_shadow, find_shadows

TASK = """
import os, signal, sys, time
from edgex.errors import ArtifactError


def answer(request, tell):
    do = request["do"]
    if do == "echo":
        tell("heard", text=request["text"])
        print("a banner of a library")
        return {"text": request["text"], "modules": sorted(sys.modules), "path": sys.path}
    if do == "import":
        __import__(request["name"])
        return {"file": sys.modules[request["name"]].__file__}
    if do == "fail":
        raise ArtifactError("it is damaged", "net.edgex", "export again", why="half of it is missing")
    if do == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if do == "exit":
        print("no room", file=sys.stderr)
        os._exit(3)
    if do == "hang":
        __import__("ctypes").PyDLL(None).sleep(1000)  # PyDLL keeps the interpreter's lock
    if do == "sleep":
        time.sleep(60)


class Counter:
    def __init__(self):
        self.count = 0

    def __call__(self, request, tell):
        self.count += 1
        return {"count": self.count}
"""


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """A folder of PYTHONPATH with the module `child_tasks`."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "child_tasks.py").write_text(TASK)
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{before}" if before else str(folder))
    return folder


def test_requests_events_and_answers(tasks):
    heard = []
    with Child("child_tasks:answer", "the child") as child:
        for text in ("one", "zwei \u00fc"):
            assert child.ask({"do": "echo", "text": text}, heard.append)["text"] == text
    assert [event["text"] for event in heard] == ["one", "zwei \u00fc"]


def test_an_object_keeps_its_state(tasks):
    with Child("child_tasks:Counter", "the child") as child:
        assert [child.ask({"do": "count"})["count"] for _ in range(3)] == [1, 2, 3]


def test_an_error_arrives_as_it_was_raised_and_the_child_goes_on(tasks):
    with Child("child_tasks:answer", "the child") as child:
        with pytest.raises(ArtifactError) as caught:
            child.ask({"do": "fail"})
        error = caught.value
        assert (error.what, error.where, error.fix, error.why) == (
            "it is damaged", "net.edgex", "export again", "half of it is missing",
        )  # fmt: skip
        assert child.ask({"do": "echo", "text": "still here"})["text"] == "still here"


def test_a_crash_names_its_signal(tasks):
    with (
        pytest.raises(ChildEnded, match="the child ended: killed by SIGSEGV") as caught,
        Child("child_tasks:answer", "the child") as child,
    ):
        child.ask({"do": "die"})
    assert caught.value.signal == "SIGSEGV" and isinstance(caught.value, RunError)


def test_an_early_end_shows_what_was_said_last(tasks):
    with pytest.raises(ChildEnded, match="exit code 3") as caught, Child("child_tasks:answer", "the child") as child:
        child.ask({"do": "exit"})
    assert caught.value.why == "no room" and caught.value.signal is None


def test_a_child_that_takes_too_long_is_ended(tasks):
    with pytest.raises(ChildEnded, match="took too long") as caught, Child("child_tasks:answer", "the child") as child:
        child.ask({"do": "sleep"}, timeout_seconds=0.5)
    assert caught.value.timed_out


def test_an_interrupt_ends_the_child_at_once(tasks):
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Child("child_tasks:answer", "the child") as child:
        child.ask({"do": "echo", "text": "ready"})
        process = child._process
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        child.ask({"do": "sleep"})
    assert process.poll() is not None
    assert time.monotonic() - started < 30


def test_a_child_that_is_left_while_it_works_is_not_waited_for(tasks):
    child = Child("child_tasks:answer", "the child")
    child.ask({"do": "echo", "text": "ready"})
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        child.ask({"do": "sleep"})
    child.close()
    assert child._process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["cuda", "tokenize", "json", "numpy"])
def test_files_of_the_users_folder_hide_nothing(tasks, tmp_path, monkeypatch, name):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / f"{name}.py").write_text("raise SystemExit('this is the wrong one')\n")
    monkeypatch.chdir(folder)
    with Child("child_tasks:answer", "the child") as child:
        answer = child.ask({"do": "echo", "text": "hello"})
        assert str(folder) not in answer["path"] and "" not in answer["path"]
        if name != "cuda":
            assert str(folder) not in child.ask({"do": "import", "name": name})["file"]


def test_a_file_that_hides_a_standard_module_is_named(tasks, tmp_path):
    (tasks / "random.py").write_text("number = 3\n")
    with pytest.raises(ChildEnded) as caught, Child("child_tasks:answer", "the child") as child:
        child.ask({"do": "import", "name": "tempfile"})
    assert f"{tasks / 'random.py'} hides Python's own module 'random'" in str(caught.value.fix), caught.value.why


def test_shadows_are_found_and_blamed_only_where_they_are_named(tmp_path):
    (tmp_path / "cuda.py").write_text("")
    (tmp_path / "random.py").write_text("")
    (tmp_path / "email").mkdir()
    (tmp_path / "email" / "__init__.py").write_text("")
    assert [path.name for path in find_shadows(str(tmp_path))] == ["random.py", "email"]
    log = "Traceback (most recent call last):\nImportError: cannot import name 'Random' from 'random'"
    assert str(tmp_path / "random.py") in str(explain_shadow(log, str(tmp_path)))
    assert explain_shadow("RuntimeError: random numbers", str(tmp_path)) is None
    assert explain_shadow("ImportError: cannot import name 'x' from 'y'", str(tmp_path)) is None


def test_the_child_uses_the_same_python(tasks):
    with Child("child_tasks:answer", "the child") as child:
        assert child._process.args[0] == sys.executable


PARENT = """
import sys, threading, time
from edgex.runtime.support.process.child import Child
def work():
    child = Child("child_tasks:answer", "the child")
    child.ask({"do": "echo", "text": ""})
    print(child._process.pid, flush=True)
    child.ask({"do": "hang" if sys.argv[1] == "main" else "sleep"})
if sys.argv[1] == "main":
    work()
else:
    threading.Thread(target=work, daemon=True).start()
    time.sleep(1000)
"""


@pytest.mark.parametrize("thread", ["main", "other"])
def test_a_child_that_works_ends_when_its_parent_is_killed(tasks, thread):
    """Started by the main thread it ends in the midst of native code that holds the interpreter's lock."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, thread], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    time.sleep(0.3)
    assert child.is_running()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    child.wait(10)


def test_a_child_outlives_the_thread_that_started_it(tasks):
    started = []
    thread = threading.Thread(target=lambda: started.append(Child("child_tasks:answer", "the child")))
    thread.start()
    thread.join()
    with started[0] as child:
        assert child.ask({"do": "echo", "text": "still here"})["text"] == "still here"
        time.sleep(1.5)
        assert child.ask({"do": "echo", "text": "and still"})["text"] == "and still"
