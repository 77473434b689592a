"""The known-good matrix: which versions go together. The one file to edit when a new set was tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TestedSet:
    """Versions that were tested together, as `major.minor`, or `major` where only that matters.

    Attributes:
        name: For messages.
        versions: Distribution -> version prefix.
    """

    name: str
    versions: Mapping[str, str]


PYTHON_OLDEST = (3, 11)
PYTHON_NEWEST = (3, 13)

# ExecuTorch and torchao are compiled against one torch; another one fails with undefined symbols, or worse, does not.
TESTED_SETS = (TestedSet("executorch 1.5", {"executorch": "1.5", "torch": "2.13", "torchao": "0.18"}),)

# Oldest and first too new version of the packages that are less strict.
RANGES: Mapping[str, tuple[str, str]] = {
    "onnx": ("1.20", "2"),
    "onnxscript": ("0.7", "0.8"),
    "onnxruntime": ("1.27", "2"),
    "onnxruntime-migraphx": ("1.22", "2"),
    "onnxruntime-qnn": ("2.7", "3"),
    "numpy": ("1.24", "3"),
    "click": ("8.1", "9"),
    "safetensors": ("0.5", "1"),
    "psutil": ("5.9", "8"),
    "rich": ("13", "16"),
}

# Distributions that unpack into one folder `onnxruntime`: the last installed overwrites the others.
ONNXRUNTIME_BUILDS = (
    *("onnxruntime", "onnxruntime-migraphx", "onnxruntime-rocm", "onnxruntime-gpu", "onnxruntime-directml"),
    *("onnxruntime-openvino", "onnxruntime-qnn", "ort-nightly"),
)

# Of these, what is a plug-in beside onnxruntime from a version on, and no build of it.
PLUGINS_FROM: Mapping[str, str] = {"onnxruntime-qnn": "2"}

# Builds of oneDNN by their OpenMP runtime; torch's wheels bring libgomp.
ONEDNN_OTHER_OPENMP = ("onednn-cpu-iomp", "onednn-cpu-tbb", "onednn-cpu-dpcpp-gpu-dpcpp")
OTHER_OPENMP_LIBRARIES = ("libiomp5", "libomp.", "libomp5")

# What the target onednn needs: the library, its headers, and a compiler for the backend.
ONEDNN_LIBRARY = "onednn-cpu-gomp"
ONEDNN_HEADERS = "onednn-devel-cpu-gomp"
COMPILERS = ("c++", "g++", "clang++")
