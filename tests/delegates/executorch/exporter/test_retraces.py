"""Passes that change nothing trace nothing: the same file, of fewer traces, and no change is missed."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from edgex.delegates.executorch import exir
from edgex.delegates.executorch.exporter.retraces import retraces_spared


class _Net(torch.nn.Module):
    """What XNNPACK's passes look for (a batch norm, a long concatenation), and what they leave alone."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x)))
        return self.linear(torch.cat([y + number for number in range(7)], 1)).softmax(-1)


def _lower(spared, monkeypatch):
    """The program file, and how many graphs passes traced."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir.pass_base import ExportPass

    torch.manual_seed(0)
    exported = torch.export.export(_Net().eval(), (torch.randn(1, 3, 8, 8),))
    traces = []
    submodule = ExportPass.call_submodule

    def counted(self, module, inputs):
        traces.append(type(self))
        return submodule(self, module, inputs)

    with monkeypatch.context() as patch, retraces_spared() if spared else nullcontext():
        patch.setattr(ExportPass, "call_submodule", counted)
        edge = exir.lower_to_edge(exported, XnnpackPartitioner())
        return exir.emit(edge, plan_inputs=False).buffer, len(traces)


def test_passes_that_are_spared_make_the_same_program_of_fewer_traces(monkeypatch):
    from executorch.exir.pass_base import ExportPass

    traced = ExportPass.call
    every, all_traces = _lower(False, monkeypatch)
    spared, traces = _lower(True, monkeypatch)
    assert spared == every
    assert traces < 0.7 * all_traces, f"{traces} of {all_traces} traces"
    assert ExportPass.call is traced, "ExecuTorch's class is as it was"


def _replace_argument(module, node):
    node.args = (node.args[0], 3.0)


def _replace_target(module, node):
    node.target = torch.ops.aten.sub.Tensor


def _add_node(module, node):
    with module.graph.inserting_after(node):
        module.graph.call_function(torch.ops.aten.relu.default, (node,))


def _replace_value(module, node):
    node.meta["val"] = node.meta["val"].clone()


@pytest.mark.parametrize("change", [_replace_argument, _replace_target, _add_node, _replace_value])
def test_what_was_changed_is_traced(change):
    from executorch.exir.pass_base import ExportPass

    module = torch.export.export(_Sum(), (torch.randn(3),)).graph_module
    with retraces_spared():
        first = ExportPass()(module).graph_module
        assert ExportPass()(first).graph_module is first, "nobody has changed it"
        change(first, next(node for node in first.graph.nodes if node.op == "call_function"))
        assert ExportPass()(first).graph_module is not first


def test_a_pass_that_changes_nodes_while_it_traces_does():
    from executorch.exir.pass_base import ExportPass

    class Doubling(ExportPass):
        def call_operator(self, op, args, kwargs, meta):
            if op is torch.ops.aten.add.Tensor:
                args = (args[0], 2 * args[1])
            return super().call_operator(op, args, kwargs, meta)

    class Inherited(Doubling):
        pass

    module = torch.export.export(_Sum(), (torch.randn(3),)).graph_module
    with retraces_spared():
        first = ExportPass()(module).graph_module
        for kind in (Doubling, Inherited):
            assert kind()(first).graph_module is not first


class _Sum(torch.nn.Module):
    def forward(self, x):
        return x + 2.0
