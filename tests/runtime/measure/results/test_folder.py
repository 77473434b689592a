"""What was appended stays: cut-off lines, full disks, other plans, two writers."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from sweep_support import make_row

from edgex.errors import ArtifactError, RunError, UsageError
from edgex.runtime.measure.results.columns import from_columns, schema_of, to_columns
from edgex.runtime.measure.results.folder import JOURNAL, ROWS, ResultsFolder, read_plan, read_rows
from edgex.runtime.measure.results.row import Row

pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
ASKED = {"models": ["a", "b"], "targets": ("xnnpack",)}
DONE = make_row("a", left_out={"aten.sort.default": 2})
FAILED = make_row("b", what="xnnpack cannot run this")
WAITING = make_row("c", milliseconds=None, complete=False)


def test_rows_become_parquet_and_come_back_equal(tmp_path: Path) -> None:
    with ResultsFolder(tmp_path / "results", ASKED) as results:
        for row in (DONE, FAILED, WAITING):
            results.append(row)
    assert read_rows(tmp_path / "results") == [DONE, FAILED, WAITING]
    # Any reader of Parquet sees those that are complete; the journal keeps the other one.
    table = pyarrow.parquet.read_table(tmp_path / "results" / ROWS)
    assert table.column("model").to_pylist() == ["a", "b"]
    assert table.column("made").to_pylist()[0]["left_out"][0]["op"] == "aten.sort.default"
    assert len((tmp_path / "results" / JOURNAL).read_text().splitlines()) == 1
    assert read_plan(tmp_path / "results")["asked"] == {"models": ["a", "b"], "targets": ["xnnpack"]}
    with ResultsFolder(tmp_path / "results", ASKED) as results:
        timed = dataclasses.replace(make_row("c"), job=WAITING.job)
        results.append(timed)
    assert read_rows(tmp_path / "results") == [DONE, FAILED, timed]
    assert len(list((tmp_path / "results" / ROWS).iterdir())) == 2


def test_columns_hold_everything_that_a_row_has() -> None:
    for row in (DONE, FAILED, WAITING):
        table = pyarrow.Table.from_pylist([to_columns(row.to_json(), Row)], schema=schema_of(Row))
        assert Row.from_json(from_columns(table.to_pylist()[0], Row)) == row


def test_a_killed_writer_loses_at_most_half_a_line(tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path, ASKED)
    results.append(DONE)
    results.append(FAILED)
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b'{"job": "12')
    # As after a kill: nobody closed it.
    assert read_rows(tmp_path) == [DONE, FAILED]
    results._journal.close()
    os.close(results._lock)
    with ResultsFolder(tmp_path, ASKED) as again:
        assert list(again.rows.values()) == [DONE, FAILED]
        again.append(WAITING)
    assert read_rows(tmp_path) == [DONE, FAILED, WAITING]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with ResultsFolder(tmp_path, ASKED) as results:
        results.append(DONE)
    part = next((tmp_path / ROWS).iterdir())
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(ArtifactError, match=r"part-00000.parquet cannot be read"):
        read_rows(tmp_path)


def test_another_plan_and_another_writer_are_refused(tmp_path: Path) -> None:
    with ResultsFolder(tmp_path / "results", ASKED) as results:
        results.append(DONE)
        with pytest.raises(UsageError, match="another sweep writes into"):
            ResultsFolder(tmp_path / "results", ASKED)
    with pytest.raises(UsageError, match="holds the results of another plan") as caught:
        ResultsFolder(tmp_path / "results", {**ASKED, "targets": ["onnx-cpu"]})
    assert 'targets: ["xnnpack"] there, ["onnx-cpu"] asked' in str(caught.value.why)
    with ResultsFolder(tmp_path / "results", {**ASKED, "targets": ["onnx-cpu"]}, force=True) as results:
        assert not results.rows
    with ResultsFolder(
        tmp_path / "results", {**ASKED, "models": ["c"], "targets": ["onnx-cpu"]}, extend=True
    ) as results:
        results.append(FAILED)
    extended = {"models": ["a", "b", "c"], "targets": ["onnx-cpu"]}
    assert read_plan(tmp_path / "results")["asked"] == extended
    with pytest.raises(UsageError, match="another plan"):
        ResultsFolder(tmp_path / "results", {**extended, "runs": 5}, extend=True)
    assert read_rows(tmp_path / "results") == [FAILED]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="holds something other than results"):
        ResultsFolder(tmp_path / "other", ASKED, force=True)
    with pytest.raises(UsageError, match="holds no results of a sweep"):
        read_plan(tmp_path / "other")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_ends_it_and_what_was_known_stays(tmp_path: Path) -> None:
    with ResultsFolder(tmp_path, ASKED) as results:
        results.append(DONE)
    (tmp_path / JOURNAL).unlink()
    (tmp_path / JOURNAL).symlink_to("/dev/full")
    with pytest.raises(RunError, match="cannot write") as caught, ResultsFolder(tmp_path, ASKED) as results:
        results.append(FAILED)
    assert "space" in str(caught.value.why) and "it goes on" in str(caught.value.fix)
    (tmp_path / JOURNAL).unlink()
    assert read_rows(tmp_path) == [DONE]
