"""Messages of the QNN provider. Plain data: to add one, add an `Entry`."""

from __future__ import annotations

from edgex.explain.entry import Entry

MESSAGES: tuple[Entry, ...] = (
    Entry(
        "qnn-operator-form",
        "qnn",
        r"QNN\.backendValidateOpConfig\(\) failed for node `(?P<name>[^`]+)`",
        "The HTP has the operator, and not in this form: a rank, a type or a size that it does not take. The node goes "
        "to the CPU, or stops a session that forbids that.",
        "edgex why MODEL -t onnx-qnn --precision fp16 names each such operator with its line",
        ("microsoft/onnxruntime#22821", "microsoft/onnxruntime#22532"),
        quote="QNN.backendValidateOpConfig() failed for node `Conv` of type `Conv2d` with error code 3110",
    ),
    Entry(
        "qnn-finalize",
        "qnn",
        r"Failed to finalize QNN graph",
        "QNN took every operator and its compiler failed afterwards; often something needs more than the HTP's fast "
        "memory.",
        "smaller inputs (--input-shape), --quantize int8, a newer SoC (--option soc=…), or --option optimization=1",
        ("microsoft/onnxruntime#22369", "microsoft/onnxruntime#16223"),
        quote="Failed to finalize QNN graph. at location qnn_model.cc:152 FinalizeGraphs",
    ),
    Entry(
        "qnn-context-version",
        "qnn",
        r"(?:Failed to|Could not) create context from binary",
        "The context binary was compiled for another SoC, or by newer libraries of Qualcomm's than those that load it.",
        "compile it again with the libraries of the device: edgex export MODEL -t onnx-qnn --option soc=… --option "
        "context=true; or open the model itself: edgex.load(path, options={'context': False})",
        ("qualcomm/ai-hub-apps#148", "microsoft/foundry-local#244"),
        quote="Failed to create context from binary. Error code: 5005",
    ),
)
