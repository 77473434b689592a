"""What is fuzzed: each subject changes a part of a good artifact, report or answer, and reads it as a user would.

A case is good when it runs, or ends in an `EdgexError`. Hashes are refitted, as an attacker would.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import shutil
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.mutators import mutate_bytes, mutate_json

Run = Callable[[], object]


@dataclass(frozen=True)
class Corpus:
    """Good inputs: artifacts of one small model by engine, a profile of it, and a folder to work in."""

    onnx: Path
    pte: Path
    reference: Path
    report: Path
    folder: Path

    def copy(self, artifact: Path) -> Path:
        """A copy of an artifact that a case may damage; the last case's is gone."""
        target = self.folder / artifact.name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(artifact, target)
        return target


def rewrite(artifact: Path, file: str, content: bytes) -> None:
    """Replace a file of an artifact, size and hash in the manifest too."""
    (artifact / file).write_bytes(content)
    manifest = artifact / "manifest.json"
    document = json.loads(manifest.read_text())
    for entry in document["files"]:
        if entry["path"] == file:
            entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    manifest.write_text(json.dumps(document))


def replay(artifact: Path) -> None:
    """What `edgex inspect` and `edgex verify` do."""
    from edgex.cli.render import print_artifact
    from edgex.cli.run.packages import find_needed
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.execute.here.in_process import InProcess
    from edgex.runtime.execute.verification import verify

    opened = open_artifact(artifact)
    sizes = {"total_bytes": opened.total_bytes, "model_bytes": 0, "golden_bytes": 0, "compiled_sizes": None}
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        needs = find_needed(opened.manifest).to_json()
        print_artifact({"manifest": opened.manifest.to_json(), "needs": needs, **sizes})
    assert "\x1b" not in shown.getvalue(), "a terminal would obey what inspect prints"
    with InProcess() as here:
        json.dumps(verify(here, opened)[0].to_json(), allow_nan=False)


def manifest(rng: random.Random, corpus: Corpus) -> Run:
    artifact = corpus.copy(corpus.onnx)
    path = artifact / "manifest.json"
    path.write_bytes(mutate_json(rng, json.loads(path.read_text())))
    return lambda: replay(artifact)


def golden(rng: random.Random, corpus: Corpus) -> Run:
    artifact = corpus.copy(corpus.onnx)
    files = sorted((artifact / "golden").iterdir())
    index = artifact / "golden" / "index.json"
    path = index if rng.random() < 0.6 else rng.choice(files)
    content = path.read_bytes()
    if path == index:
        content = mutate_json(rng, json.loads(content))
    elif rng.random() < 0.7:
        size = struct.unpack("<Q", content[:8])[0]
        header = mutate_json(rng, json.loads(content[8 : 8 + size]))
        content = struct.pack("<Q", len(header)) + header + content[8 + size :]
    else:
        content = mutate_bytes(rng, content)
    rewrite(artifact, f"golden/{path.name}", content)
    return lambda: replay(artifact)


def debug(rng: random.Random, corpus: Corpus) -> Run:
    artifact = corpus.copy(rng.choice((corpus.onnx, corpus.pte)))
    path = rng.choice(sorted((artifact / "debug").glob("*.json")))
    rewrite(artifact, f"debug/{path.name}", mutate_json(rng, json.loads(path.read_text())))

    def run() -> None:
        from edgex.runtime.artifact.artifact import open_artifact
        from edgex.runtime.engines.trace.source_map import read_source_map, read_source_text, read_weights

        opened = open_artifact(artifact)
        sources = read_source_map(opened, {spec.name: (2, 6) for spec in opened.manifest.method.inputs})
        sources.group(list(sources.operators))
        for name in sources.operators:
            sources.group([name])
            sources.constants_of(name)
        read_source_text(opened)
        read_weights(opened)

    return run


def report(rng: random.Random, corpus: Corpus) -> Run:
    path = corpus.folder / "report.json"
    path.write_bytes(mutate_json(rng, json.loads(corpus.report.read_text())))

    def run() -> None:
        from rich.console import Console

        from edgex.runtime.measure.compare.reports import compare_reports
        from edgex.runtime.measure.profile.saved import read_report
        from edgex.runtime.report.chrome_trace import render_trace
        from edgex.runtime.report.markdown import render_markdown
        from edgex.runtime.report.pages.profile import render_html
        from edgex.runtime.report.terminal import print_report

        found, good = read_report(path), read_report(corpus.report)
        shown = io.StringIO()
        for view in (None, "operator", "source"):
            print_report(found, Console(file=shown, width=100), view, 20)  # type: ignore[arg-type]
        assert "\x1b" not in shown.getvalue(), "a terminal would obey what the report says"
        render_markdown(found)
        render_trace(found)
        render_html([found])
        compare_reports(["a", "b"], [good, found], [])
        json.loads(found.dumps())

    return run


def inputs(rng: random.Random, corpus: Corpus) -> Run:
    from edgex.runtime.artifact.artifact import open_artifact

    opened = open_artifact(corpus.onnx, "size")
    arrays = {
        spec.name: np.ones([size if isinstance(size, int) else 2 for size in spec.shape], spec.numpy_dtype)
        for spec in opened.manifest.method.inputs
    }
    whole = io.BytesIO()
    if rng.random() < 0.5:
        np.savez_compressed(whole, **arrays) if rng.random() < 0.5 else np.savez(whole, **arrays)
        path, spec = corpus.folder / "in.npz", "{}"
    else:
        np.save(whole, next(iter(arrays.values())))
        path, spec = corpus.folder / "in.npy", f"{next(iter(arrays))}={{}}"
    content = whole.getvalue()
    if path.suffix == ".npy" and rng.random() < 0.6:
        text = rng.choice(
            ("(99999999999, 9)", "(-1, 6)", "(2, '6')", "(2,", "()", "(1e9,)", "(2, 6)" * 200, "(2**62,)")
        )
        kind = rng.choice(("<f4", "|O", "<U9", "V8", ">c64", "x"))
        head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {text}}}"
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) & 0xFFFF) + head.encode() + content[128:]
    path.write_bytes(mutate_bytes(rng, content))

    def run() -> None:
        from edgex.cli.run.inputs import read_inputs
        from edgex.runtime.engines.loading import load

        values = {**arrays, **read_inputs([spec.format(path)], opened)}
        with load(corpus.onnx, tuned=False) as session:
            session.run(**values)

    return run


LINES: tuple[Mapping[str, Any], ...] = (
    {"event": "start", "run_id": "r", "seconds": 0.1, "peak_rss_bytes": 1000},
    {"event": "model", "sha256": "ab", "bytes": 10, "seconds": 0.1},
    {"event": "progress", "stage": "load", "detail": "x"},
    {"event": "loaded", "program_seconds": 0.1, "method_seconds": 0.1, "threads": 2, "peak_rss_bytes": 1000},
    {"event": "first", "seconds": 0.1, "peak_rss_bytes": 1000},
    {"event": "warmup", "runs": 3, "seconds": 0.1, "settled": True},
    {"event": "plan", "samples": 2, "rounds": 1, "calls_per_sample": 1, "steps": 1},
    {"event": "round", "seconds": [0.1, 0.2]},
    {"event": "done", "run_id": "r", "peak_rss_bytes": 1000},
    {"event": "error", "kind": "engine", "what": "load", "code": 18},
)


def device(rng: random.Random, corpus: Corpus) -> Run:
    lines = [json.dumps(line).encode() for line in LINES[: -1 if rng.random() < 0.7 else None]]
    at = rng.randrange(len(lines))
    lines[at] = mutate_json(rng, LINES[at])

    def run() -> None:
        from edgex.runtime.execute.adb.answer import parse
        from edgex.runtime.execute.linux.link import Done
        from edgex.runtime.execute.linux.transcript import Transcript

        reader = Transcript("r", "box", "a", lambda stage, detail: None)
        for line in lines:
            reader(line.decode("utf-8", "replace"))
        reader.finish(Done(0, b"", ""))
        reader.cold()
        reader.events.describe()
        parse(lines[at], "phone")

    return run


def pt2(rng: random.Random, corpus: Corpus) -> Run:
    path = corpus.folder / "model.pt2"
    with zipfile.ZipFile(corpus.reference / "model.pt2") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = [name for name in members if name.endswith(".json")]
    chosen = rng.choice([name for name in names if "/models/" in name] * 3 + names)
    members[chosen] = mutate_json(rng, json.loads(members[chosen]))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    if rng.random() < 0.05:
        path.write_bytes(mutate_bytes(rng, path.read_bytes()))

    def run() -> None:
        from edgex.runtime.engines.torch.pt2.archive import load_program

        load_program(path)

    return run


def onnx(rng: random.Random, corpus: Corpus) -> Run:
    artifact = corpus.copy(corpus.onnx)
    rewrite(artifact, "model.onnx", mutate_bytes(rng, (artifact / "model.onnx").read_bytes()))
    return lambda: replay(artifact)


def pte(rng: random.Random, corpus: Corpus) -> Run:
    artifact = corpus.copy(corpus.pte)
    rewrite(artifact, "model.pte", mutate_bytes(rng, (artifact / "model.pte").read_bytes()))

    def run() -> None:
        from edgex.runtime.engines.executorch.pte import read_pte

        read_pte(artifact / "model.pte")

    return run


# Each with its share of the cases: what is quick and has most ways in gets most.
SUBJECTS: dict[Callable[[random.Random, Corpus], Run], int] = {
    manifest: 25,
    golden: 15,
    debug: 12,
    report: 10,
    inputs: 8,
    device: 10,
    pt2: 10,
    onnx: 5,
    pte: 5,
}
