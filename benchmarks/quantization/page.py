"""The page of the quantization benchmark, from its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.outcome import render_table
from benchmarks.publish import render_origin

TARGETS = ("xnnpack", "onnx-cpu", "onednn")
GOALS = {"resnet50": 3.0, "bert_4_layers": 2.0}
HEAD = ("model", "target", "recipe", "accuracy", "size", "beside fp32", "time", "speedup")


def render(document: Mapping[str, Any]) -> str:
    """The page: a table, goals, the machine."""
    rows = document["rows"]
    floats = {(row["model"], row["target"]): row for row in rows if row["recipe"] == "fp32" and "bytes" in row}
    order = list(dict.fromkeys(row["model"] for row in rows))
    cells = []
    for row in sorted(rows, key=lambda row: (order.index(row["model"]), TARGETS.index(row["target"]))):
        head = (row["model"], row["target"], row["recipe"])
        if "refused" in row:
            reason = row["refused"] if len(row["refused"]) < 120 else row["refused"][:120] + "…"
            cells.append((*head, f"refused: {reason}", "", "", "", ""))
            continue
        base, share, speedup = floats.get((row["model"], row["target"])), "", ""
        if base is not None and row is not base:
            share = f"{row['bytes'] / base['bytes']:.2f}x"
            speedup = f"{base['median_seconds'] / row['median_seconds']:.2f}x"
        time = f"{row['median_seconds'] * 1e3:.3g} ms"
        cells.append((*head, row["accuracy"], f"{row['bytes'] / 1e6:.2f} MB", share, time, speedup))
    parts = [
        "# Quantized artifacts beside float32",
        "Written by `python -m benchmarks.quantization`. Accuracy is that of the artifact beside eager: the digits' "
        "share of held-out scans read right; for the sentence encoder the smallest cosine between its vectors and "
        "eager's for sixteen sentences, and how many have the same three nearest; for the decoder SQNR over a text of "
        "150 tokens, and how often it gives the same next one; SQNR for the rest, whose weights are random. "
        "Times are medians of one run with two threads; all artifacts of a model and a target are loaded in one "
        "process and timed in turns.",
        render_table(HEAD, cells),
        "\n".join(_goals(rows, floats)),
        f"{render_origin(document['origin'])} Machine: {document['machine']['summary']}. Raw figures: "
        "[data/quantization.json](data/quantization.json).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _goals(rows: list[dict[str, Any]], floats: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    """What int8 had to reach: a speedup on each target; on onednn, for images, not to be behind the others."""
    int8 = {(row["model"], row["target"]): row for row in rows if row["recipe"] == "int8" and "bytes" in row}
    lines = []
    for (model, target), row in int8.items():
        if model not in GOALS or (model, target) not in floats:
            continue
        took = row["median_seconds"]
        if (model, target) == ("resnet50", "onednn"):
            best = min(int8[model, other]["median_seconds"] for other in TARGETS if (model, other) in int8)
            verdict = "met" if took <= best else "**not met**"
            lines.append(
                f"- {verdict}: int8 {model} on {target} no slower than on the others; {took / best:.2f}x the time"
            )
            continue
        speedup = floats[model, target]["median_seconds"] / took
        verdict = "met" if speedup >= GOALS[model] else "**not met**"
        lines.append(f"- {verdict}: int8 {model} on {target} at least {GOALS[model]:g}x; measured {speedup:.2f}x")
    return lines
