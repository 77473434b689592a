"""Calls of torch.vmap and torch.func.jvp inside forward become operators of the whole batch."""

import torch
from capture_checks import X, assert_signature_holds, assert_signature_holds_from_fresh, captured

from edgex.export.rewrites import apply_rewrites
from edgex.export.rewrites.editing.mutation import mutated_nodes
from edgex.runtime.artifact.specs import Dim


def _targets(result):
    return [node.target for node in result.program.exported.graph.nodes if node.op == "call_function"]


def _is_expanded(result):
    return all(target.__module__ != "torch._functorch.predispatch" for target in _targets(result))


def test_vmap_beside_writes():
    """The tracer's tensors inside vmap have no storage, and writes ask which nodes share one."""

    def forward(self, x):
        y = self.linear(x)
        y.add_(1.0)
        rows = torch.arange(y.shape[0])
        columns = torch.arange(y.shape[1])
        mask = torch.vmap(lambda i: torch.vmap(lambda j: (j - i) >= 0)(columns))(rows)
        return y.masked_fill(mask, 0.0)

    result = captured(forward, (X,))
    assert _is_expanded(result)
    assert torch.ops.aten.linear.default in _targets(result)
    mutated_nodes(result.program.exported)
    assert_signature_holds(result)
    assert apply_rewrites(result.program, ["fold_constants"])[0] is not None


def test_vmap_of_the_input_with_a_dynamic_batch():
    def forward(self, x):
        return torch.vmap(lambda row: torch.outer(row, row).sum(0) / (1 + row.norm()))(self.linear(x))

    result = captured(forward, (X,), dynamic={("x", 0): Dim("batch", 1, 8)})
    assert _is_expanded(result)
    assert str(result.program.inputs[0]) == "x: float32[batch=1..8, 4]"
    assert_signature_holds(result)
    program = result.program.exported.module()
    other = torch.randn(7, 4)
    torch.testing.assert_close(program(other)[0], result.eager.module(other))


def test_jvp():
    def forward(self, x):
        y, slope = torch.func.jvp(lambda v: torch.sin(self.linear(v)), (x,), (torch.ones_like(x),))
        return y, slope

    result = captured(forward, (X,))
    assert _is_expanded(result)
    assert_signature_holds(result)


def test_vmap_beside_state():
    def forward(self, x):
        self.total.add_(x.sum(0))
        return torch.vmap(lambda row: row * self.total)(x)

    result = captured(forward, (X,), total=torch.zeros(4))
    assert _is_expanded(result)
    assert [spec.name for spec in result.program.state] == ["total"]
    assert_signature_holds_from_fresh(result)
