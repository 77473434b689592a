"""Messages of litert-torch and LiteRT. Plain data: to add one, add an `Entry`."""

from __future__ import annotations

from edgex.explain.entry import Entry

MESSAGES: tuple[Entry, ...] = (
    Entry(
        "litert-no-lowering",
        "litert",
        r"Lowering not found: (?P<name>[\w.:]+)",
        "litert-torch knows no way to write the operator in LiteRT's own.",
        "edgex why MODEL -t litert names every such operator with its line; rewrite them, or export to another target",
        ("google-ai-edge/litert-torch#678",),
        quote="RuntimeError: Lowering not found: aten.normal_functional.default",
    ),
    Entry(
        "litert-dynamic-shape",
        "litert",
        r"\[[\d, -]*-9223372036854775808",
        "A dimension is dynamic, and litert-torch lowers most operators through JAX, which wants numbers.",
        "make a signature for each size: edgex export MODEL -t litert --sizes NAME:0=1,8",
        ("google-ai-edge/litert-torch#870", "google-ai-edge/litert-torch#1024", "keras-team/keras#22996"),
        quote="AssertionError: float32[1,-9223372036854775808]",
    ),
    Entry(
        "litert-custom-operator",
        "litert",
        r"Encountered unresolved custom op: (?P<name>[\w:]+)",
        "The .tflite file holds an operator that is none of LiteRT's own: TensorFlow's, with the Flex delegate, or "
        "somebody's.",
        "export with edgex -t litert, which refuses to write one; or link the Flex delegate into the app",
        ("tensorflow/tensorflow#44424", "tensorflow/tensorflow#35688"),
        quote="ERROR: Encountered unresolved custom op: TensorListReserve.",
    ),
    Entry(
        "litert-old-runtime",
        "litert",
        r"Didn't find op for builtin opcode '(?P<name>\w+)' version '\d+'",
        "The runtime is older than the converter that wrote the .tflite file: it lacks this version of the operator.",
        "update the runtime in the app or on the device (ai-edge-litert, com.google.ai.edge.litert)",
        ("tensorflow/tensorflow#50641", "tensorflow/tensorflow#30332"),
        quote="ERROR: Didn't find op for builtin opcode 'MUL' version '5'. An older version of this builtin might be "
        "supported.",
    ),
)
