"""An artifact made by hand, and what the terminal shows of its profile."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
from manifest_support import NO_DELEGATION
from rich.console import Console

from edgex.runtime.artifact.artifact import hash_file
from edgex.runtime.artifact.golden import Case, Step, write_golden
from edgex.runtime.artifact.manifest import FileEntry, Manifest, Method, Requirements
from edgex.runtime.artifact.specs import StateSpec, TensorSpec
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.report.terminal import print_report

X = np.linspace(-1.0, 1.0, 4, dtype=np.float32)[None]


def write_artifact(folder: Path, *, steps: int = 1, stateful: bool = False) -> Path:
    """`y = x + x` as ONNX, by hand: no exporter, no torch."""
    import onnx
    from onnx import TensorProto, helper

    folder.mkdir()
    signature = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", signature[:1], signature[1:])
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), folder / "model.onnx")
    sequence = tuple(Step({"x": X * (at + 1)}, {"output_0": 2 * X * (at + 1)}) for at in range(steps))
    cases = [Case("example", "compare", sequence[:1])]
    write_golden(folder, cases if steps == 1 else [*cases, Case("state", "compare", sequence)])
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    entries = tuple(FileEntry(str(p.relative_to(folder)), p.stat().st_size, hash_file(p)) for p in files)
    spec = TensorSpec("x", "float32", (1, 4))
    state = (StateSpec("count", "float32", (1,)),) if stateful else ()
    manifest = Manifest(
        name="double",
        target="onnx-cpu",
        engine="onnxruntime",
        precision="fp32",
        methods=(Method("forward", (spec,), (replace(spec, name="output_0"),), state),),
        files=entries,
        producer={"edgex": "0"},
        delegation=NO_DELEGATION,
        requirements=Requirements("onnxruntime"),
    )
    (folder / "manifest.json").write_text(manifest.dumps())
    return folder


def shown(report: ProfileReport, width: int, encoding: str = "utf-8", **options) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_report(report, Console(width=width, file=stream, **options))
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)
