from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import threading

import psutil
import pytest

from edgex.runtime.support.native_stderr import (
    NativeStderr,
    PythonStderr,
    capture_native_stderr,
    prints_on_stderr,
    stdout_on_stderr,
)


def test_what_is_written_to_the_descriptor_is_kept_and_not_shown(capfd):
    keeper = NativeStderr()
    with keeper.capture() as captured:
        os.write(2, b"cause\n\n")
    assert captured.tail() == "cause"
    os.write(2, b"shown")
    assert capfd.readouterr().err == "shown"
    keeper.close()


def test_what_goes_to_pythons_stderr_is_kept_wherever_that_leads(monkeypatch):
    notebook = io.StringIO()
    monkeypatch.setattr(sys, "stderr", notebook)
    keeper = NativeStderr()
    with keeper.capture() as captured:
        sys.stderr.write("from the binding\n")
        os.write(2, b"from C\n")
    assert sys.stderr is notebook
    assert notebook.getvalue() == ""
    assert captured.tail() == "from the binding\nfrom C"
    keeper.close()


def test_the_cheap_capture_keeps_pythons_stderr_only(capfd):
    keeper = PythonStderr()
    before = sys.stderr
    for text in ("first\n", "second\nthird\n\n"):
        keeper.begin()
        sys.stderr.write(text)
        sys.stderr.flush()
        os.write(2, b"from C")
        keeper.end()
        assert keeper.tail() == text.strip()
    keeper.begin()
    keeper.end()
    assert keeper.tail() == ""
    assert sys.stderr is before
    assert capfd.readouterr().err == "from C" * 2


def test_cheap_captures_of_two_threads_give_back_what_was_there():
    before = sys.stderr
    keepers = [PythonStderr(), PythonStderr()]
    kept = []

    def work(keeper, text):
        for _ in range(2000):
            keeper.begin()
            sys.stderr.write(text)
            keeper.end()
            kept.append(keeper.tail() == text)

    threads = [threading.Thread(target=work, args=(keeper, name)) for keeper, name in zip(keepers, "ab", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.stderr is before
    assert len(kept) == 4000
    assert all(kept)


def test_each_capture_begins_empty_and_keeps_the_last_lines():
    keeper = NativeStderr()
    with keeper.capture():
        os.write(2, b"".join(b"%d\n" % line for line in range(100_000)))
    assert keeper.tail().splitlines()[-1] == "99999"
    assert len(keeper.tail().splitlines()) == 20
    with keeper.capture():
        pass
    assert keeper.tail() == ""
    keeper.close()


def test_captures_inside_captures_give_everything_back(capfd):
    outer, inner = NativeStderr(), NativeStderr()
    before = sys.stderr
    with outer.capture():
        os.write(2, b"one ")
        with inner.capture(), inner.capture():
            os.write(2, b"two")
        os.write(2, b"three")
    assert (outer.tail(), inner.tail()) == ("one three", "two")
    assert sys.stderr is before
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"
    outer.close()
    inner.close()


def test_an_exception_goes_through_and_descriptors_are_not_leaked():
    keeper = NativeStderr()
    before = psutil.Process().num_fds()
    for _ in range(3):
        with pytest.raises(ValueError, match="inside"), keeper.capture():
            raise ValueError("inside")
    after = psutil.Process().num_fds()
    assert after == before
    keeper.close()


def test_a_single_capture_stays_readable():
    with capture_native_stderr() as captured:
        os.write(2, b"banner")
    assert captured.tail() == "banner"


def test_a_process_without_a_descriptor_2_works():
    script = """
        import os
        os.close(2)
        from edgex.runtime.support.native_stderr import NativeStderr
        keeper = NativeStderr()
        with keeper.capture():
            pass
        print("well", keeper.tail())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "well"


def test_prints_of_every_kind_go_to_stderr(capfd):
    with prints_on_stderr():
        print("print")
        os.write(1, b"write\n")
        os.system("echo system")
    print("after")
    assert capfd.readouterr() == ("after\n", "print\nwrite\nsystem\n")


def test_what_an_inner_block_writes_goes_where_descriptor_2_leads_there(capfd):
    with stdout_on_stderr(), capture_native_stderr() as captured:
        with stdout_on_stderr():
            os.write(1, b"banner")
        os.write(1, b"outer")
    os.write(1, b"result")
    assert captured.tail() == "banner"
    assert capfd.readouterr() == ("result", "outer")


def test_a_thread_that_diverts_stdout_does_not_wait_and_may_outlast_the_block(capfd):
    entered, leave = threading.Event(), threading.Event()

    def work():
        with stdout_on_stderr():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    before = psutil.Process().num_fds()
    with stdout_on_stderr():
        thread.start()
        assert entered.wait(10)
    os.write(1, b"meanwhile")
    leave.set()
    thread.join()
    os.write(1, b"result")
    assert capfd.readouterr() == ("result", "meanwhile")
    assert psutil.Process().num_fds() == before
