"""Run the body of a command in a child process, so that Ctrl-C and --timeout reach native code too.

An engine that is deep in a kernel, holding the interpreter's lock, hears neither a signal handler nor a thread.
Its process can be ended all the same: the command forks before anything heavy is imported (about a millisecond),
the child does the work, the parent waits. Interrupted, the child first gets the chance to clean up after itself;
then it and whatever it started are killed, and the parent removes what is left. Where the parent is killed, the
child is too, and `edgex.cli.guardian` does the rest.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from edgex.cli.board import BOARD
from edgex.cli.failure import failure_document, output_failure, print_json, report_failure
from edgex.cli.guardian import guarded
from edgex.errors import EdgexError, Interrupted, RunError, Terminated, TimeoutExpired
from edgex.runtime.support.process.frames import call_with_room
from edgex.runtime.support.process.lifetime import end_with_parent

# Seconds that an interrupted child has to remove its temporary files before it is killed.
GRACE_SECONDS = 3.0

# Set in the environment of everything below a supervised process: one supervisor is enough, and a nested one would
# put its child into a group that the outer one does not reach.
SUPERVISED = "EDGEX_SUPERVISED"

_POLL_SECONDS = 0.02


def supervise(
    body: Callable[[], int],
    *,
    timeout_seconds: float | None = None,
    as_json: bool = False,
    verbose: bool = False,
    clean_up: Callable[[int], None] = lambda _process: None,
    model: str | None = None,
) -> NoReturn:
    """Run `body` in a child and exit as it does.

    Args:
        body: Does the work and returns the exit code.
        timeout_seconds: The child is ended after this time, exit code 124; None waits.
        as_json: Print an error as a document on stdout too.
        verbose: Print tracebacks of errors.
        clean_up: Called with the child's process id if the child had to be killed.
        model: What the user calls the model whose code the body runs; a crash of that code is named as such.
    """
    if os.environ.get(SUPERVISED):
        code = _run_body(body, as_json, verbose)
        sys.exit(_tell_ended(signal.SIGINT, as_json) if _is_untold(code) else code)
    sys.stdout.flush()
    sys.stderr.flush()
    received: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    # Before the fork: a signal that comes right after it must not end the parent and leave the child alone.
    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    parent = os.getpid()
    try:
        child = os.fork()
        if child == 0:
            _live_as_child(body, parent, received, as_json, verbose)
        with guarded(child, clean_up):
            code = _wait(child, timeout_seconds, received, as_json, clean_up, model)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    sys.exit(code)


def _live_as_child(
    body: Callable[[], int], parent: int, received: Sequence[int], as_json: bool, verbose: bool
) -> NoReturn:
    """The child's whole life; ends in os._exit so that the parent's stack is never unwound twice."""
    # A group of its own: the parent decides when it and its own children are signalled. Ctrl-C in a terminal goes to
    # the foreground group, that is to the parent, which passes it on.
    os.setpgid(0, 0)
    end_with_parent(parent)
    os.environ[SUPERVISED] = "1"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _interrupt_until_heard()
    code = 1
    try:
        # On a busy machine the parent may have said stop before this process could listen: its handler, which the fork
        # copied, only remembers, and the body would go on until the grace period is over.
        code = _run_body(body, as_json, verbose) if not received else 130
    finally:
        os._exit(code)


def _interrupt_until_heard() -> None:
    """Interrupt this process again where a KeyboardInterrupt was raised in code whose exceptions Python ignores.

    Such are destructors and callbacks of weak references, and each import ends in one: the body would go on to its end
    though it was told to stop. The hook runs inside the ignored code, so the next interrupt comes from a timer.
    """
    report_unraisable = sys.unraisablehook
    signal.signal(signal.SIGALRM, signal.default_int_handler)

    def interrupt_again(ignored: sys.UnraisableHookArgs) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, _POLL_SECONDS)
        else:
            report_unraisable(ignored)

    sys.unraisablehook = interrupt_again


def _run_body(body: Callable[[], int], as_json: bool, verbose: bool) -> int:
    """Run the body; its exceptions become messages and an exit code."""
    code = 1
    try:
        code = call_with_room(body)
    except EdgexError as error:
        if as_json:
            print_json(failure_document(error))
        report_failure(error, trace=verbose)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        failure = output_failure(error)
        if failure is None:
            traceback.print_exc()
        else:
            report_failure(failure, trace=verbose)
            code = failure.exit_code
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # the reader is gone; there is nobody left to tell
                continue
    return code


def _wait(
    child: int,
    timeout_seconds: float | None,
    received: Sequence[int],
    as_json: bool,
    clean_up: Callable[[int], None],
    model: str | None,
) -> int:
    """Wait for the child, or end it; the exit code of the command."""
    status = _poll(child, timeout_seconds, received)
    if status is None:
        _end(child, clean_up)
        if received:
            return _tell_ended(received[0], as_json)
        error = TimeoutExpired(
            f"stopped after {timeout_seconds:g} s, as --timeout asks",
            fix="give it more time with --timeout, or none",
        )
        return _tell(error, as_json)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        clean_up(child)
        return _tell(_describe_crash(name, BOARD.stage, model), as_json)
    code = os.WEXITSTATUS(status)
    return _tell_ended(signal.SIGINT, as_json) if _is_untold(code) else code


def _is_untold(code: int) -> bool:
    """Whether somebody interrupted the body alone, which says nothing of it itself."""
    return code == Interrupted.exit_code and not BOARD.answered


def _tell_ended(number: int, as_json: bool) -> int:
    """Say that a signal ended the command; with the document that an error has, unless the work printed its own."""
    error = Terminated("ended by SIGTERM") if number == signal.SIGTERM else Interrupted("interrupted")
    if as_json and not BOARD.answered:
        print_json(failure_document(error))
    click.echo(error.what, err=True)
    return error.exit_code


def _describe_crash(name: str, stage: str | None, model: str | None) -> RunError:
    """A child that a signal killed: in which stage, and whether the model's own code ran in it."""
    what = f"the process was killed by {name}" + ("" if stage is None else f" in the stage {stage}")
    if name not in _FAULTS or model is None or stage not in _STAGES_OF_THE_MODEL or model.endswith(".pt2"):
        return RunError(what, fix=_FIXES.get(name))
    return RunError(
        what,
        model,
        "set PYTHONFAULTHANDLER=1 and run the command again: Python prints the line in which it ended",
        why=f"this is a fault of native code, and this stage runs the code of {model}, which may be the cause",
    )


_FAULTS = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
# Those that import the model's file, call its functions or run its forward.
_STAGES_OF_THE_MODEL = ("find", "capture", "blockers", "reference", "quantize", "calibrate")
_FIXES = {
    "SIGKILL": "the system killed it, most often because memory ran out",
    "SIGSEGV": "this is a fault of native code; try another --target, and please report it",
    "SIGABRT": "this is a fault of native code; try another --target, and please report it",
    "SIGILL": "the native code needs instructions that this processor lacks",
}


def _poll(child: int, timeout_seconds: float | None, received: Sequence[int]) -> int | None:
    """Wait for the child; None when time ran out or a signal came."""
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    wait_seconds = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if received or (deadline is not None and time.monotonic() >= deadline):
            return None
        time.sleep(wait_seconds)
        wait_seconds = min(wait_seconds * 1.5, _POLL_SECONDS)


def _end(child: int, clean_up: Callable[[int], None]) -> None:
    """Ask the child's group to stop, then kill it."""
    _signal_group(child, signal.SIGINT)
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline:
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(_POLL_SECONDS)
    else:
        _signal_group(child, signal.SIGKILL)
        os.waitpid(child, 0)
    _signal_group(child, signal.SIGKILL)  # whatever the child had started and left behind
    clean_up(child)


def _signal_group(child: int, number: signal.Signals) -> None:
    try:
        os.killpg(child, number)
    except ProcessLookupError:
        # The child has not made its group yet, or everything in it is gone.
        try:
            os.kill(child, number)
        except ProcessLookupError:
            return


def _tell(error: EdgexError, as_json: bool) -> int:
    if as_json and not BOARD.answered:
        print_json(failure_document(error))
    report_failure(error)
    return error.exit_code


def leftovers_remover(folder: Path) -> Callable[[int], None]:
    """A `clean_up` that removes what a killed export left: its temporary artifacts, and folders made for them.

    Args:
        folder: The output folder; which of its parents exist is noted now, before the child makes them.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]

    def remove(process: int) -> None:
        from edgex.runtime.artifact.artifact import SUFFIX
        from edgex.runtime.support.publish import remove_empty, remove_leftovers

        remove_leftovers(folder, SUFFIX, process)
        remove_empty(missing)

    return remove
