"""One operator in a profile, and what the traced runs were: the parts of `edgex.profile/2` that look inside a run.

Times are seconds; unknown is None (null), never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Category = Literal["compute", "layout", "cast", "overhead"]
Confidence = Literal["exact", "aligned", "delegate", "none"]


@dataclass(frozen=True)
class OperatorTensor:
    """An input or output of an operator: dtype as in specs, for example `float32`, and the shape it ran with."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class OperatorRow:
    """One leaf of the traced run, in order of execution.

    Attributes:
        name: As the engine calls it; unique in the report.
        op_type: Kind of work, for example `Convolution (NHWC, F32) IGEMM` or `aten.cumsum.out`.
        delegate: Who ran it, for example `XnnpackBackend` or `CPUExecutionProvider`; None for the engine's own kernels.
        category: `compute` is the model's own work; `layout` transposes and reorders that the engine inserted; `cast`
            dtype conversions, quantization among them; `overhead` is the engine's time between operators.
        count: How often it ran in one run of the model.
        median_seconds: Median over the traced runs, of all `count` together; None where it is below the clock's
            resolution.
        share: Its part of the summed leaves, 0 to 1; None where `median_seconds` is.
        module_path: Module that it belongs to, `""` for the model itself; None if unknown.
        module_paths: All of them where operators were fused, that of the main operator first.
        source: `file.py:line` of the main operator; None if unknown.
        sources: All of them, main operator first.
        operators: The ATen operators that it does, main operator first, for example `aten.convolution.default`.
        map_confidence: `exact`: the engine's own identifier led there; `aligned`: found by aligning the sequence of
            events with the delegate's graph; `delegate`: only the delegate's modules are known; `none`: nothing is.
        inputs: What went in, weights included.
        outputs: What came out.
        flops: Floating-point (or integer) operations, a multiply-add being 2.
        bytes: Bytes of inputs, weights and outputs, each counted once: the least that must move.
        gflops: Achieved, 1e9 operations a second.
        gbps: Achieved, 1e9 bytes a second.
        roofline_fraction: Time of a perfect implementation on this host over `median_seconds`; above 1 is our error.
    """

    name: str
    op_type: str
    delegate: str | None
    category: Category
    count: int
    median_seconds: float | None
    share: float | None
    module_path: str | None
    module_paths: tuple[str, ...]
    source: str | None
    sources: tuple[str, ...]
    operators: tuple[str, ...]
    map_confidence: Confidence
    inputs: tuple[OperatorTensor, ...] = ()
    outputs: tuple[OperatorTensor, ...] = ()
    flops: int | None = None
    bytes: int | None = None
    gflops: float | None = None
    gbps: float | None = None
    roofline_fraction: float | None = None

    @classmethod
    def between_operators(
        cls, who: str, count: int, seconds: float, module: str | None = None, source: str | None = None
    ) -> OperatorRow:
        """The engine's, or a delegate's, own time.

        Args:
            who: What people call it.
            count: Operators between which it passes.
            seconds: In one run; 0 where it is below the clock's resolution.
            module: Whose operators they are, where that is known.
            source: `file.py:line` likewise.
        """
        return cls(
            name=f"{who}: between operators",
            op_type="overhead",
            delegate=None,
            category="overhead",
            count=count,
            median_seconds=seconds if seconds > 0 else None,
            share=None,
            module_path=module,
            module_paths=() if module is None else (module,),
            source=source,
            sources=() if source is None else (source,),
            operators=(),
            map_confidence="none" if module is None and source is None else "exact",
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OperatorRow:
        """The inverse of `dataclasses.asdict`; unknown fields are ignored."""
        known = {field.name for field in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        for name in ("module_paths", "sources", "operators"):
            values[name] = tuple(values[name])
        for name in ("inputs", "outputs"):
            values[name] = tuple(OperatorTensor(t["dtype"], tuple(t["shape"])) for t in values.get(name, ()))
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The entry of `ops`."""
        return asdict(self)


@dataclass(frozen=True)
class Trace:
    """The traced runs, which are never the source of a latency figure.

    Attributes:
        runs: Traced runs that the medians are over.
        coverage: Part of a run that its operators took, 0 to 1, median over the runs; the rest is `overhead`.
        execute_seconds: Median of the whole traced run.
        overhead_ratio: `execute_seconds` over the untraced median of `steady`.
        resolution_seconds: The engine's clock counts in these.
        module_share: Part of the operators' time with a module path, counting confidence `exact` and `aligned` only.
        source_share: The same for a source line.
    """

    runs: int
    coverage: float
    execute_seconds: float
    overhead_ratio: float
    resolution_seconds: float
    module_share: float
    source_share: float


@dataclass(frozen=True)
class Ceilings:
    """What this host can do at best with these threads, measured by short bursts.

    Attributes:
        threads: Threads that the bursts used.
        gflops: Best 1e9 operations a second by dtype, for example `{"float32": 261.0}`.
        gbps: Best 1e9 bytes a second, read and written.
    """

    threads: int
    gflops: Mapping[str, float]
    gbps: float


@dataclass(frozen=True)
class WeightRow:
    """One weight in the native file: its name in the model, module path, dtype, shape and bytes."""

    name: str
    module_path: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class MemoryStage:
    """Largest resident set of a fresh process up to the end of a stage: `interpreter`, `engine`, `load`, `first`."""

    stage: str
    peak_rss_bytes: int


@dataclass(frozen=True)
class ArenaSpan:
    """A value in the planned arena: where it lies and from which to which operator (indices into `ops`) it lives."""

    name: str
    offset_bytes: int
    bytes: int
    first_op: int
    last_op: int


@dataclass(frozen=True)
class SourceText:
    """A file of the model as it was at export.

    Attributes:
        file: As in `source`, for example `digits.py`.
        first_line: Number of the first line of `lines`.
        lines: The text, without line ends.
    """

    file: str
    first_line: int
    lines: tuple[str, ...]
