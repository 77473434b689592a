"""onnxruntime-genai and OpenVINO GenAI beside edgex, each in an environment of its own.

What converts a model for one of them wants a transformers that the other refuses, and neither's is edgex's. So each is
given by the Python of its environment, and everything of it runs there, in `peer_programs/`. Both convert the same
shape with random weights to 4 bits, 32 weights a scale, by their own tools and otherwise as these choose.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.llm.models import Shape
from benchmarks.processes import run_process

PROGRAMS = Path(__file__).resolve().parent / "peer_programs"
_BUILDER = (
    *("-m", "onnxruntime_genai.models.builder", "-p", "int4", "-e", "cpu"),
    *("--extra_options", "int4_block_size=32", "int4_accuracy_level=4", "int4_is_symmetric=true"),
)
_EXPORTER = (
    "--task",
    "text-generation-with-past",
    "--weight-format",
    "int4",
    "--group-size",
    "32",
    "--sym",
    "--ratio",
    "1.0",
)


@dataclass(frozen=True)
class Peer:
    """A library that runs language models.

    Attributes:
        name: As the page calls it.
        variable: Of the environment, that names its Python.
        program: What measures it.
    """

    name: str
    variable: str
    program: str

    @property
    def option(self) -> str:
        """The flag that names its Python."""
        return f"--{self.name.replace(' ', '-').lower()}"

    def convert(self, python: Path, source: Path, target: Path) -> None:
        """Make its own folder of a model in transformers' format."""
        cache = target.parent / f"{target.name}-cache"
        if self.name == "onnxruntime-genai":
            run_process(
                [str(python), *_BUILDER[:2], "-i", str(source), "-o", str(target), "-c", str(cache), *_BUILDER[2:]]
            )
        else:
            optimum = str(python.parent / "optimum-cli")
            run_process([optimum, "export", "openvino", "-m", str(source), *_EXPORTER, str(target)])
        shutil.rmtree(cache, ignore_errors=True)


PEERS = (
    Peer("onnxruntime-genai", "EDGEX_ONNXRUNTIME_GENAI", "time_onnxruntime.py"),
    Peer("OpenVINO GenAI", "EDGEX_OPENVINO_GENAI", "time_openvino.py"),
)
PRECISION = "int4"


def is_peer(who: str) -> bool:
    """Whether a contender is none of edgex's artifacts."""
    return who.startswith(("llama.cpp", *(peer.name for peer in PEERS)))


def make_peer_model(peer: Peer, python: Path, shape: Shape, folder: Path) -> Path:
    """The peer's model of this shape; one that an earlier run left is not made again.

    Raises:
        RuntimeError: Its tools failed; with their output.
    """
    target = folder / peer.option.removeprefix("--")
    if not target.exists():
        # No tool of theirs asks a hub for anything: all files are there.
        os.environ["HF_HUB_OFFLINE"] = "1"
        source, half = folder / f"{target.name}-source", folder / f"{target.name}-half"
        run_process([str(python), "-P", str(PROGRAMS / "make_model.py"), json.dumps(asdict(shape)), str(source)])
        shutil.rmtree(half, ignore_errors=True)
        peer.convert(python, source, half)
        half.rename(target)
        shutil.rmtree(source)
    return target


def count_bytes(model: Path) -> int:
    """The bytes of a peer's weights and graph, without its tokenizer."""
    names = ("openvino_model", "model.onnx")
    return sum(file.stat().st_size for file in model.iterdir() if file.name.startswith(names))


def run_peer(peer: Peer, python: Path, model: Path, shape: Shape, threads: int) -> Mapping[str, float]:
    """Tokens a second by test, one run of each after a warm-up."""
    command = [str(python), "-P", str(PROGRAMS / peer.program), str(model), str(threads), str(shape.vocabulary)]
    rates: Mapping[str, float] = json.loads(run_process(command).splitlines()[-1])
    return {test: float(rate) for test, rate in rates.items()}
