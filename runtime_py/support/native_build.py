"""Compile something of ours once, beside where it will stand, and never let anybody see half of it."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgex.errors import TargetUnavailable
from edgex.runtime.support.process.programs import run_program
from edgex.runtime.support.publish import replacing

_OUTPUT_LINES = 12


def executorch_flags(executorch: Path) -> list[str]:
    """What compiling against the headers of an executorch wheel takes.

    The two macros are those that the wheel was made with: its classes depend on them.

    Args:
        executorch: Folder of the package, installed or unpacked.
    """
    return [
        *("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"),
        *("-isystem", f"{executorch}/include"),
        *("-isystem", f"{executorch}/include/executorch/runtime/core/portable_type/c10"),
        f"-L{executorch}/lib",
    ]


def compile_arguments(folder: Path) -> list[str]:
    """What the compiler gets of the C++ sources in a folder and those below it.

    They include each other by their path from that folder.
    """
    return [*sorted(str(source) for source in folder.rglob("*.cpp")), f"-I{folder}"]


def source_bytes(folder: Path) -> bytes:
    """Every C++ source in a folder and those below it, with its path: what a digest of what is compiled is made of."""
    sources = sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".h"))
    return b"".join(
        path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0" for path in sources
    )


def compile_into(output: Path, command: Callable[[Path], Sequence[str]], what: str) -> None:
    """Compile beside `output` and rename.

    Args:
        output: Where the result will stand; its folder exists.
        command: The compiler's command line for an output file.
        what: What is compiled, for messages: `the oneDNN backend`.

    Raises:
        TargetUnavailable: The compiler failed.
    """
    with replacing(output) as temporary:
        line = command(temporary)
        done = run_program(line, capture_output=True, text=True)
        if done.returncode:
            raise TargetUnavailable(
                f"{Path(line[0]).name} could not compile {what}",
                fix="install g++ 9 or newer, and the tested executorch",
                why="\n".join(done.stderr.strip().splitlines()[:_OUTPUT_LINES]),
            )
        temporary.chmod(0o755)


def compiler_stamp(compiler: Path) -> tuple[str, ...]:
    """Changes with the compiler. The file's identity stands for the version: asking it costs a process each time."""
    real = compiler.resolve()
    status = real.stat()
    return str(real), str(status.st_size), str(status.st_mtime_ns)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system takes back when the process ends, however it ends."""
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
