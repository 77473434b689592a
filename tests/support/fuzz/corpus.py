"""Good inputs to start from, built by code: a small model exported to three engines, and a profile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from model_support import MODELS, run_edgex
from report_support import make_report

from fuzz.subjects import Corpus

MODEL = "dynamic"


def make_corpus(folder: Path, find: Callable[[str, str], Path]) -> Corpus:
    """A corpus.

    Args:
        folder: Receives the profile and what the cases write.
        find: Gives the artifact of a model and a target.
    """
    report = folder / "good-report.json"
    report.write_text(make_report(3).dumps())
    (folder / "work").mkdir(exist_ok=True)
    onnx, pte, reference = (find(MODEL, target) for target in ("onnx-cpu", "xnnpack", "reference"))
    return Corpus(onnx, pte, reference, report, folder / "work")


def export_corpus(folder: Path) -> Corpus:
    """A corpus of its own, kept in `folder` for the next time."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = ("reference", "xnnpack", "onnx-cpu")
    if not all((folder / f"{MODEL}.{target}.edgex").is_dir() for target in targets):
        (folder / f"{MODEL}.py").write_text(MODELS[MODEL])
        done = run_edgex("export", f"{MODEL}.py", "-t", ",".join(targets), "-q", "--force", cwd=folder)
        assert done.returncode == 0, done.stderr
    return make_corpus(folder, lambda model, target: folder / f"{model}.{target}.edgex")
