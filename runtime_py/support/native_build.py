"""Compile something of ours once, beside where it will stand, and never let anybody see half of it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from edgex.errors import TargetUnavailable
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.process.programs import run_program
from edgex.runtime.support.publish import replacing

_OUTPUT_LINES = 12
# Each compiler takes some hundred megabytes: more at once would fill the memory of a machine with many cores.
_MOST_AT_ONCE = 8


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


def source_bytes(folder: Path) -> bytes:
    """Every C++ source in a folder and those below it, with its path: what a digest of what is compiled is made of."""
    sources = sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".h"))
    return b"".join(
        path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0" for path in sources
    )


@dataclass(frozen=True)
class Build:
    """What is compiled.

    Attributes:
        what: For messages: `the oneDNN backend`.
        compiler: The C++ compiler.
        sources: A folder, of whose C++ sources all are compiled, with those below it; they include each other by their
            path from it.
        flags: For the compiler and the linker.
        linking: For the linker alone.
    """

    what: str
    compiler: Path
    sources: Path
    flags: tuple[str, ...]
    linking: tuple[str, ...]

    def compile_command(self, source: Path, output: Path) -> list[str]:
        """That makes an object of a source."""
        return [str(self.compiler), *self.flags, f"-I{self.sources}", "-c", str(source), "-o", str(output)]

    def link_command(self, objects: Sequence[Path], output: Path) -> list[str]:
        """That makes the result of the objects."""
        return [str(self.compiler), *self.flags, *map(str, objects), "-o", str(output), *self.linking]


def compile_into(output: Path, build: Build) -> None:
    """Compile on several cores, beside `output`, and rename.

    Args:
        output: Where the result will stand; its folder exists.
        build: What is compiled.

    Raises:
        TargetUnavailable: The compiler failed.
    """
    sources = sorted(build.sources.rglob("*.cpp"))
    with replacing(output) as temporary, TemporaryDirectory() as folder:
        objects = [Path(folder) / f"{number}.o" for number in range(len(sources))]
        pool = ThreadPoolExecutor(min(default_threads(), _MOST_AT_ONCE))
        try:
            # One that fails ends the others that have not begun.
            for _ in pool.map(partial(_run, build), map(build.compile_command, sources, objects)):
                pass
        finally:
            pool.shutdown(cancel_futures=True)
        _run(build, build.link_command(objects, temporary))
        temporary.chmod(0o755)


def _run(build: Build, command: Sequence[str]) -> None:
    done = run_program(command, capture_output=True, text=True)
    if done.returncode:
        raise TargetUnavailable(
            f"{build.compiler.name} could not compile {build.what}",
            fix="install g++ 9 or newer, and the tested executorch",
            why="\n".join(done.stderr.strip().splitlines()[:_OUTPUT_LINES]),
        )


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
