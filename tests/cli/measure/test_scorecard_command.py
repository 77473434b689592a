"""`edgex report` of a sweep's results, and what `edgex sweep` says before it begins anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sweep_support import make_row, write_models

from edgex.runtime.measure.results.folder import ResultsFolder

pytest.importorskip("pyarrow", reason="needs pyarrow")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two sweeps of six models: in the new one m1 is slower and m2 fails."""
    for name, slow, fails in (("old", 1.0, None), ("new", 1.5, "xnnpack cannot run this")):
        with ResultsFolder(tmp_path / name, {"models": ["m"]}) as folder:
            for at in range(6):
                milliseconds = slow if at == 1 else 1.0
                folder.append(make_row(f"m{at}", "xnnpack", milliseconds, seed=at, what=fails if at == 2 else None))
    return tmp_path


def test_a_scorecard_in_the_terminal_as_a_page_and_as_json(edgex, results: Path) -> None:
    done = edgex("report", "new")
    assert done.returncode == 0, done.stderr
    assert "new: 6 models, 6 jobs, 1 failed" in done.stdout and "lower: xnnpack cannot run this (m2)" in done.stdout
    done = edgex("report", "new", "--against", "old", "-o", "card.html", "-o", "card.json")
    assert done.returncode == 0, done.stderr
    assert "newly failing" in (results / "card.html").read_text()
    document = json.loads((results / "card.json").read_text())
    assert document["schema"] == "edgex.scorecard/1" and document["difference"]["worse"] == 2
    assert json.loads(edgex("report", "new", "--against", "old", "--json").stdout) == document


def test_fail_on_is_exit_code_4_and_names_what_is_worse(edgex, results: Path) -> None:
    done = edgex("report", "new", "--against", "old", "--fail-on", "3%")
    assert done.returncode == 4
    assert "2 jobs are newly failing, or surely slower by more than 3%" in done.stderr
    assert "m1, xnnpack: slower" in done.stderr and "m2, xnnpack: newly failing" in done.stderr
    assert edgex("report", "old", "--against", "new", "--fail-on", "3%").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "new", "--fail-on", "3%"), "--fail-on needs results to compare with"),
        (("report", "new", "--against", "old", "--fail-on", "much"), "expected a percentage"),
        (("report", "new", "old"), "results of a sweep are shown alone"),
        (("report", "new", "--against", "nowhere"), "nowhere holds no results of a sweep"),
        (("report", "new", "-o", "card.md"), "reports are written as .html or .json"),
        (("report", "new", "--by", "module"), "--by is for saved profiles"),
        (("sweep", "good.py", "-t", "xnpack", "-o", "out"), "unknown target 'xnpack'"),
        (("sweep", "gone.py", "-t", "xnnpack", "-o", "out"), "no such file: gone.py"),
        (("sweep", "none/*.py", "-o", "out"), "none/*.py: no .py or .pt2 file has such a name"),
        (("sweep", "gone.toml", "-o", "out"), "no such file: gone.toml"),
        (("sweep", "plan.toml", "good.py", "-o", "out"), "plan.toml is a plan: it stands alone"),
        (("sweep", "good.py", "-t", "reference", "-o", "new"), "new holds the results of another plan"),
        (("sweep", "good.py", "-t", "reference", "-o", "out", "--artifacts", "nope://x"), "no such kind of URL"),
        (("sweep", "good.py", "-t", "reference", "-o", "out", "--job-memory", "lots"), "'lots' is no amount of memory"),
        (("sweep", "good.py", "-t", "reference", "-o", "out", "--executor", "rey"), "unknown executor 'rey'"),
    ],
)
def test_what_is_wrong_is_said_at_once(edgex, results: Path, arguments: tuple[str, ...], words: str) -> None:
    write_models(results, ("good",))
    done = edgex(*arguments)
    assert done.returncode == 2 and words in done.stderr
    assert not (results / "out").exists()


def test_a_dry_run_lists_the_jobs(edgex, tmp_path: Path) -> None:
    write_models(tmp_path, ("good",))
    done = edgex("sweep", "good.py", "-t", "reference,xnnpack", "--precision", "fp32,bf16", "-o", "out", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "good: reference bf16" in done.stdout and "3 jobs, 1 refused" in done.stdout
    assert not (tmp_path / "out").exists()
