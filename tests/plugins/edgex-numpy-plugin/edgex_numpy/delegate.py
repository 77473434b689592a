"""A delegate for programs of a few operators, which its own engine runs with NumPy."""

from dataclasses import dataclass

from edgex.delegates.base import Availability, LoweredModule
from edgex.delegates.graph.provenance import is_operator, source_of
from edgex.delegates.plan import Fallback, PartitionPlan, group_fallbacks
from edgex.errors import LoweringError
from edgex.runtime.artifact.manifest import Requirements
from edgex_numpy.kernels import KERNELS
from edgex_numpy.program import FILES, write_program


@dataclass(frozen=True)
class NumpyOptions:
    """No options; a field here would be an `--option`."""


class NumpyDelegate:
    name, engine, options_type = "numpy", "numpy", NumpyOptions
    precisions, packages = ("fp32",), ("numpy",)

    def availability(self):
        return Availability(True)

    def precision_refusal(self, precision):
        return f"the numpy target computes in fp32, not {precision}: leave --precision out"

    def quantizer(self, recipe):
        return None

    def plan(self, program, options):
        operators = [node for node in program.exported.graph.nodes if is_operator(node)]
        left = []
        for node in operators:
            if str(node.target) not in KERNELS:
                code, reason = "not_in_delegate", "there is no NumPy kernel for it"
            elif node.kwargs:
                code, reason = "attribute", f"its kernel takes no {', '.join(node.kwargs)}"
            else:
                continue
            # fatal: in a program of this target nothing else could run it
            left.append(Fallback(str(node.target), 1, code, reason, source_of(node, program.source_root), fatal=True))
        return PartitionPlan(len(operators) - len(left), len(operators), 1, group_fallbacks(left))

    def lower(self, program, options):
        plan = self.plan(program, options)
        for fallback in plan.fatal:
            raise LoweringError(f"numpy cannot run {fallback.op}", where=fallback.source, why=fallback.reason)
        if program.state:
            raise LoweringError("the numpy target keeps no state", why=f"the model changes {program.state[0].name}")
        return LoweredModule(
            files=FILES,
            write=lambda folder: write_program(program.exported, folder),
            methods=(program.method,),
            plan=plan,
            requirements=Requirements(self.engine),
        )
