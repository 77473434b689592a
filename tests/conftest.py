"""What all tests share: tiny real models, and artifacts exported from them once a run."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import warm_processes
from filelock import FileLock
from model_support import MODELS, OTHER_TARGETS, TARGETS, run_edgex

from edgex.runtime.support.process import child


@pytest.fixture
def edgex(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in the test's folder, in this process: torch is imported once, not once a call.

    `EDGEX_SUPERVISED` keeps commands from forking; tests of that use `run_edgex`.
    """
    from edgex.cli.main import main

    monkeypatch.setenv("EDGEX_SUPERVISED", "1")
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        path_before = list(sys.path)
        try:
            main(args)
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 1
        finally:
            sys.path[:] = path_before
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(args, code, out, err)

    return run


@pytest.fixture
def run_here(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in the test's folder, as a process of its own."""
    return lambda *args: run_edgex(*args, cwd=tmp_path, timeout=1800)


@pytest.fixture
def model_file(tmp_path: Path) -> Callable[[str], Path]:
    """Write one of `MODELS`, or a text, as a model file into the test's folder."""

    def write(model: str, name: str = "model") -> Path:
        path = tmp_path / f"{model if model in MODELS else name}.py"
        path.write_text(MODELS.get(model, model))
        return path

    return write


@pytest.fixture(scope="module", autouse=True)
def sessions_are_closed() -> Iterator[None]:
    """A file closes what it opens: ExecuTorch's open sessions fix the threads of every file after it in the process."""
    threads = "edgex.runtime.engines.executorch.threads"

    def still_open() -> int:
        return sys.modules[threads].POOL._open_sessions if threads in sys.modules else 0

    before = still_open()
    yield
    assert still_open() <= before, f"{still_open() - before} ExecuTorch sessions were left open"


def pytest_configure() -> None:
    """Look for garbage less often: an export makes millions of objects, and torch's own are looked at each time.

    And start edgex's children with everything imported, where a test is not about that: see `warm_processes`.
    """
    gc.set_threshold(50_000, 20, 10)
    child.start_python = warm_processes.start_python


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """In CI, name every skip that is not on the list: `pytest_sessionfinish` has failed the run for it."""
    for where, reason in _strange_skips(terminalreporter.config):
        terminalreporter.write_line(f"skipped, and not in tests/allowed_skips.txt: {where}: {reason}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a strict run in which a test was skipped for a reason that nobody accepted."""
    if session.exitstatus == pytest.ExitCode.OK and _strange_skips(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _strange_skips(config: pytest.Config) -> list[tuple[str, str]]:
    """(test, reason) of the skips that are not on the list; none unless the run is strict."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("EDGEX_STRICT_SKIPS") != "1" or reporter is None:
        return []
    lines = (Path(__file__).parent / "allowed_skips.txt").read_text(encoding="utf-8").splitlines()
    allowed = [line for line in lines if line and not line.startswith("#")]
    skips = [(report.nodeid, str(report.longrepr[-1])) for report in reporter.stats.get("skipped", [])]
    return [(where, reason) for where, reason in skips if not any(re.search(line, reason) for line in allowed)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that take minutes start first: begun last, one would keep a worker busy while the other has nothing.

    Where no single test is asked for, what stands before the targets runs on one of them a test, and the tests of
    `slow_tests.txt` are slow.
    """
    items.sort(key=lambda item: item.get_closest_marker("long_file") is None)
    if not any("::" in argument for argument in config.args) and not config.getoption("keyword"):
        _take_targets_in_turn(items)
        _mark_slow(items)


# Stages before the targets, whose tests compare the program they make with eager, too: a target shows that it runs it.
_BEFORE_TARGETS = tuple(
    map(Path, ("tests/export/capture", "tests/export/rewrites", "tests/export/source", "tests/delegates/executorch"))
)


def _take_targets_in_turn(items: list[pytest.Item]) -> None:
    """Mark as slow all but one target of each test there; which one it is differs from test to test."""
    alike: dict[str, list[pytest.Function]] = {}
    for item in items:
        call = getattr(item, "callspec", None)
        where = item.path.relative_to(item.config.rootpath)
        if not isinstance(item, pytest.Function) or call is None or item.get_closest_marker("slow"):
            continue
        if "target" in call.params and any(where.is_relative_to(folder) for folder in _BEFORE_TARGETS):
            others = call.id.replace(str(call.params["target"]), "", 1)
            alike.setdefault(f"{where}::{item.originalname} {others}", []).append(item)
    for name, group in alike.items():
        kept = zlib.crc32(name.encode()) % len(group)
        for item in group[:kept] + group[kept + 1 :]:
            item.add_marker(pytest.mark.slow)


def _mark_slow(items: list[pytest.Item]) -> None:
    """Mark the tests of `slow_tests.txt`.

    Raises:
        pytest.UsageError: A line there names no test of a file that was collected.
    """
    lines = (Path(__file__).parent / "slow_tests.txt").read_text(encoding="utf-8").splitlines()
    patterns = {line: re.compile(line) for line in lines if line and not line.startswith("#")}
    unused = dict(patterns)
    for item in items:
        for line, pattern in patterns.items():
            if pattern.match(item.nodeid):
                item.add_marker(pytest.mark.slow)
                unused.pop(line, None)
    files = {item.nodeid.partition("::")[0] for item in items}
    if stale := [line for line in unused if any(re.match(line.partition("::")[0], file) for file in files)]:
        raise pytest.UsageError(f"tests/slow_tests.txt names tests that do not exist: {', '.join(stale)}")


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Artifacts by model and target, exported once a run by the command line; treat them as read-only."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the run's own, which its workers share
    folder /= "exported"
    folder.mkdir(exist_ok=True)

    def get(model: str, target: str) -> Path:
        done = folder / f"{model}.done"
        with FileLock(folder / f"{model}.lock"):
            if not done.exists():
                (folder / f"{model}.py").write_text(MODELS[model])
                targets = OTHER_TARGETS.get(model, TARGETS)
                result = run_edgex("export", f"{model}.py", "-t", ",".join(targets), "-q", cwd=folder)
                assert result.returncode == 0, result.stderr
                done.touch()
        return folder / f"{model}.{target}.edgex"

    return get


@pytest.fixture
def own_copy(exported: Callable[[str, str], Path], tmp_path: Path) -> Callable[[str, str], Path]:
    """A copy of an exported artifact that the test may damage."""

    def get(model: str, target: str) -> Path:
        source = exported(model, target)
        return Path(shutil.copytree(source, tmp_path / source.name))

    return get
