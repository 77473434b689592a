"""The folder of a sweep: its plan, a journal of what is known this minute, and a Parquet dataset of what is complete.

```
results/
  plan.json              what was asked
  rows/part-00000.parquet … whole rows, a part for some hundred; `pyarrow.dataset.dataset("results/rows")` reads them
  journal.jsonl          a line a row since the last part; a killed sweep goes on from here
  artifacts/             unless they go elsewhere
```

A row is a line of the journal, written at once when it is known, and part of Parquet later: a file for each row would
be slow to read. A process that is killed between the two leaves the row in both, which does no harm: the last one of a
job counts.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from edgex.errors import ArtifactError, RunError, TargetUnavailable, UsageError
from edgex.runtime.measure.results.columns import from_columns, schema_of, to_columns
from edgex.runtime.measure.results.row import Row
from edgex.runtime.support.json.reading import parse_json, read_json
from edgex.runtime.support.publish import disk_errors, replacing, write_text

PLAN, ROWS, JOURNAL, ARTIFACTS = "plan.json", "rows", "journal.jsonl", "artifacts"
SCHEMA = "edgex.sweep-plan/1"

# Rows of a part: some hundred kilobytes.
_ROWS_PER_PART = 256


def check_parquet() -> None:
    """Refuse to begin what could not be written down.

    Raises:
        TargetUnavailable: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise TargetUnavailable(
            "results are kept as Parquet, which needs pyarrow",
            fix="pip install 'edgex-toolchain[sweep]'",
            why=str(error),
        ) from error


def is_results(path: Path) -> bool:
    """Whether a path is the results' folder of a sweep."""
    return (path / PLAN).is_file()


def read_plan(folder: Path) -> dict[str, Any]:
    """What a sweep was asked.

    Raises:
        UsageError: It is no results' folder.
        ArtifactError: Its plan is damaged.
    """
    if not is_results(folder):
        raise UsageError(
            f"{folder} holds no results of a sweep", why=f"there is no {PLAN} in it", fix="edgex sweep MODELS -o FOLDER"
        )
    try:
        document = read_json(folder / PLAN)
        if document["schema"] != SCHEMA or not isinstance(document["asked"], dict):
            raise ValueError(f"it is {document['schema']}, not {SCHEMA}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{folder / PLAN} cannot be read", why=str(error)) from error
    return dict(document)


def read_rows(folder: Path) -> list[Row]:
    """The last row of every job, in the order in which jobs were first seen.

    Raises:
        TargetUnavailable: pyarrow is not installed.
        ArtifactError: A file is damaged; the last line of the journal may be half a line.
    """
    check_parquet()
    from pyarrow import ArrowException, parquet

    found: dict[str, Row] = {}
    for path in sorted((folder / ROWS).glob("part-*.parquet")):
        try:
            # Read as one file: a dataset would unify schemas of parts, of which some may be of an earlier version.
            for entry in parquet.ParquetFile(path).read().to_pylist():
                row = Row.from_json(from_columns(entry, Row))
                found[row.job] = row
        except (OSError, ArrowException, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(
                f"{path} cannot be read", fix="remove it: its jobs run again", why=str(error)
            ) from error
    for row in _read_journal(folder / JOURNAL):
        found[row.job] = row
    return list(found.values())


def _read_journal(path: Path) -> Iterable[Row]:
    if not path.is_file():
        return
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield Row.from_json(parse_json(line))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):  # a write that was cut off
                return
            raise ArtifactError(
                f"{path}, line {number}, cannot be read", fix="remove the line: its job runs again", why=str(error)
            ) from error


class ResultsFolder:
    """A results' folder that this process writes, and no other; a context manager."""

    def __init__(self, path: Path, asked: Mapping[str, Any], *, force: bool = False, extend: bool = False) -> None:
        """Open or make it.

        Args:
            path: The folder.
            asked: What is asked, as JSON holds it: a folder in which something else was asked is refused.
            force: Remove what is in it and begin anew.
            extend: Where something else was asked of which only lists differ, add to it.

        Raises:
            UsageError: It holds something else, or another process writes it.
            TargetUnavailable: pyarrow is not installed.
            RunError: The disk refuses.
        """
        check_parquet()
        self.path = path
        self._rows: dict[str, Row] = {}
        self._pending: dict[str, Row] = {}  # those of the journal
        self._since = 0
        self._leaves = False
        self._journal: FileIO | None = None
        with disk_errors(RunError, f"cannot write {path}"):
            if path.exists() and not path.is_dir():
                raise UsageError(f"{path} is not a folder", fix="-o FOLDER")
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path, os.O_RDONLY)
            try:
                self._claim(json.loads(json.dumps(asked)), force, extend)
                self._rows = {row.job: row for row in read_rows(path)}
                self._pending = {row.job: row for row in _read_journal(path / JOURNAL)}
                self._mend()
                self._journal = FileIO(path / JOURNAL, "a")
            except BaseException:
                os.close(self._lock)
                raise

    def _claim(self, asked: dict[str, Any], force: bool, extend: bool) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another sweep writes into {self.path}", fix="wait for it, or take another -o") from None
        except OSError:  # a file system without locks
            pass
        if force and is_results(self.path):
            for name in (ROWS, ARTIFACTS):
                shutil.rmtree(self.path / name, ignore_errors=True)
            for name in (JOURNAL, PLAN):
                (self.path / name).unlink(missing_ok=True)
        if not is_results(self.path):
            if any(path.name != ARTIFACTS for path in self.path.iterdir()):
                raise UsageError(f"{self.path} holds something other than results of a sweep", fix="take another -o")
            self._write_plan(asked)
            return
        before = read_plan(self.path)["asked"]
        if before != asked:
            other = sorted(key for key in {*before, *asked} if before.get(key) != asked.get(key))
            lists = [key for key in other if isinstance(before.get(key), list) and isinstance(asked.get(key), list)]
            if extend and lists == other:
                more = {key: [entry for entry in asked[key] if entry not in before[key]] for key in lists}
                self._write_plan({**before, **{key: [*before[key], *more[key]] for key in lists}})
                return
            raise UsageError(
                f"{self.path} holds the results of another plan",
                why="\n".join(
                    f"{key}: {_short(before.get(key))} there, {_short(asked.get(key))} asked" for key in other
                ),
                fix="take another -o; --extend adds to what is there, --force replaces it",
            )

    def _write_plan(self, asked: Mapping[str, Any]) -> None:
        write_text(self.path / PLAN, json.dumps({"schema": SCHEMA, "asked": asked}, indent=1) + "\n")

    def _mend(self) -> None:
        """A line that was cut off would run into the next one."""
        path = self.path / JOURNAL
        if path.is_file() and (text := path.read_bytes()) and not text.endswith(b"\n"):
            os.truncate(path, text.rfind(b"\n") + 1)

    @property
    def rows(self) -> Mapping[str, Row]:
        """The last row of every job."""
        return self._rows

    def append(self, row: Row) -> None:
        """Write a row down; what was appended before stays whatever happens.

        Raises:
            RunError: The disk refuses.
        """
        assert self._journal is not None
        with disk_errors(
            RunError,
            f"cannot write {self.path / JOURNAL}",
            fix="free some space, and give the same command: it goes on",
        ):
            _write_line(self._journal, json.dumps(row.to_json(), allow_nan=False, ensure_ascii=False).encode() + b"\n")
        self._rows[row.job] = self._pending[row.job] = row
        self._since += 1
        if self._since >= _ROWS_PER_PART:
            self.fold()

    def fold(self) -> None:
        """Turn complete rows of the journal into a part of the dataset; a row without its measurement waits.

        Raises:
            RunError: The disk refuses.
        """
        from pyarrow import Table, parquet

        assert self._journal is not None
        complete = [row for row in self._pending.values() if row.complete]
        left = {row.job: row for row in self._pending.values() if not row.complete}
        if complete:
            with disk_errors(RunError, f"cannot write {self.path / ROWS}", fix="free some space"):
                parts = self.path / ROWS
                parts.mkdir(exist_ok=True)
                numbers = [int(path.stem.removeprefix("part-")) for path in parts.glob("part-*.parquet")]
                entries = [to_columns(row.to_json(), Row) for row in complete]
                table = Table.from_pylist(entries, schema=schema_of(Row))
                with replacing(parts / f"part-{max(numbers, default=-1) + 1:05}.parquet") as temporary:
                    parquet.write_table(table, temporary, compression="zstd")
                lines = [json.dumps(row.to_json(), ensure_ascii=False) + "\n" for row in left.values()]
                write_text(self.path / JOURNAL, "".join(lines))
                self._journal.close()
                self._journal = FileIO(self.path / JOURNAL, "a")
        self._pending, self._since = left, 0

    def leave(self) -> None:
        """Let the journal be as it is when this is closed: for what has to end at once, and loses nothing by it."""
        self._leaves = True

    def close(self) -> None:
        """Fold, and let others write it. Closing twice is allowed."""
        if self._journal is None:
            return
        try:
            if not self._leaves:
                self.fold()
        finally:
            self._journal.close()
            self._journal = None
            os.close(self._lock)

    def __enter__(self) -> ResultsFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close()
        except RunError:  # the first failure is the one to tell
            return


def _write_line(stream: FileIO, line: bytes) -> None:
    """Write all of a line or, on a full disk, none of it."""
    before = os.fstat(stream.fileno()).st_size
    try:
        while line:
            line = line[stream.write(line) or 0 :]
    except OSError:
        with suppress(OSError):  # no regular file
            stream.truncate(before)
        raise


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"
