"""A delegate for programs of a few operators, which its own engine runs with NumPy."""

from dataclasses import dataclass

from edgex.plugin import (
    Availability,
    Fallback,
    LoweredModule,
    LoweringError,
    PartitionPlan,
    Requirements,
    Tolerance,
    group_fallbacks,
    is_operator,
    source_of,
)
from edgex_numpy.kernels import KERNELS
from edgex_numpy.program import FILES, write_program

WORKAROUNDS = {"aten.sigmoid.default": "write 0.5 * torch.tanh(0.5 * x) + 0.5"}


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

    def peak_memory_factor(self, recipe):
        return 3.0  # the model, its copy on the way to the file, and what the proof loads

    def tolerance(self, kind):
        return Tolerance(min_sqnr_db=100.0, atol=1e-5, rtol=1e-5)  # small programs round little

    def plan(self, program, options):
        operators = [node for node in program.exported.graph.nodes if is_operator(node)]
        left = []
        for node in operators:
            op, workaround = str(node.target), None
            if op not in KERNELS:
                code, reason, workaround = "not_in_delegate", "there is no NumPy kernel for it", WORKAROUNDS.get(op)
            elif node.kwargs:
                code, reason = "attribute", f"its kernel takes no {', '.join(node.kwargs)}"
            else:
                continue
            source = source_of(node, program.source_root)
            # fatal: in a program of this target nothing else could run it
            left.append(Fallback(op, 1, code, reason, source, fatal=True, workaround=workaround))
        return PartitionPlan(len(operators) - len(left), len(operators), 1, group_fallbacks(left))

    def lower(self, program, options):
        plan = self.plan(program, options)
        for fallback in plan.fatal:
            fix = fallback.workaround
            raise LoweringError(f"numpy cannot run {fallback.op}", fallback.source, fix, why=fallback.reason)
        if program.state:
            raise LoweringError("the numpy target keeps no state", why=f"the model changes {program.state[0].name}")
        return LoweredModule(
            files=FILES,
            write=lambda folder: write_program(program.exported, program.source_root, folder),
            methods=(program.method,),
            plan=plan,
            requirements=Requirements(self.engine),
        )
