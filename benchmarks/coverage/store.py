"""Results on disk: one JSON line a model and target, so that an interrupted run goes on where it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.coverage.outcome import Outcome
from benchmarks.processes import ROOT

PACKAGES = (
    *("torch", "executorch", "onnx", "onnxscript", "onnxruntime", "onednn-cpu-gomp"),
    *("transformers", "torchvision", "timm"),
)
_SOURCES = ("export", "delegates", "runtime_py", "src/edgex")
_SUFFIXES = (".py", ".cpp", ".h")


def package_versions() -> dict[str, str]:
    """Versions of what takes part, of those that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def sources_digest(root: Path = ROOT) -> str:
    """Twelve digits that change with edgex's code, the suite's models and the packages."""
    digest = hashlib.sha256(json.dumps(package_versions(), sort_keys=True).encode())
    folders = [*_SOURCES, "benchmarks/coverage"]
    files = sorted({path for folder in folders for path in (root / folder).rglob("*") if path.suffix in _SUFFIXES})
    for path in files:
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Store:
    """The file of results; the last line of a model and target counts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[tuple[str, str], Outcome]:
        """All results by model and target. A half line, as an interruption leaves it, is passed over."""
        found: dict[tuple[str, str], Outcome] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                try:
                    outcome = Outcome.from_json(json.loads(line))
                except (ValueError, TypeError):
                    continue
                found[outcome.model, outcome.target] = outcome
        return found

    def append(self, outcomes: Iterable[Outcome]) -> None:
        """Add results."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            for outcome in outcomes:
                stream.write(json.dumps(outcome.to_json(), ensure_ascii=False) + "\n")
