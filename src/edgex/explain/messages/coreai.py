"""Messages of coreai-torch and Core AI. Plain data: to add one, add an `Entry`."""

from __future__ import annotations

from edgex.explain.entry import Entry

MESSAGES: tuple[Entry, ...] = (
    Entry(
        "coreai-stack-traces",
        "coreai",
        r"cannot unwrap empty odiec_module_t|expected AICode versioned location",
        "The compiler of Core AI's first betas fails on the stack traces that coreai-torch writes for nested modules.",
        "update coreai-core and coreai-torch, or convert with TorchConverter.Mode.RELEASE, as edgex does",
        ("apple/coreai-torch#37",),
        quote="LLVM ERROR: cannot unwrap empty odiec_module_t",
    ),
    Entry(
        "coreai-unsupported-operator",
        "coreai",
        r"exported program contains unsupported ATen ops: (?P<name>[\w.]+)",
        "coreai-torch has no conversion for the operator, and names no line of the model.",
        "edgex why MODEL -t coreai names every such operator with its line; rewrite them, or export to another target",
    ),
)
