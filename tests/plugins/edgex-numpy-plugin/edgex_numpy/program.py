"""The files of a program: its steps as JSON, its weights as safetensors.

program.json  {"inputs": ["x"], "steps": [{"out": "add", "op": "aten.add.Tensor", "args": [{"name": "x"}, 1.0],
               "module": "", "source": "net.py:12"}], "outputs": ["add"]}
"""

import json

from edgex.plugin import is_operator, module_path_of, source_of

FILES = ("program.json", "weights.safetensors")


def write_program(exported, source_root, folder):
    """Write an ExportedProgram's graph and tensors, with the module and the user's line of every step."""
    from safetensors.torch import save_file

    signature = exported.graph_signature
    keys = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    tensors = {**exported.state_dict, **exported.constants}
    steps = [
        {"out": node.name, "op": str(node.target), "args": [_encode(argument) for argument in node.args]}
        | {"module": module_path_of(node), "source": source_of(node, source_root)}
        for node in exported.graph.nodes
        if is_operator(node)
    ]
    program = {"inputs": signature.user_inputs, "steps": steps, "outputs": signature.user_outputs}
    (folder / FILES[0]).write_text(json.dumps(program))
    save_file({name: tensors[key].detach().clone() for name, key in keys.items()}, folder / FILES[1])


def read_program(folder):
    """The program and its weights as NumPy arrays; torch is not needed."""
    from safetensors.numpy import load_file

    return json.loads((folder / FILES[0]).read_text()), load_file(folder / FILES[1])


def _encode(argument):
    return {"name": argument.name} if hasattr(argument, "name") else argument
