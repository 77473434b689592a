"""Artifacts at URLs, by fsspec itself: sent, fetched, not exported again; places that cannot be are refused first."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_support import Simulated, make_row, write_models

from edgex.errors import ArtifactError, RunError, TargetUnavailable, UsageError
from edgex.export.sweep.driver import Standing, run_sweep
from edgex.export.sweep.exporting import TargetResult
from edgex.export.sweep.local import LocalExecutor
from edgex.export.sweep.placing import check_place, fetched, is_there, place_artifacts
from edgex.export.sweep.plan import SweepPlan, name_models
from edgex.export.sweep.task import ExportTask, MeasureTask
from edgex.runtime.artifact.artifact import open_artifact

fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
pytest.importorskip("pyarrow", reason="needs pyarrow")


def made(artifact: Path) -> dict[str, TargetResult]:
    """The result of an export that wrote this."""
    like = make_row("net").made
    assert like is not None
    return {"xnnpack": TargetResult("verified", {}, None, replace(like, artifact=str(artifact)))}


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_an_artifact_comes_back_as_it_went(kind: str, exported, tmp_path: Path) -> None:
    artifact = exported("convnet", "xnnpack")
    url = f"file://{tmp_path}/fleet" if kind == "file" else "memory://fleet"
    placed = place_artifacts(made(artifact), url)["xnnpack"]
    assert placed.status == "verified" and placed.made is not None
    assert placed.made.artifact == f"{url}/{artifact.name}" and is_there(placed.made.artifact)
    with fetched(placed.made.artifact) as local:
        assert open_artifact(str(local)).digest == open_artifact(str(artifact)).digest
        names = [sorted(path.relative_to(one).as_posix() for path in one.rglob("*")) for one in (local, artifact)]
        assert names[0] == names[1]
    assert not local.exists()
    # Half of an artifact is none, and says so where it is fetched.
    system, root = fsspec.core.url_to_fs(placed.made.artifact)
    system.rm_file(f"{root}/manifest.json")
    assert not is_there(placed.made.artifact)
    with pytest.raises(ArtifactError, match=f"{url}.* cannot be fetched"), fetched(placed.made.artifact):
        raise AssertionError("there is none")


def test_what_cannot_be_written_after_all_is_the_failure_of_that_target(exported, tmp_path: Path) -> None:
    (tmp_path / "fleet").write_text("a file, not a folder")
    placed = place_artifacts(made(exported("convnet", "xnnpack")), f"file://{tmp_path}/fleet")["xnnpack"]
    assert placed.status == "failed" and placed.made is None and placed.failure is not None
    assert placed.failure.stage == "place" and "cannot be written to file://" in placed.failure.what


class Counting(LocalExecutor):
    """Counts what is begun."""

    def __init__(self) -> None:
        super().__init__(1)
        self.begun: list[type] = []

    def submit(self, task) -> None:
        self.begun.append(type(task))
        super().submit(task)


@pytest.mark.slow
def test_an_artifact_at_a_url_is_measured_from_there_and_not_exported_again(tmp_path: Path) -> None:
    write_models(tmp_path, ("good",))
    place = f"file://{tmp_path}/fleet"
    plan = SweepPlan(name_models(["good.py"]), ("onnx-cpu",), runs=3, folder=tmp_path, artifacts=place)

    def interrupt(standing: Standing) -> None:
        if standing.latest.endswith("verified"):
            raise KeyboardInterrupt

    before = run_sweep(plan, tmp_path / "out", lambda _plan: Counting(), progress=interrupt)
    assert before.interrupted and not before.rows[0].complete and before.rows[0].made is not None
    url = before.rows[0].made.artifact
    assert url == f"{place}/good/fp32/good.onnx-cpu.edgex" and (tmp_path / "fleet" / "good").is_dir()
    executor = Counting()
    after = run_sweep(plan, tmp_path / "out", lambda _plan: executor)
    assert executor.begun == [MeasureTask] and after.failed == 0
    assert after.rows[0].timing is not None and after.rows[0].made == before.rows[0].made


@pytest.mark.parametrize("kept", [True, False])
def test_a_simulated_executor_exports_again_only_what_is_gone_from_its_url(kept: bool, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("")
    plan = SweepPlan(name_models(["net.py"]), ("reference",), folder=tmp_path, artifacts=f"file://{tmp_path}/fleet")

    def interrupt(standing: Standing) -> None:
        if standing.latest.endswith("verified"):
            raise KeyboardInterrupt

    before = run_sweep(plan, tmp_path / "out", lambda _plan: Simulated(), progress=interrupt)
    assert before.interrupted and before.rows[0].made is not None
    if kept:
        manifest = Path(str(before.rows[0].made.artifact).removeprefix("file://")) / "manifest.json"
        manifest.parent.mkdir(parents=True)
        manifest.touch()
    executor = Simulated()
    assert run_sweep(plan, tmp_path / "out", lambda _plan: executor).failed == 0
    assert [type(task) for task in executor.seen] == ([MeasureTask] if kept else [ExportTask, MeasureTask])


@pytest.mark.parametrize(
    ("place", "error", "words"),
    [
        ("file://{}/taken/below", RunError, "cannot be written"),
        ("{}/taken/below", RunError, "cannot be written"),
        ("nosuch://bucket/fleet", UsageError, "no such kind of URL"),
        ("memory://fleet", UsageError, "the memory of one process"),
        ("http://127.0.0.1:9/fleet", (RunError, TargetUnavailable), "cannot be (written|reached)"),
        ("s3://bucket/fleet", (RunError, TargetUnavailable), "cannot be (written|reached)"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_anything_is_exported(
    place: str, error, words: str, tmp_path: Path
) -> None:
    write_models(tmp_path, ("good",))
    (tmp_path / "taken").write_text("a file")
    plan = SweepPlan(name_models(["good.py"]), ("onnx-cpu",), folder=tmp_path, artifacts=place.format(tmp_path))

    def must_not_start(_plan: SweepPlan):
        raise AssertionError("it was refused")

    with pytest.raises(error, match=words):
        run_sweep(plan, tmp_path / "out", must_not_start)
    assert not (tmp_path / "out").exists()


def test_without_fsspec_a_url_is_an_error_with_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(TargetUnavailable) as caught:
        check_place("file:///tmp/fleet")
    assert caught.value.exit_code == 7 and "pip install 'edgex-toolchain[sweep]'" in str(caught.value.fix)
