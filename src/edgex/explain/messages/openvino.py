"""Messages of OpenVINO. Plain data: to add one, add an `Entry`."""

from __future__ import annotations

from edgex.explain.entry import Entry

MESSAGES: tuple[Entry, ...] = (
    Entry(
        "openvino-unsupported-onnx",
        "openvino",
        r"OpenVINO does not support the following ONNX operations: (?P<name>[\w.]+)",
        "The ONNX file holds operators that OpenVINO does not read: mostly those of com.microsoft, which ONNX "
        "Runtime's optimizer and quantizer write.",
        "export with edgex -t openvino, which names each with its line; or give OpenVINO the file as it was before "
        "ONNX Runtime optimized it",
        ("openvinotoolkit/openvino#13177", "openvinotoolkit/openvino#20638", "openvinotoolkit/openvino#17461"),
        quote="OpenVINO does not support the following ONNX operations: com.microsoft.FusedConv",
    ),
    Entry(
        "openvino-device-missing",
        "openvino",
        r"Device with \"(?P<name>[\w.]+)\" name is not registered in the OpenVINO Runtime",
        "OpenVINO knows no such device: names are written CPU, GPU and NPU, in capitals, and a plug-in that a "
        "packaging tool left out is not found either.",
        "openvino.Core().available_devices lists what there is; GPU and NPU need Intel's drivers",
        ("openvinotoolkit/openvino#24913", "openvinotoolkit/openvino#23883"),
        quote='Device with "gpu" name is not registered in the OpenVINO Runtime',
    ),
    Entry(
        "openvino-unreadable-model",
        "openvino",
        r"Unable to read the model: .*Please check that model format: (?P<name>\w+) is supported",
        "OpenVINO found no frontend that takes the file: the frontend's library is not there, or the file is damaged.",
        "the list behind `Available frontends:` must name the format; install the whole package of openvino",
        ("openvinotoolkit/openvino_contrib#938",),
        quote="Unable to read the model: /storage/emulated/0/data/rec.onnx Please check that model format: onnx is "
        "supported and the model is correct. Available frontends:",
    ),
    Entry(
        "openvino-input-size",
        "openvino",
        r"The input (?:blob|tensor) size is not equal to the (?:network|model) input (?:size|type)",
        "The array that was given has another size than the model's input.",
        "edgex inspect ARTIFACT shows the sizes; export with a dynamic one where it varies: --dynamic NAME:0=1..8",
        ("openvinotoolkit/openvino_notebooks#863",),
        quote="RuntimeError: The input blob size is not equal to the network input size: got 153600 expecting 98304",
    ),
    Entry(
        "openvino-input-type",
        "openvino",
        r"Failed to set tensor for input with precision: (?P<name>\w+), since the model input tensor precision is: \w+",
        "The array that was given has another type than the model's input.",
        "convert it before the run: numpy's array.astype(...)",
        ("Peterande/D-FINE#218",),
        quote="ParameterMismatch: Failed to set tensor for input with precision: i32, since the model input tensor "
        "precision is: i64",
    ),
)
