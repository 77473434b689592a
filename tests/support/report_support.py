"""A profile as a large model would give it, made up: a transformer of any number of operators, seeded."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from edgex.runtime.engines.trace.operators import (
    ArenaSpan,
    Ceilings,
    MemoryStage,
    OperatorRow,
    OperatorTensor,
    SourceText,
    Trace,
    WeightRow,
)
from edgex.runtime.execute.request import FreshRun
from edgex.runtime.measure.profile.report import (
    LoadTimes,
    MemoryUse,
    ProfiledArtifact,
    ProfileReport,
    ProfileSettings,
)
from edgex.runtime.measure.statistics import summarize
from edgex.runtime.support.machine.activity import Activity, MeasurementWarning
from edgex.runtime.support.machine.host import HostInfo

SOURCE = '''\
"""A sentence encoder: twelve and more layers of attention."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (f(x).view(n, length, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        weights = scores.softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, length, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, layers, width=384, heads=12):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 128)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        pooled = torch.cumsum(x, 1)[:, -1] / x.shape[1]
        return self.head(pooled)
'''

DELEGATE = "XnnpackBackend"
LENGTH, WIDTH = 128, 384
_TOKENS = (1, LENGTH, WIDTH)

# One layer, in order of execution: what runs, where it belongs, on which line, what it costs.
# (op type, delegate?, category, module, line, ATen name, in, weight, out, microseconds)
_FC = "Fully Connected (NC, F32) GEMM"
_NORM, _ATEN_NORM = "native_call_native_layer_norm.out", "aten.native_layer_norm.default"
_BMM = "Batch Matrix Multiply (NC, F32) GEMM"
_FFN = (1, LENGTH, 4 * WIDTH)
_SQUARE, _WIDE = (WIDTH, WIDTH), (4 * WIDTH, WIDTH)
_SCORES = (1, 12, LENGTH, LENGTH)
_HEADS = (1, 12, LENGTH, WIDTH // 12)
_LAYER = (
    (_NORM, False, "compute", "norm1", 30, _ATEN_NORM, _TOKENS, None, _TOKENS, 96.0),
    (_FC, True, "compute", "attention.q", 16, "aten.linear.default", _TOKENS, _SQUARE, _TOKENS, 210.0),
    (_FC, True, "compute", "attention.k", 16, "aten.linear.default", _TOKENS, _SQUARE, _TOKENS, 208.0),
    (_FC, True, "compute", "attention.v", 16, "aten.linear.default", _TOKENS, _SQUARE, _TOKENS, 211.0),
    ("Transpose (ND, X32)", True, "layout", None, None, None, _HEADS, None, _HEADS, 31.0),
    (_BMM, True, "compute", "attention", 17, "aten.matmul.default", _HEADS, None, _SCORES, 88.0),
    ("Softmax (NC, F32)", True, "compute", "attention", 18, "aten.softmax.int", _SCORES, None, _SCORES, 74.0),
    (_BMM, True, "compute", "attention", 19, "aten.matmul.default", _SCORES, None, _HEADS, 85.0),
    (_FC, True, "compute", "attention.out", 19, "aten.linear.default", _TOKENS, _SQUARE, _TOKENS, 209.0),
    ("Add (ND)", True, "compute", "", 30, "aten.add.Tensor", _TOKENS, None, _TOKENS, 22.0),
    (_NORM, False, "compute", "norm2", 31, _ATEN_NORM, _TOKENS, None, _TOKENS, 95.0),
    (_FC, True, "compute", "mlp.0", 31, "aten.linear.default", _TOKENS, _WIDE, _FFN, 830.0),
    ("GELU (ND, F32)", True, "compute", "mlp.1", 31, "aten.gelu.default", _FFN, None, _FFN, 64.0),
    (_FC, True, "compute", "mlp.2", 31, "aten.linear.default", _FFN, _WIDE, _TOKENS, 845.0),
)  # fmt: skip

HOST = HostInfo(
    cpu="AMD EPYC 9B14",
    machine="x86_64",
    isa=("avx2", "avx512f", "avx512_vnni"),
    physical_cores=2,
    logical_cores=2,
    usable_cores=2,
    cpu_quota=None,
    memory_bytes=25_276_514_304,
    system="Linux",
    kernel="6.1.0",
    virtualised=True,
    governor=None,
    frequency_hz=None,
    python="3.11.7",
)


def make_report(ops: int = 1000, *, seed: int = 0, speed: float = 1.0, **changes) -> ProfileReport:
    """A whole report of `ops` operators; `speed` divides every time, `changes` replace fields of the report."""
    random = np.random.default_rng(seed)
    rows = _make_rows(ops, random, speed)
    leaves = sum(row.median_seconds or 0.0 for row in rows)
    median = leaves * 0.97 or 1e-3
    rounds = _make_rounds(random, median)
    known = sum(row.median_seconds or 0.0 for row in rows if row.map_confidence in ("exact", "aligned"))
    fresh = tuple(
        FreshRun(0.012 + 0.001 * at, 0.61, 0.0023, 0.034, 1.6 * median, 512_000_000 + 100_000 * at) for at in range(3)
    )
    report = ProfileReport(
        edgex_version="0.1.0",
        artifact=ProfiledArtifact(
            "encoder", "xnnpack", "fp32", "b" * 64, 121_000_000, "executorch", {"executorch": "1.5.1", "torch": "2.13"},
            folder="encoder.xnnpack.edgex", made_by="0.1.0",
        ),
        host=HOST,
        settings=ProfileSettings(
            inputs="golden", shapes={"x": _TOKENS}, steps=1, threads_requested=2, options={}, warmup_requested=None,
            warmup_runs=24, warmup_seconds=2.1, warmup_settled=True, runs_requested=None, rounds=len(rounds),
            samples_per_round=len(rounds[0]), calls_per_sample=1, fresh_processes=3,
        ),
        executed_on=f"executorch: {DELEGATE}, portable",
        threads=2,
        load_seconds=LoadTimes(0.013, 0.61, 0.0023, 0.034, 1.6 * median),
        fresh=fresh,
        steady=summarize(rounds),
        rounds=rounds,
        throughput=1.0 / median,
        measured_at="2026-01-31T12:30:00Z",
        memory=_make_memory(rows),
        activity=Activity(9.8, 0.02, 0.0, 12, 0.4, 0.6),
        trace=Trace(100, 0.985, leaves / 0.985, 1.04, 1e-6, known / leaves, known / leaves) if leaves else None,
        ops=rows,
        ceilings=Ceilings(2, {"float32": 261.0}, 38.4),
        sources=(SourceText("encoder.py", 1, tuple(SOURCE.splitlines())),),
        delegation={
            "fraction": 0.9, "work_fraction": 0.99, "delegated_ops": 9, "total_ops": 10, "delegate_calls": 3,
            "fallbacks": [
                {"op": "aten.native_layer_norm.default", "count": 24, "code": "not_in_delegate",
                 "reason": "no layer norm in this delegate", "source": "encoder.py:30", "fatal": False},
                {"op": "aten.cumsum.default", "count": 1, "code": "not_in_delegate",
                 "reason": "a running <sum> is not taken", "source": None, "fatal": False},
            ],
        },
        warnings=(MeasurementWarning("governor", "the frequency governor is powersave: the clock speed may change"),),
    )  # fmt: skip
    return replace(report, **changes)


def _make_rounds(random, median: float) -> tuple[tuple[float, ...], ...]:
    samples = median * (1.0 + 0.004 * random.standard_normal((30, 40)) + 0.012 * random.exponential(size=(30, 40)))
    samples[random.random((30, 40)) < 0.01] *= 2.5
    samples -= np.median(samples) - median
    return tuple(tuple(round(float(sample), 10) for sample in one) for one in samples)


def _make_rows(ops: int, random, speed: float) -> tuple[OperatorRow, ...]:
    rows = []
    while len(rows) < max(0, ops - 3):
        layer, at = divmod(len(rows), len(_LAYER))
        rows.append(_make_row(len(rows), f"layers.{layer}", _LAYER[at], random, speed))
    last = (
        ("native_call_cumsum.out", False, "compute", "", 43, "aten.cumsum.default", _TOKENS, None, _TOKENS, 142.0),
        (_FC, True, "compute", "head", 44, "aten.linear.default", (1, WIDTH), (128, WIDTH), (1, 128), 12.0),
        ("between operators", False, "overhead", None, None, None, None, None, None, 40.0),
    )
    rows += [_make_row(len(rows) + at, "", entry, random, speed) for at, entry in enumerate(last)]
    rows = rows[-ops:] if ops else []
    whole = sum(row.median_seconds or 0.0 for row in rows)
    return tuple(replace(row, share=None if row.median_seconds is None else row.median_seconds / whole) for row in rows)


def _make_row(number: int, layer: str, entry, random, speed: float) -> OperatorRow:
    kind, delegated, category, module, line, aten, taken, weight, given, microseconds = entry
    shapes = [shape for shape in (taken, weight, given) if shape is not None]
    moved = 4 * sum(int(np.prod(shape)) for shape in shapes) or None
    flops = None
    if aten == "aten.linear.default":
        flops = 2 * int(np.prod(given)) * taken[-1]
    elif aten == "aten.matmul.default":
        flops = 2 * 12 * LENGTH * LENGTH * (WIDTH // 12)
    elif category == "compute":
        flops = int(np.prod(given))
    ticks = round(float(microseconds * random.lognormal(0.0, 0.04)) / speed * 1e3)
    median = None if ticks < 1000 else ticks / 1e9
    best = max((flops or 0) / 261e9, (moved or 0) / 38.4e9)
    path = None if module is None else ".".join(part for part in (layer, module) if part)
    return OperatorRow(
        name=f"{kind} #{number}",
        op_type=kind,
        delegate=DELEGATE if delegated else None,
        category=category,
        count=1,
        median_seconds=median,
        share=None,
        module_path=path,
        module_paths=() if path is None else (path,),
        source=None if line is None else f"encoder.py:{line}",
        sources=() if line is None else (f"encoder.py:{line}",),
        operators=() if aten is None else (aten,),
        map_confidence="none" if path is None else "aligned" if delegated else "exact",
        inputs=tuple(OperatorTensor("float32", shape) for shape in (taken, weight) if shape is not None),
        outputs=() if given is None else (OperatorTensor("float32", given),),
        flops=flops,
        bytes=moved,
        gflops=flops / median / 1e9 if flops and median else None,
        gbps=moved / median / 1e9 if moved and median else None,
        roofline_fraction=best / median if best and median else None,
    )


def _make_memory(rows) -> MemoryUse:
    spans, at = [], 0
    for number, row in enumerate(rows):
        for tensor in row.outputs:
            size = 4 * int(np.prod(tensor.shape))
            slot = number % 3
            spans.append(ArenaSpan(f"t{number}", slot * 800_000, size, number, min(len(rows) - 1, number + 1 + slot)))
            at = max(at, slot * 800_000 + size)
    weights = tuple(
        WeightRow(f"{row.module_path}.weight", row.module_path, "float32", row.inputs[1].shape,
                  4 * int(np.prod(row.inputs[1].shape)))
        for row in rows if len(row.inputs) > 1
    )  # fmt: skip
    stages = [("interpreter", 41_000_000), ("engine", 228_000_000), ("load", 480_000_000), ("first", 512_100_000)]
    return MemoryUse(
        peak_rss_bytes=512_100_000,
        planned_arena_bytes=at or None,
        weights_bytes=sum(weight.bytes for weight in weights) + 4096,
        stages=tuple(MemoryStage(*stage) for stage in stages),
        weights=weights,
        arena=tuple(spans),
    )


HOSTILE = "</script><b id=broken>&\"'\u2028<!--"


def make_hostile(report: ProfileReport) -> ProfileReport:
    """The report with markup wherever a user's or a model's text can stand."""
    bad = HOSTILE
    row = replace(
        report.ops[0],
        name=bad, op_type=bad, delegate=bad, module_path=bad, module_paths=(bad,), source=f"{bad}:1",
        sources=(f"{bad}:1",), operators=(bad,), inputs=(OperatorTensor(bad, (1,)),), map_confidence="exact",
    )  # fmt: skip
    memory = replace(
        report.memory,
        weights=(WeightRow(bad, bad, bad, (1,), 4),),
        arena=(ArenaSpan(bad, 0, 4, 0, 0),),
        stages=(MemoryStage(bad, 5),),
    )
    return replace(
        report,
        artifact=replace(report.artifact, name=bad, target=bad, precision=bad, engine=bad, versions={bad: bad}),
        host=replace(report.host, cpu=bad, kernel=bad),
        settings=replace(report.settings, shapes={bad: (1,)}, options={bad: bad}),
        executed_on=bad,
        memory=memory,
        ops=(row, *report.ops[1:]),
        ceilings=Ceilings(1, {bad: 1.0}, 1.0),
        energy={"joules_per_run": 1.0, "source": bad},
        sources=(SourceText(bad, 1, (bad,)),),
        warnings=(MeasurementWarning(re.sub(r"\s", "", bad), bad),),
    )
