"""Captured programs and artifacts made by hand, so that these tests stand on the delegate and the engine alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate, OnnxCpuOptions
from edgex.runtime.artifact.artifact import hash_file, open_artifact
from edgex.runtime.artifact.manifest import FileEntry, Manifest
from edgex.runtime.artifact.specs import Dim, StateSpec, TensorSpec
from edgex.runtime.engines.onnxruntime.engine import OnnxRuntimeEngine
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.session.session import Session

HERE = Path(__file__).parent


def reinitialise(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Weights large enough that no output is near zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            fan_in = max(1, parameter[0].numel()) if parameter.ndim > 1 else 1
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / fan_in**0.5)
    return module.eval()


def capture(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    *,
    dynamic: Any = None,
    dims: dict[tuple[str, int], Dim] | None = None,
    outputs: tuple[str, ...] | None = None,
    precision: str = "fp32",
) -> CapturedProgram:
    """torch.export, with specs read off the graph; inputs are the graph's user inputs."""
    exported = torch.export.export(module, args, dynamic_shapes=dynamic)
    nodes = {node.name: node for node in exported.graph.nodes}
    signature = exported.graph_signature

    def spec(name: str, node: str) -> TensorSpec:
        value = nodes[node].meta["val"]
        shape = tuple(
            (dims or {}).get((name, axis), int(size) if isinstance(size, int) else Dim(str(size), 1, 8))
            for axis, size in enumerate(value.shape)
        )
        return TensorSpec(name, str(value.dtype).removeprefix("torch."), shape)

    inputs = tuple(spec(name, name) for name in signature.user_inputs)
    names = outputs or tuple(f"output_{index}" for index in range(len(signature.user_outputs)))
    results = tuple(spec(name, node) for name, node in zip(names, signature.user_outputs, strict=True))
    buffers = {**exported.constants, **exported.state_dict}
    functional = exported.run_decompositions({}).graph_signature if buffers else signature
    state = tuple(
        StateSpec(name, str(buffers[name].dtype).removeprefix("torch."), tuple(buffers[name].shape))
        for name in functional.buffers_to_mutate.values()
    )
    return CapturedProgram(exported, inputs, results, state, HERE, precision)


def lower(program: CapturedProgram, opset: int = 20) -> LoweredModule:
    return OnnxCpuDelegate().lower(program, OnnxCpuOptions(opset))


def write_artifact(lowered: LoweredModule, folder: Path) -> Path:
    """A folder that `open_artifact` accepts."""
    folder.mkdir(parents=True)
    lowered.write(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(lowered.files)
    (folder / "debug").mkdir()
    (folder / "debug" / "source_map.json").write_text(json.dumps(lowered.debug))
    names = (*lowered.files, "debug/source_map.json")
    files = tuple(FileEntry(name, (folder / name).stat().st_size, hash_file(folder / name)) for name in names)
    manifest = Manifest(
        name="tiny",
        target="onnx-cpu",
        engine="onnxruntime",
        precision="fp32",
        methods=lowered.methods,
        files=files,
        producer={},
        delegation=lowered.plan.to_json(),
        requirements=lowered.requirements,
    )
    (folder / "manifest.json").write_text(manifest.dumps())
    return folder


def open_session(folder: Path, **options: Any) -> Session:
    return OnnxRuntimeEngine().open(open_artifact(folder), EngineSettings(threads=1, options=options))


def sqnr_db(reference: np.ndarray, actual: np.ndarray) -> float:
    noise = np.sqrt(np.mean((reference.astype(np.float64) - actual) ** 2))
    return float(20 * np.log10(np.sqrt(np.mean(reference.astype(np.float64) ** 2)) / max(noise, 1e-30)))


def check(
    folder: Path, lowered: LoweredModule, module: torch.nn.Module, args: tuple[Any, ...], floor_db: float = 80
) -> Session:
    """Write, load, run and compare each output with eager."""
    session = open_session(write_artifact(lowered, folder))
    compare(session, module, args, floor_db)
    return session


def compare(session: Session, module: torch.nn.Module, args: tuple[Any, ...], floor_db: float = 80) -> None:
    with torch.no_grad():
        expected = module(*args)
    expected = list(expected.values()) if isinstance(expected, dict) else expected
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    actual = session.run(*args)
    assert len(actual) == len(expected)
    for name, want, got in zip([spec.name for spec in session.outputs], expected, actual, strict=True):
        reference = want.numpy()
        assert (got.dtype, got.shape) == (reference.dtype, reference.shape), name
        if reference.dtype.kind != "f":
            np.testing.assert_array_equal(got, reference, err_msg=name)
            continue
        assert np.abs(reference).max() > 1e-3, f"{name} is near zero: the comparison would say nothing"
        sqnr = sqnr_db(reference, got)
        assert sqnr >= floor_db, f"{name}: {sqnr:.1f} dB"
