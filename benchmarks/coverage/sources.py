"""What made an outcome: edgex's code, the suite's models and the packages."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.processes import ROOT

PACKAGES = (
    *("torch", "executorch", "onnx", "onnxscript", "onnxruntime", "onednn-cpu-gomp"),
    *("transformers", "diffusers", "torchvision", "timm"),
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
