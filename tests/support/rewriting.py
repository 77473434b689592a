"""What the tests of the rewrites share: make a program, run it, check that a rewrite kept its numbers and signature."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path

import numpy as np
import torch

from edgex.delegates.base import CapturedProgram
from edgex.runtime.artifact.specs import StateSpec, TensorSpec
from edgex.runtime.session.numerics import measure_sqnr_db

HERE = Path(__file__).parent


class Calls(torch.nn.Module):
    """A module of one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def capture_program(module, *args, dynamic_shapes=None, state=(), randomise=True):
    """A CapturedProgram of an eval-mode module, with weights and statistics that make every term count."""
    module = module.eval()
    if randomise:
        randomise_weights(module)
    with torch.no_grad():
        exported = torch.export.export(module, args, dynamic_shapes=dynamic_shapes)
    return program_of(exported, args, state)


def program_of(exported, args, state=()):
    outputs = exported.graph.output_node().args[0]
    tensors = dict(exported.state_dict) | dict(exported.constants)
    return CapturedProgram(
        exported,
        tuple(_spec(f"x{i}", arg) for i, arg in enumerate(args)),
        tuple(_spec(f"output_{i}", node.meta["val"]) for i, node in enumerate(outputs)),
        tuple(StateSpec(name, _name(tensors[name].dtype), tuple(tensors[name].shape)) for name in state),
        HERE,
    )


def randomise_weights(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in itertools.chain(module.named_parameters(), module.named_buffers()):
        if tensor.is_floating_point():
            with torch.no_grad():
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.5)
                if name.endswith("running_var"):
                    tensor.abs_().add_(0.1)


def run_program(program, *args, steps=1):
    """The outputs of `steps` runs in a row, in a fresh copy of the program's state."""
    # The module shares its buffers with the program and would leave its state in it.
    module = copy.deepcopy(program.exported.module())
    with torch.no_grad():
        runs = [module(*args) for _ in range(steps)]
    return [leaf for run in runs for leaf in (run if isinstance(run, tuple | list) else (run,))]


def worst_sqnr_db(reference, actual):
    assert len(reference) == len(actual)
    worst = 300.0
    for one, other in zip(reference, actual, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        one, other = one.double().numpy(), other.double().numpy()
        assert np.sqrt(np.mean(one**2)) > 1e-4, "a reference of zeros proves nothing"
        worst = min(worst, measure_sqnr_db(one, other))
    return worst


def check_rewrite(before, after, *args, min_sqnr_db=100.0, steps=1, untouched=None):
    """The same numbers and signature, a valid new program, and an old one that still gives its numbers."""
    reference = run_program(before, *args, steps=steps)
    sqnr_db = worst_sqnr_db(reference, run_program(after, *args, steps=steps))
    assert sqnr_db >= min_sqnr_db, f"SQNR {sqnr_db:.1f} dB"
    assert after.inputs == before.inputs
    assert after.outputs == before.outputs
    assert signature(after) == signature(before)
    after.exported.validate()
    check_vals(after)
    if untouched is not None:
        assert str(before.exported.graph) == untouched.graph
        assert all(torch.equal(a, b) for a, b in zip(reference, untouched.outputs, strict=True))
    return sqnr_db


class Untouched:
    """What a program was before a rewrite: pass it to `check_rewrite` afterwards."""

    def __init__(self, program, *args, steps=1):
        self.graph = str(program.exported.graph)
        self.outputs = run_program(program, *args, steps=steps)


def signature(program):
    """Names, dtypes and shapes of the user inputs and outputs in the graph itself."""
    exported = program.exported
    vals = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    inputs = [(name, vals[name].dtype, tuple(vals[name].shape)) for name in exported.graph_signature.user_inputs]
    outputs = [(vals[name].dtype, tuple(vals[name].shape)) for name in exported.graph_signature.user_outputs]
    return inputs, outputs


def check_vals(program):
    """The fake tensors of the graph tell the dtypes and shapes that a run really has (static programs, one step)."""
    exported = program.exported
    recorded = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, node):
            recorded[node] = super().run_node(node)
            return recorded[node]

    tensors = dict(exported.state_dict) | dict(exported.constants)
    user = iter(exported.example_inputs[0])
    args = [
        tensors[spec.target].clone() if spec.target in tensors else next(user)
        for spec in exported.graph_signature.input_specs
    ]
    with torch.no_grad():
        Recorder(exported.graph_module).run(*args)
    modes = set()
    for node, value in recorded.items():
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor) and isinstance(value, torch.Tensor):
            assert (val.dtype, tuple(val.shape)) == (value.dtype, tuple(value.shape)), node.format_node()
            modes.add(id(val.fake_mode))
    assert len(modes) == 1, "all fake tensors are of one mode"


def operators(program):
    return [str(node.target) for node in program.exported.graph.nodes if node.op == "call_function"]


def _spec(name, tensor):
    return TensorSpec(name, _name(tensor.dtype), tuple(size if isinstance(size, int) else -1 for size in tensor.shape))


def _name(dtype):
    return str(dtype).removeprefix("torch.")
