"""Messages of torch.export and torch.onnx. Plain data: to add one, add an `Entry`."""

from __future__ import annotations

from edgex.explain.entry import Entry

MESSAGES: tuple[Entry, ...] = (
    Entry(
        "data-dependent-guard",
        "torch.export",
        r"Could not guard on data-dependent expression",
        "A Python `if` or a size depends on the values of a tensor; an exported program has one path.",
        "torch.where or torch.cond for the branch; for a size torch._check(n >= 1) and torch._check(n <= LIMIT)",
        ("pytorch/executorch#8988", "pytorch/pytorch#127830", "pytorch/pytorch#147096"),
    ),
    Entry(
        "data-dependent-integer",
        "torch.export",
        r"Could not extract specialized integer from data-dependent expression",
        "A number is read out of a tensor (.item(), int(...), .tolist()) and then used as a size or in Python.",
        "keep it a tensor, or give its bounds with torch._check",
        ("pytorch/pytorch#135047",),
    ),
    Entry(
        "dynamic-specialized",
        "torch.export",
        r"You marked .+ as dynamic but your code specialized it to be a constant",
        "The code works with the example's size only: it holds the number, or mixes the dimension with a fixed one.",
        "use x.shape[0] instead of the number; give example inputs whose dynamic sizes are neither 0 nor 1",
    ),
    Entry(
        "constraints-violated",
        "torch.export",
        r"Constraints violated",
        "Not every size in the declared range works: the code divides, compares or reshapes by it.",
        "take the range that the message suggests, with --dynamic NAME:AXIS=MIN..MAX",
    ),
    Entry(
        "dynamic-shapes-mismatch",
        "torch.export",
        r"mismatch between the structure of `inputs` and `dynamic_shapes`|top-level keys must be the arg names",
        "dynamic_shapes does not have the structure of the inputs.",
        "a dict by parameter name: {'x': {0: Dim('batch')}}; *args take one tuple",
    ),
    Entry(
        "fake-data-pointer",
        "torch.export",
        r"Cannot access data pointer of Tensor",
        "forward hands a tensor's memory to other code (data_ptr, a C extension) while it is being traced.",
        "move that out of forward, or wrap it as a torch.library.custom_op",
    ),
    Entry(
        "numpy-in-forward",
        "torch.export",
        r"\.numpy\(\) is not supported for tensor subclasses",
        "forward converts a tensor to NumPy; a traced tensor has no values.",
        "use the torch function of the same name",
    ),
    Entry(
        "dynamo-unsupported",
        "torch.export",
        r"torch\._dynamo\.exc\.Unsupported|Unsupported: .+|Dynamo does not know how to trace",
        "Strict capture met Python that it cannot trace: files, printing, foreign objects.",
        "move it out of forward; non-strict capture (the default of edgex) takes more Python",
        general=True,
    ),
    Entry(
        "script-module",
        "torch.export",
        r"Exporting a ScriptModule is not supported",
        "The model was made with torch.jit.script or torch.jit.load.",
        "export the original nn.Module; TorchScript has no way forward in torch.export",
    ),
    Entry(
        "args-not-a-tuple",
        "torch.export",
        r"Expecting `args` to be a tuple of example positional inputs",
        "The example inputs are a list or one tensor.",
        "return a tuple: return (x,)",
    ),
    Entry(
        "attribute-assigned",
        "torch.export",
        r"The tensor attributes? .+ (?:was|were) assigned during export",
        "forward sets self.something to a tensor: state that the exported program would not carry.",
        "register it with register_buffer and change it in place: self.cache.copy_(...)",
    ),
    Entry(
        "output-not-a-tensor",
        "torch.export",
        r"Found <class '.+'> in output, which is not a known type",
        "forward returns an object of a class that torch.export does not know.",
        "return tensors, tuples or dicts; or torch.export.register_dataclass(Class)",
    ),
    Entry(
        "pending-unbacked-symbol",
        "torch.export",
        r"PendingUnbackedSymbolNotFound|Pending unbacked symbols .* not in returned outputs",
        "A pass retraced a program with a size that data decides (nonzero, a mask) and lost track of it.",
        "run the pass again; or keep the size fixed: torch.where instead of a mask, topk instead of nonzero",
        ("pytorch/pytorch#151980",),
        quote="PendingUnbackedSymbolNotFound: Pending unbacked symbols {u0} not in returned outputs",
    ),
    Entry(
        "weights-only",
        "torch",
        r"Weights only load failed",
        "torch.load refuses a checkpoint that holds more than tensors, since loading it would run code.",
        "save model.state_dict() and load that; weights_only=False only for files from people you trust",
    ),
    Entry(
        "no-onnx-function",
        "torch.onnx",
        r"No ONNX function found for <OpOverload\(op='(?P<name>[\w.]+)'",
        "PyTorch's ONNX exporter has no translation for an operator.",
        "edgex export MODEL -t onnx-cpu --dry-run names all such operators with their lines; rewrite them",
    ),
    Entry(
        "opset-raised",
        "torch.onnx",
        r"the requested opset_version \d+ is a lower version than we have implementations for",
        "Translations begin at opset 18. An older opset is converted down afterwards, and where that gives up the file "
        "silently has opset 18.",
        "ask for opset 18 or newer; edgex refuses a file whose opset is not the one asked for",
    ),
    Entry(
        "onnx-conversion",
        "torch.onnx",
        r"Failed to convert the exported program to an ONNX model",
        "The exporter's frame around another error: the cause stands below it.",
        "read the last error of the chain; edgex explain LOG finds it",
        general=True,
    ),
)
