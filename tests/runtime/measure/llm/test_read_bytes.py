"""Bytes that a generated token reads, against what is counted by hand, for each way to hold a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_support import run_edgex

from edgex.runtime.artifact.artifact import Artifact, open_artifact
from edgex.runtime.measure.llm.weights import count_read_bytes

CONTEXT, VOCABULARY, WIDTH = 512, 1024, 64
SUPPORT = Path(__file__).parents[3] / "support"
MODEL = f"""
import sys
sys.path.insert(0, {str(SUPPORT)!r})
import language_support as language

language.VOCABULARY, language.WIDTH, language.HEADS, language.HEAD = {VOCABULARY}, {WIDTH}, 2, {WIDTH // 2}
model_card = {{"context": {CONTEXT}}}


def apart():
    return language.make_decoder(context={CONTEXT})


def tied():
    model = apart()
    model.scores.weight = model.embed.weight
    return model
"""
# Four attention matrices, two of twice the width, and the head; each with its bias. Norms and biases are in MORE.
ATTENTION, FEED = 4 * WIDTH * WIDTH, 4 * WIDTH * WIDTH
HEAD = VOCABULARY * WIDTH
MORE = 4 * (6 * WIDTH + 3 * WIDTH + WIDTH + 2 * WIDTH + WIDTH + VOCABULARY)
# Of the program itself: nodes, names, alignment.
PROGRAM = 45_000


def export(folder: Path, target: str, getter: str, *flags: str) -> Artifact:
    (folder / "chat.py").write_text(MODEL)
    sizes = ("--llm", "--context", str(CONTEXT), "--chunk", "16")
    done = run_edgex("export", f"chat.py:{getter}", "-t", target, *sizes, *flags, "-o", "out", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "out").rglob("*.edgex")
    return open_artifact(path)


@pytest.mark.parametrize(
    ("target", "getter"),
    [
        ("onnx-cpu", "tied"),
        *(
            pytest.param(target, getter, marks=pytest.mark.slow)
            for target in ("xnnpack", "onednn", "onnx-cpu")
            for getter in ("tied", "apart")
            if (target, getter) != ("onnx-cpu", "tied")
        ),
    ],
)
def test_in_float32_a_token_reads_every_matrix_once_and_rows_of_the_tables(
    tmp_path: Path, target: str, getter: str
) -> None:
    artifact = export(tmp_path, target, getter)
    weights = 4 * (ATTENTION + FEED + HEAD) + MORE
    found = count_read_bytes(artifact)
    assert weights <= found <= weights + PROGRAM, f"{found} for {weights}"
    # The tables and the cache are in the files, and larger than what is allowed for the program.
    assert artifact.manifest.model_bytes > found + PROGRAM


@pytest.mark.slow
@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu"])
def test_in_few_bits_the_head_is_its_own_and_a_table_in_bytes_is_read_by_rows(tmp_path: Path, target: str) -> None:
    artifact = export(tmp_path, target, "tied", "--quantize", "8da4w", "--head", "int8", "--embedding", "int8")
    groups = 4 * (ATTENTION + FEED) // 32
    weights = (ATTENTION + FEED) // 2 + groups + HEAD + 4 * VOCABULARY + MORE
    found = count_read_bytes(artifact)
    assert weights - groups <= found <= weights + PROGRAM + VOCABULARY, f"{found} for {weights}"
