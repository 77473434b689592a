"""All that authors of delegates, engines and executors import, in one place; the rest may change in any version.

```python
from edgex.plugin import Availability, Fallback, LoweredModule, PartitionPlan
```

A **delegate** lowers programs for a target: a class with the members of `Delegate`, registered as an entry point in the
group `edgex.delegates`. It may know more, and then has the members of `ChoosesRewrites`, `ImportsSlowly`,
`KnowsMemory`, `LowersMethods`, `Quantizes` or `SetsTolerances` as well. What helps against an operator that it leaves
out goes into `Fallback.workaround`.

An **engine** runs what delegates wrote: a class with the members of `Engine` (and of `PreloadingEngine`,
`TracingEngine` or `TunableEngine`), in the group `edgex.engines`. Its `open` returns a `Session` around its own
`Runner`. A library that another engine loads first is an `EnginePlugin`, in the group `edgex.engine_plugins`.

An **executor** is a place where artifacts run: a class with the members of `ExecutorKind`, in the group
`edgex.executors`, whose `open` returns an `Executor`: it is given a `RunRequest` and gives a `RunResult`.

Nothing of this imports torch or an engine's library, so that engines can take theirs from here too.
"""

from __future__ import annotations

from edgex.delegates.base import (
    CapturedProgram,
    ChoosesRewrites,
    Delegate,
    ImportsSlowly,
    KnowsMemory,
    LoweredModule,
    LowersMethods,
    Quantizes,
    SetsTolerances,
)
from edgex.delegates.graph.provenance import is_operator, module_path_of, source_of
from edgex.delegates.graph.values import read_graph_values
from edgex.delegates.graph.work import count_flops, sum_flops
from edgex.delegates.plan import REASON_CODES, Fallback, PartitionPlan, ReasonCode, group_fallbacks
from edgex.delegates.recipes.quantizers import Quantizer, QuantizerRecipe, shared_quantizer
from edgex.delegates.recipes.recipes import Recipe, get_recipe
from edgex.errors import EdgexError, LoweringError, QuantizationError, RunError, TargetUnavailable, UsageError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import Method, Requirements
from edgex.runtime.artifact.specs import Dim, StateSpec, TensorSpec
from edgex.runtime.engines.base import Availability, Engine, PreloadingEngine, TunableEngine
from edgex.runtime.engines.plugins import EnginePlugin
from edgex.runtime.engines.trace.operators import OperatorRow
from edgex.runtime.engines.trace.tracing import EngineTrace, TracePlan, TracingEngine
from edgex.runtime.execute.base import Closing, Executor, ExecutorKind, Prepared, prepare_sequences
from edgex.runtime.execute.request import Address, DeviceInfo, DeviceOptions, FreshRun, RunRequest, RunResult
from edgex.runtime.session.numerics import Tolerance
from edgex.runtime.session.runner import EngineSettings, LoadSeconds, Runner
from edgex.runtime.session.session import Session
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.machine.host import HostInfo

__all__ = [
    "REASON_CODES",
    "Address",
    "Artifact",
    "Availability",
    "CapturedProgram",
    "ChoosesRewrites",
    "Closing",
    "Delegate",
    "DeviceInfo",
    "DeviceOptions",
    "Dim",
    "EdgexError",
    "Engine",
    "EnginePlugin",
    "EngineSettings",
    "EngineTrace",
    "Executor",
    "ExecutorKind",
    "Fallback",
    "FreshRun",
    "HostInfo",
    "ImportsSlowly",
    "KnowsMemory",
    "LoadSeconds",
    "LoweredModule",
    "LoweringError",
    "LowersMethods",
    "Method",
    "OperatorRow",
    "PartitionPlan",
    "PreloadingEngine",
    "Prepared",
    "QuantizationError",
    "Quantizer",
    "QuantizerRecipe",
    "Quantizes",
    "ReasonCode",
    "Recipe",
    "Requirements",
    "RunError",
    "RunRequest",
    "RunResult",
    "Runner",
    "Session",
    "SetsTolerances",
    "StateSpec",
    "TargetUnavailable",
    "TensorSpec",
    "Tolerance",
    "TracePlan",
    "TracingEngine",
    "TunableEngine",
    "UsageError",
    "count_flops",
    "get_recipe",
    "group_fallbacks",
    "installed_version",
    "is_operator",
    "module_path_of",
    "prepare_sequences",
    "read_graph_values",
    "shared_quantizer",
    "source_of",
    "sum_flops",
]
