"""The page of the language models beside llama.cpp, from its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.llm.models import SHAPES
from benchmarks.llm.peers import PEERS, PRECISION, is_peer
from benchmarks.outcome import render_table
from benchmarks.publish import render_origin

TESTS = ("pp512", "tg128", "tg128@d1024")
PAIRS = {"fp32": "llama.cpp F16"} | dict.fromkeys(("8da4w", "8da4w-kv8", PRECISION), "llama.cpp Q4_0")
# What was counted as read.
_READS = {
    "files": "at most (all of the files: also a table of embeddings that lies beside the head, and the cache's initial "
    "zeros)",
    "weights": "(the weights, of tables of embeddings one row, and the filled part of the cache)",
}
_LOOP_SECONDS, _DEPTH = 20e-6, 0.9
_LEAST = {"pp512": 1.0, "tg128": 0.95}


def render(document: Mapping[str, Any]) -> str:
    """The page: for each model rates, what they rest on, and goals."""
    models: Sequence[Mapping[str, Any]] = document["models"]
    missing = [shape.title for name, shape in SHAPES.items() if name not in {model["name"] for model in models}]
    present = {one["who"] for model in models for one in model["contenders"] if one.get("rounds")}
    absent = [f"- {title}: it did not run." for title in missing]
    absent += [
        f"- {peer.name}: not among the contenders."
        for peer in PEERS
        if not any(who.startswith(peer.name) for who in present)
    ]
    flags = f"`--context {document['context']} --chunk {document['chunk']}`"
    parts = [
        "# Language models beside llama.cpp",
        f"Written by `python -m benchmarks.llm`: random weights at published sizes, {document['threads']} threads, "
        "tests in llama-bench's terms, without sampling and text. In a round each contender is measured once, in a "
        "process of its own and after a warm-up, every other round in the opposite order. Figures are medians over "
        "the rounds, with their least and greatest in brackets; a ratio is the median of the ratios round by round, so "
        f"that what slows a whole round cancels out. edgex: {flags}; "
        "`8da4w` with `--head int8 --embedding int8`, a cache in float32; `8da4w-kv8` with `--kv int8`. llama.cpp: "
        "its own defaults, a cache in F16, matrices of the same shapes; Q4_0 by `llama-quantize --pure`, which puts "
        "the head in 4 bits too. "
        "onnxruntime-genai: its model builder's `int4` (accuracy level 4, symmetric), the head in 4 bits too; OpenVINO "
        "GenAI: `optimum-cli export openvino --weight-format int4 --sym`, head and embedding in 8 bits; both with 32 "
        "weights a scale, their own defaults besides, the likeliest token taken within the time.",
    ]
    for model in models:
        parts += _render_model(model)
    parts += [
        "## What bounds it",
        "- `8da4w` reads more than Q4_0 for a token: the head is in 8 bits, and each 32 weights have a scale of 4 "
        "bytes where llama.cpp's has 2.\n"
        "- `xnnpack`: a token is some 200 calls of the delegate, with norms' and masks' leftovers in portable kernels "
        "between them.\n"
        "- `onednn`: attention over the cache and layers in few bits are kernels of edgex's own; norms, rotations and "
        "the rest between them are oneDNN's and small ones.\n"
        "- The cache is float32 here and F16 there, which costs twice the bytes at depth; `--kv int8` is a quarter of "
        "float32's.",
        *(["## Not measured", "\n".join(absent)] if absent else []),
        f"{render_origin(document['origin'])} Machine: {document['machine']['summary']}. It is shared with other "
        "programs: read the ranges. Raw figures: [data/llm.json](data/llm.json).",
    ]
    return "\n\n".join(parts) + "\n"


def _render_model(model: Mapping[str, Any]) -> list[str]:
    contenders = {one["who"]: one for one in model["contenders"] if one.get("rounds")}
    counts = sorted({len(one["rounds"]) for one in contenders.values()})
    rounds = f"rounds: {counts[0]}" if len(counts) == 1 else f"rounds: {counts[0]} to {counts[-1]}"
    rates, details = [], []
    for who, one in contenders.items():
        pair = _find_pair(who)
        cells = [who, f"{one['bytes'] / 1e6:.0f} MB"]
        for test in TESTS:
            ratio = find_ratio(one, contenders.get(pair or ""), test)
            cells.append(_spread(one, test) + ("" if ratio is None else f", {ratio:.2f}x"))
        rates.append(cells)
        details.append(_detail(who, one))
    parts = [
        f"## {model['title']}",
        f"Tokens a second, {rounds}; `x` is beside llama.cpp, `fp32` beside F16 and 4 bits beside Q4_0."
        if any(who.startswith("llama.cpp") for who in contenders)
        else f"Tokens a second, {rounds}. llama.cpp was not measured: no folder with its programs was given.",
        render_table(("contender", "bytes", *TESTS), rates),
        f"What the first token of 512 took, what a token of `tg128` reads {_READS[model.get('reads', 'files')]}, and "
        "the share of the bandwidth measured in the same round that this would take; `loop` is `generate` around the "
        "engine's call. Of other runtimes the files' bytes count as read, and 512 tokens at their rate as the first "
        "token's time.",
        render_table(("contender", "TTFT", "reads at most", "of bandwidth", "loop"), details),
        "\n".join(list_goals(contenders)),
        _disturbed(model.get("activities", ())),
    ]
    refused = [f"- {one['who']}: {one['refused']}" for one in model["contenders"] if "refused" in one]
    parts = [part for part in parts if part]
    return [*parts, "Without an artifact:", "\n".join(refused)] if refused else parts


def _disturbed(rounds: Sequence[Mapping[str, Any]]) -> str:
    """What else the machine did, round by round; empty where nobody looked."""
    if not rounds:
        return ""
    known = [one["other_cores"] for one in rounds if one["other_cores"] is not None]
    busy = f"Other programs kept {min(known):.1f} to {max(known):.1f} cores busy, by the round. " if known else ""
    lines = [
        f"Warning, round {number}: {text}."
        for number, one in enumerate(rounds, 1)
        for text in one["warnings"]
        if not text.startswith("other-load")
    ]
    return (busy + " ".join(lines)).strip()


def _find_pair(who: str) -> str | None:
    return PAIRS.get(who.rpartition(" ")[2])


def find_median(contender: Mapping[str, Any], figure: str) -> float | None:
    """The median of a figure over the rounds; None where no round has it."""
    values = [found[figure] for found in contender["rounds"] if figure in found]
    return median(values) if values else None


def find_ratio(contender: Mapping[str, Any], peer: Mapping[str, Any] | None, figure: str) -> float | None:
    """The median of a figure's ratios to the peer's, round by round; None where there is nothing to compare."""
    if peer is None or peer is contender:
        return None
    both = zip(contender["rounds"], peer["rounds"], strict=False)  # a round under way has not reached everybody
    ratios = [ours[figure] / theirs[figure] for ours, theirs in both if figure in ours and figure in theirs]
    return median(ratios) if ratios else None


def _spread(contender: Mapping[str, Any], figure: str) -> str:
    values = [found[figure] for found in contender["rounds"] if figure in found]
    return f"{median(values):.4g} ({min(values):.4g} to {max(values):.4g})" if values else ""


def _detail(who: str, one: Mapping[str, Any]) -> list[str]:
    reads, share, loop = (find_median(one, name) for name in ("read_bytes", "bandwidth_share", "loop_seconds"))
    first, prompt = find_median(one, "first_token_seconds"), find_median(one, "pp512")
    if first is None and prompt is not None:
        first = 512 / prompt
    return [
        who,
        "" if first is None else f"{first * 1e3:.0f} ms",
        f"{(reads or one['bytes']) / 1e6:.0f} MB",
        "" if share is None else f"{share:.2f}",
        "" if loop is None else f"{loop * 1e6:.1f} µs",
    ]


def list_goals(contenders: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What had to be reached, and what was."""
    ours = {who: one for who, one in contenders.items() if not is_peer(who)}
    quantized = {who: one for who, one in ours.items() if who.rpartition(" ")[2].startswith("8da4w")}
    peer, lines = contenders.get(PAIRS["8da4w"]), []
    for test, least in _LEAST.items():
        ratios = {who: find_ratio(one, peer, test) for who, one in quantized.items()}
        known = {who: ratio for who, ratio in ratios.items() if ratio is not None}
        if known:
            best = max(known, key=lambda who: known[who])
            lines.append(_goal(known[best] >= least, f"{test} at least {least:g}x Q4_0", f"{known[best]:.2f}x, {best}"))
    deep = {who: found for who, one in ours.items() if (found := _depth_ratio(one)) is not None}
    if deep:
        # Of the target that would be chosen: a slow one keeps its rate more easily.
        best = max(deep, key=lambda who: find_median(ours[who], "tg128") or 0.0)
        every = ", ".join(f"{who} {found:.2f}x" for who, found in deep.items())
        text = f"tg128@d1024 at least {_DEPTH:g}x tg128 on the fastest target, {best}"
        lines.append(_goal(deep[best] >= _DEPTH, text, every))
    loops = [found for one in ours.values() if (found := find_median(one, "loop_seconds")) is not None]
    if loops:
        text = f"the loop at most {_LOOP_SECONDS * 1e6:.0f} µs a token on every target"
        lines.append(_goal(max(loops) <= _LOOP_SECONDS, text, f"{max(loops) * 1e6:.1f} µs at most"))
    return lines


def _depth_ratio(contender: Mapping[str, Any]) -> float | None:
    """The median of what is left of the rate behind 1,024 tokens, round by round."""
    ratios = [found["tg128@d1024"] / found["tg128"] for found in contender["rounds"]]
    return median(ratios) if ratios else None


def _goal(met: bool, text: str, measured: str) -> str:
    return f"- {'met' if met else '**not met**'}: {text}; measured {measured}"
