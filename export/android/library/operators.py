"""`selected_operators.yaml`: what a build of ExecuTorch for this model alone must hold, in the form its build reads."""

from __future__ import annotations

from edgex.runtime.engines.executorch.pte import PteSummary

FILE = "selected_operators.yaml"

# Operators in the portable library of ExecuTorch 1.5.1, kernels/portable/functions.yaml.
PORTABLE_OPERATORS = 209
# Code of a kernel on average: the exported functions of 275 in a libexecutorch.so for arm64 (1.3) have 906 kB.
# What a compiler keeps to itself is not counted, so that a build saves this at least.
_KERNEL_BYTES = 3300


def write_operators(program: PteSummary, model: str) -> str:
    """The file's text; operators inside delegated regions are the backend's and do not count.

    Args:
        program: What the .pte needs.
        model: The model's file, named as the origin of each operator.
    """
    names = sorted(set(program.operators))
    # Arithmetic on sizes is the runtime's own, whatever is selected.
    kernels = [name for name in names if not name.startswith("executorch_prim::") and "::sym_" not in name]
    lines = [
        f"# {len(kernels)} of the {PORTABLE_OPERATORS} operators in the portable library are needed: a build of",
        "# ExecuTorch that selects by this file leaves the other kernels out. The published library has them all.",
        f"# Predicted saving: {(PORTABLE_OPERATORS - len(kernels)) * _KERNEL_BYTES / 1e6:.1f} MB of code or more, "
        "with 3.3 kB a kernel on average (arm64).",
        f"# Backends that must be in: {', '.join(sorted(set(program.backends))) or 'none'}.",
        "build_features: []",
        "custom_classes: []",
        "et_kernel_metadata:" if names else "et_kernel_metadata: {}",
    ]
    for name in names:
        lines += [f"  {name}:", "  - default"]
    lines += ["include_all_non_op_selectives: false", "include_all_operators: false", "kernel_metadata: {}"]
    lines.append("operators:" if names else "operators: {}")
    for name in names:
        lines += [
            f"  {name}:",
            "    debug_info:",
            f"    - {model}",
            "    include_all_overloads: false",
            "    is_root_operator: true",
            "    is_used_for_training: true",
        ]
    return "\n".join(lines) + "\n"
