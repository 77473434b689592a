from __future__ import annotations

import copy
import dataclasses
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from pte_support import Call, captured
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import edgex
from edgex.delegates.base import CapturedProgram
from edgex.delegates.plan import REASON_CODES
from edgex.delegates.registry import get_delegate
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.errors import LoweringError
from edgex.export.capture.program import capture
from edgex.runtime.support import entry_points as plugins

HERE = Path(__file__).parent
OPTIONS = XnnpackOptions()
delegate = XnnpackDelegate()


class Net(nn.Module):
    """Two regions with cumsum, which XNNPACK does not have, between them."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).mean((2, 3), keepdim=True).flatten(1)
        x = torch.cumsum(x, 1)
        return torch.softmax(self.head(x), -1)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return captured(Net(), torch.randn(1, 3, 8, 8))


@pytest.fixture(scope="module")
def lowered_net(net):
    return delegate.lower(net, OPTIONS)


def line_of(text: str, file: Path = Path(__file__)) -> int:
    """Number of the line in this file that holds `text` first."""
    return next(at for at, line in enumerate(file.read_text().splitlines(), 1) if text in line)


def only_fallback(program: CapturedProgram, op: str):
    """The one fallback of an operator."""
    (found,) = [fallback for fallback in delegate.plan(program, OPTIONS).fallbacks if fallback.op == op]
    return found


# What was taken


def test_the_plan_counts_operators_regions_and_work(lowered_net):
    plan = lowered_net.plan
    assert (plan.delegated_ops, plan.total_ops, plan.delegate_calls) == (7, 8, 2)
    convolution, linear = 2 * 8 * 6 * 6 * 3 * 3 * 3, 2 * 8 * 4
    assert plan.total_flops == plan.delegated_flops == convolution + linear
    assert plan.work_fraction == 1.0
    assert [fallback.op for fallback in plan.fallbacks] == ["aten.cumsum.default"]


def test_plan_predicts_what_lower_does(net, lowered_net):
    assert delegate.plan(net, OPTIONS) == lowered_net.plan


def test_the_graph_keeps_its_calls_into_the_backend_in_step_with_the_plan(lowered_net, tmp_path):
    from edgex.runtime.engines.executorch.pte import read_pte

    lowered_net.write(tmp_path)
    summary = read_pte(tmp_path / "model.pte")
    assert summary.backends == ("XnnpackBackend",) * lowered_net.plan.delegate_calls
    assert summary.operators == ("aten::cumsum.out",)


def test_weights_may_be_fake_for_a_plan(net):
    with FakeTensorMode(allow_non_fake_inputs=True):
        exported = torch.export.export(Net().eval(), (torch.randn(1, 3, 8, 8),))
    plan = delegate.plan(dataclasses.replace(net, exported=exported), OPTIONS)
    assert (plan.delegated_ops, plan.total_ops, plan.delegate_calls) == (7, 8, 2)


def test_a_model_that_xnnpack_does_not_touch_is_warned_of():
    lowered = delegate.lower(captured(Call(lambda self, x: torch.cumsum(x, 1)), torch.randn(2, 3)), OPTIONS)
    assert lowered.plan.delegated_ops == 0
    assert "portable kernels" in lowered.warnings[0]


# What was left out, one test a code


def test_dtype():
    def forward(self, x):
        return x + 1  # of integers

    found = only_fallback(captured(Call(forward), torch.arange(4)), "aten.add.Tensor")
    assert found.code == "dtype"
    assert found.reason == "XNNPACK takes float32 and float16 here; the input x is int64"
    assert found.source == f"delegates/xnnpack/test_xnnpack.py:{line_of('return x + 1  # of integers')}"


def test_dtype_of_an_operator_that_has_no_half_version():
    module = Call(lambda self, x: F.gelu(self.m[0](x)), nn.Linear(4, 4).half())
    found = only_fallback(captured(module, torch.randn(2, 4).half()), "aten.gelu.default")
    assert (found.code, found.reason) == ("dtype", "XNNPACK has no float16 GELU")


def test_dynamic_shape_of_a_slice():
    shapes = {"x": {0: torch.export.Dim("batch", min=3, max=8)}}
    program = captured(Call(lambda self, x: x[1:] * 2), torch.randn(4, 8), dynamic_shapes=shapes)
    found = only_fallback(program, "aten.slice_copy.Tensor")
    assert found.code == "dynamic_shape"
    assert re.fullmatch(r"XNNPACK slices static shapes only, not \[s\d+, 8\]", found.reason)


def test_dynamic_shape_of_a_result():
    shapes = {"x": {2: torch.export.Dim("height", min=2, max=8)}}
    resize = Call(lambda self, x: F.interpolate(x, scale_factor=2.0, mode="bilinear"))
    program = captured(resize, torch.randn(1, 2, 4, 4), dynamic_shapes=shapes)
    found = only_fallback(program, "aten.upsample_bilinear2d.vec")
    assert found.code == "dynamic_shape"
    assert re.fullmatch(r"XNNPACK resizes to a static size only, not to \[1, 2, 2\*s\d+, 8\]", found.reason), found


def test_dynamic_shape_as_an_argument():
    shapes = {"x": {0: torch.export.Dim("batch", min=2, max=8)}}
    program = captured(Call(lambda self, x: x.reshape(x.shape[0] * 2, 4) * 2), torch.randn(4, 8), dynamic_shapes=shapes)
    found = only_fallback(program, "aten.view_copy.default")
    assert found.code == "dynamic_shape"
    assert "a size known only when the model runs" in found.reason
    size = only_fallback(program, "operator.mul")
    assert size.reason == "XNNPACK has no operator operator.mul: the runtime itself computes and checks sizes"
    assert "nothing to do" in size.workaround


def test_rank():
    found = only_fallback(captured(Call(lambda self, x: x.mean((1, 2))), torch.randn(2, 3, 4)), "aten.mean.dim")
    assert (found.code, found.reason) == ("rank", "XNNPACK averages tensors of 4 dimensions only, not of 3")


REFUSED = {
    "aten.add.Tensor": (lambda x: torch.add(x, x, alpha=3), "with alpha=1 only, not alpha=3"),
    "aten.pow.Tensor_Scalar": (lambda x: x.pow(3), "to the power 2 only, not 3"),
    "aten.slice_copy.Tensor": (lambda x: x[..., ::2], "with step 1 only, not 2"),
    "aten._softmax.default": (lambda x: torch.softmax(x, 1), "over the last dimension only, not dim=1"),
    "aten.mean.dim": (lambda x: x.mean((1, 2)), "over dimensions 2 and 3 only, not [1, 2]"),
    "aten.avg_pool2d.default": (lambda x: F.avg_pool2d(x, 3, 1, 1), "does not average padding=[1, 1] in"),
    "aten.constant_pad_nd.default": (lambda x: F.pad(x, (-1, 1)), "does not crop: pad=[-1, 1]"),
    "aten.unsqueeze_copy.default": (lambda x: x.unsqueeze(1), "at the end only, not at dim=1"),
    "aten.max.dim": (lambda x: x.max(1).indices, "gives no indices"),
    "aten.max_pool2d_with_indices.default": (
        lambda x: F.max_pool2d(x, 2, 3),
        "part of aten.max_pool2d.default: XNNPACK: stride ([3, 3]) must be less than or equal to kernel size ([2, 2])",
    ),
    "aten.abs.default": (lambda x: x[:, :0].abs(), "takes no empty tensor"),
}


@pytest.fixture(scope="module")
def refused():
    """One program with every operator of `REFUSED`: what lowering it, and what planning it, left out."""

    def forward(self, x):
        return tuple(function(x) for function, _ in REFUSED.values())

    program = captured(Call(forward), torch.randn(1, 3, 6, 6))
    plan = delegate.lower(program, OPTIONS).plan
    assert delegate.plan(program, OPTIONS) == plan
    return plan.fallbacks


@pytest.mark.parametrize("op", REFUSED)
def test_attribute(op, refused):
    found = [fallback.reason for fallback in refused if fallback.op == op and fallback.code == "attribute"]
    assert any(REFUSED[op][1] in reason for reason in found), found


WORKAROUNDS = {
    "aten.add.Tensor": ("two operations", "split_alpha"),
    "aten.pow.Tensor_Scalar": ("x * x * x", None),
    "aten._softmax.default": ("to the end first", None),
    "aten.mean.dim": ("average over (2, 3)", None),
}


@pytest.mark.parametrize("op", WORKAROUNDS)
def test_what_helps_comes_with_the_reason(op, refused):
    words, rewrite = WORKAROUNDS[op]
    found = [fallback for fallback in refused if fallback.op == op and words in (fallback.workaround or "")]
    assert [fallback.rewrite for fallback in found] == [rewrite], refused


def test_non_constant_weight():
    found = only_fallback(
        captured(Call(lambda self, x, y: x @ y), torch.randn(2, 3), torch.randn(3, 4)), "aten.mm.default"
    )
    assert found.code == "non_constant_weight"
    assert found.reason == "XNNPACK needs a constant weight here; this one is the input y"
    assert found.workaround == "make the weight a parameter"


def test_non_constant_weight_that_is_state():
    """Lowered as a constant, such a program would crash the process that loads it."""

    def forward(self, x):
        y = F.linear(x, self.weight)
        self.weight.mul_(2)
        return y

    found = only_fallback(captured(Call(forward, weight=torch.randn(4, 8)), torch.randn(2, 8)), "aten.mm.default")
    assert found.code == "non_constant_weight"
    assert (
        found.reason == "XNNPACK needs a constant weight here; this one is the buffer weight, which the model changes"
    )


def test_not_in_delegate(lowered_net):
    (found,) = lowered_net.plan.fallbacks
    assert (found.code, found.reason) == ("not_in_delegate", "XNNPACK has no operator aten.cumsum.default")
    assert found.source == f"delegates/xnnpack/test_xnnpack.py:{line_of('x = torch.cumsum(x, 1)')}"
    assert not found.fatal


def test_no_kernel_names_all_operators_at_once_with_their_lines():
    def forward(self, x):
        x = torch.sort(x)[0]  # in Core ATen, without a kernel
        return torch.special.bessel_j0(x)  # outside Core ATen

    program = captured(Call(forward), torch.randn(2, 8))
    plan = delegate.plan(program, OPTIONS)
    assert {(item.op, item.code, item.fatal) for item in plan.fatal} == {
        ("aten.sort.default", "no_kernel", True),
        ("aten.special_bessel_j0.default", "no_kernel", True),
    }
    with pytest.raises(LoweringError) as caught:
        delegate.lower(program, OPTIONS)
    error = caught.value
    assert error.exit_code == 5
    assert "aten.sort.default, aten.special_bessel_j0.default" in error.what
    lines = {"aten::sort.values": "x = torch.sort(x)[0]", "aten::special_bessel_j0.out": "bessel_j0(x)  #"}
    for operator, line in lines.items():
        assert operator in error.why
        assert f"delegates/xnnpack/test_xnnpack.py:{line_of(line)}" in error.why
    assert "`edgex why MODEL -t onnx-cpu,reference`" in error.fix


def test_no_kernel_where_the_kernel_is_too_narrow():
    found = only_fallback(
        captured(Call(lambda self, x: self.m[0](x), nn.Conv3d(2, 3, 2)), torch.randn(1, 2, 4, 4, 4)),
        "aten.convolution.default",
    )
    assert (found.code, found.fatal) == ("no_kernel", True)
    assert "not over 3" in found.reason


def test_no_kernel_where_no_out_variant_exists():
    with torch.library._scoped_library("edgex_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        program = captured(Call(lambda self, x: torch.ops.edgex_test.twice(x)), torch.randn(2, 3))
        (found,) = delegate.plan(program, OPTIONS).fatal
        assert found.code == "no_kernel"
        assert "no out variant" in found.reason
        with pytest.raises(LoweringError, match=r"cannot run edgex_test\.twice\.default"):
            delegate.lower(program, OPTIONS)


def test_operators_inside_a_branch_are_counted_and_not_kept_whole():
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.m[0](x), lambda x: x - 1, (x,))

    program = captured(Call(forward, nn.Linear(4, 4)), torch.randn(2, 4))
    plan = delegate.lower(program, OPTIONS).plan
    assert plan == delegate.plan(program, OPTIONS)
    inside = {item.op for item in plan.fallbacks if "inside a branch of torch.cond" in item.reason}
    assert {"aten.addmm.default", "aten.sub.Tensor"} <= inside


def test_a_loop_over_values_is_refused_before_anything_is_lowered():
    def forward(self, x):
        count = torch.tensor(0)
        return torch.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (count, x))[1]

    program = captured(Call(forward), torch.randn(2, 4))
    (found,) = delegate.plan(program, OPTIONS).fatal
    assert (found.op, found.code) == ("while_loop", "no_kernel")
    with pytest.raises(LoweringError, match="cannot run while_loop"):
        delegate.lower(program, OPTIONS)


def test_every_code_of_the_rules_is_known():
    from edgex.delegates.xnnpack.reasons import RULES

    assert {rule.code for rule in RULES} <= set(REASON_CODES)


# The program


def test_the_given_program_is_not_changed(net):
    def state(program: CapturedProgram):
        exported = program.exported
        tensors = {**exported.state_dict, **exported.constants}
        signature = str(exported.graph_signature)
        return str(exported.graph), signature, [*tensors], [(t.data_ptr(), t.sum().item()) for t in tensors.values()]

    counter = captured(counter_module(), torch.randn(2, 3))
    for program in (net, counter):
        before = state(program)
        delegate.plan(program, OPTIONS)
        delegate.lower(program, OPTIONS)
        assert state(program) == before


def counter_module():
    def forward(self, x):
        self.count.add_(1)
        return self.m[0](x) * self.count + self.count_limit

    return Call(forward, nn.Linear(3, 3), count=torch.tensor([5.0]), count_limit=torch.tensor([9.0]))


def test_the_same_program_gives_the_same_bytes(net, lowered_net, tmp_path):
    again = delegate.lower(net, OPTIONS)
    for name, lowered in (("a", lowered_net), ("b", again)):
        (tmp_path / name).mkdir()
        lowered.write(tmp_path / name)
    assert lowered_net.files == ("model.pte",)
    written = [(tmp_path / name / "model.pte").read_bytes() for name in "ab"]
    assert written[0] == written[1]
    assert str(HERE.parent).encode() not in written[0]
    assert json.dumps(again.debug) == json.dumps(lowered_net.debug)


def test_initial_values_are_kept_for_exactly_the_state():
    """`count` is state; `count_limit`, whose name contains it, is a constant."""
    from edgex.delegates.executorch import exir
    from edgex.delegates.xnnpack.delegate import _make_partitioner
    from edgex.runtime.support.dependency_messages import quiet_dependencies

    program = captured(counter_module(), torch.randn(2, 3))
    assert [state.name for state in program.state] == ["count"]
    with quiet_dependencies():
        edge = exir.lower_to_edge(program.exported, _make_partitioner(lambda edge, refuse: None))
        emitted = exir.emit(edge, plan_inputs=False)
    marked = [n.name for n in emitted.exported_program().graph.nodes if n.meta.get("et_init_buffer")]
    assert marked == ["b_count"]


def test_requirements_and_options_go_to_the_manifest(lowered_net):
    installed = plugins.installed_version("executorch")
    assert lowered_net.requirements.engine == "executorch"
    assert installed.startswith(lowered_net.requirements.minimum_version)
    assert lowered_net.options == {"plan_inputs": False}
    assert lowered_net.methods[0].name == "forward"


def test_inputs_are_planned_on_request(net, lowered_net, tmp_path):
    from edgex.runtime.engines.executorch.pte import read_pte

    lowered_net.write(tmp_path)
    shared = read_pte(tmp_path / "model.pte").planned_arena_bytes
    delegate.lower(net, XnnpackOptions(plan_inputs=True)).write(tmp_path)
    assert read_pte(tmp_path / "model.pte").planned_arena_bytes >= 3 * 8 * 8 * 4 > shared


# Where the operators come from


def test_the_source_map_leads_from_handles_to_modules_and_lines(lowered_net):
    debug = lowered_net.debug
    assert debug["format"] == "edgex.source_map/1"
    by_id = {op["id"]: op for op in debug["ops"]}
    assert len(by_id) == lowered_net.plan.total_ops
    conv = by_id["aten_convolution_default"]
    assert (conv["op"], conv["module"], conv["delegate"]) == ("aten.convolution.default", "conv", 0)
    assert conv["source"] == f"delegates/xnnpack/test_xnnpack.py:{line_of('torch.relu(self.norm(self.conv(x)))')}"
    assert by_id["aten_cumsum_default"]["delegate"] is None
    assert [region["backend"] for region in debug["delegates"]] == ["XnnpackBackend", "XnnpackBackend"]
    assert conv["handle"] in debug["delegates"][0]["handles"]
    instructions = {item["id"]: item["handles"] for item in debug["instructions"]}
    first, second = (region["instruction"] for region in debug["delegates"])
    assert conv["handle"] in instructions[first]
    assert by_id["aten_linear_default"]["handle"] in instructions[second]
    (cumsum,) = [item for item, handles in instructions.items() if by_id["aten_cumsum_default"]["handle"] in handles]
    assert first < cumsum < second
    assert str(HERE.parent) not in json.dumps(debug)


def test_the_handles_are_those_that_xnnpack_serializes(net, lowered_net, monkeypatch):
    """The profiler joins what XNNPACK reports of its own operators to source lines by them."""
    import executorch.backends.xnnpack.xnnpack_preprocess as preprocess

    serialized = []
    serialize = preprocess.serialize_xnnpack_binary

    def listen(graph, constants):
        serialized.append([node.debug_handle for node in graph.xnodes])
        return serialize(graph, constants)

    monkeypatch.setattr(preprocess, "serialize_xnnpack_binary", listen)
    delegate.lower(net, OPTIONS)
    inserted = 65535  # layout transposes, which come from no operator
    known = [set(region["handles"]) for region in lowered_net.debug["delegates"]]
    found = [set(handles) - {inserted} for handles in serialized]
    assert len(found) == len(known)
    assert all(inside and inside <= region for inside, region in zip(found, known, strict=True))


# Errors and the edges


def test_a_failure_inside_executorch_says_what_and_why(net, monkeypatch):
    import executorch.exir

    def fail(*args, **kwargs):
        raise RuntimeError(
            'first line\n  File "/home/someone/model.py", line 7, in forward\nlast line\nOriginal traceback:\nNone'
        )

    monkeypatch.setattr(executorch.exir, "to_edge_transform_and_lower", fail)
    with pytest.raises(LoweringError) as caught:
        delegate.lower(net, OPTIONS)
    assert caught.value.what == "ExecuTorch could not lower the program for xnnpack"
    assert caught.value.where == "model.py:7"
    assert caught.value.why.startswith("RuntimeError: first line")
    assert caught.value.why.endswith("last line")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_bf16_is_refused_with_the_reason_and_another_precision():
    assert "bf16" not in delegate.precisions
    refusal = delegate.precision_refusal("bf16")
    assert "bf16" in refusal and "fp16" in refusal


def test_availability_names_what_is_missing(monkeypatch):
    import edgex.delegates.xnnpack.delegate as module

    assert get_delegate("xnnpack").availability().available
    monkeypatch.setattr(module, "installed_version", lambda name: None if name == "torchao" else "1")
    missing = delegate.availability()
    assert not missing.available
    assert missing.reason == "torchao is not installed"
    assert missing.fix == "pip install 'edgex-toolchain[xnnpack]'"


def test_asking_what_is_available_imports_nothing_heavy():
    code = (
        "import sys; from edgex.delegates.registry import get_delegate;"
        "from edgex.runtime.engines.registry import get_engine;"
        "d = get_delegate('xnnpack'); d.availability(); d.precision_refusal('bf16');"
        "get_engine('executorch').availability();"
        "print([m for m in ('torch', 'executorch', 'numpy.testing') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_lowering_prints_nothing_and_leaves_the_loggers_as_they_were(net, capfd, recwarn):
    root, reasons = logging.getLogger(), logging.getLogger("executorch.backends.xnnpack.partition.config")
    before = (list(root.handlers), root.level, list(reasons.handlers), reasons.level, reasons.propagate)
    delegate.lower(net, OPTIONS)
    assert (list(root.handlers), root.level, list(reasons.handlers), reasons.level, reasons.propagate) == before
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""
    assert [str(w.message) for w in recwarn if issubclass(w.category, (FutureWarning, UserWarning))] == []


def test_what_the_adapter_uses_of_the_exporter_is_still_there(net):
    """Private parts of executorch, by name: an upgrade that moves one fails here first."""
    from executorch.backends.xnnpack.partition.config.xnnpack_config import logger
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.backend.utils import WhyNoPartition
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    from edgex.delegates.xnnpack.partitioner import REASON_LOGGER

    assert logger.name.startswith(REASON_LOGGER)
    assert {"node", "reason"} <= vars(WhyNoPartition(logger)).keys()
    assert "add.Tensor" in vars(XnnpackPartitioner())["target_partitioner_configs"]
    assert InitializedMutableBufferPass(["a"]).patterns == ["a"]
    assert EdgeCompileConfig(_check_ir_validity=False)._check_ir_validity is False


def test_every_logged_reason_of_the_installed_xnnpack_has_a_rule_or_is_about_quantization():
    """Reads the texts out of the installed package, so that an upgrade with new ones is noticed."""
    import executorch.backends.xnnpack.partition.config as config

    from edgex.delegates.xnnpack.reasons import RULES

    quantized = re.compile("quant|precision type|source partition|getitem|choose_qparam|scale/zp|single output|groups")
    texts = []
    for path in Path(next(iter(config.__path__))).glob("*.py"):
        for match in re.finditer(r"why\(\s*(?:node|bn),\s*(?:reason=)?\(?\s*((?:f?\"[^\"]*\"\s*)+)", path.read_text()):
            texts.append("".join(re.findall(r"\"([^\"]*)\"", match[1])))
    assert len(texts) > 25
    unknown = [
        text
        for text in texts
        if text != "invalid dtype" and not quantized.search(text) and not any(re.search(r.pattern, text) for r in RULES)
    ]
    assert unknown == []


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_capture_of_a_nested_signature_lowers(precision):
    """The signature is flat by now: containers and torch's named results are not in the program."""
    module = Call(lambda self, x: {"max": x["a"].max(1), "sum": x["a"] + x["b"]})
    dtype = torch.float16 if precision == "fp16" else torch.float32
    inputs = {"a": torch.randn(2, 3, dtype=dtype), "b": torch.randn(2, 3, dtype=dtype)}
    program = capture(module, (copy.copy(inputs),), source_root=HERE).program
    assert len(delegate.lower(program, OPTIONS).methods[0].outputs) == 3


class SoftmaxOfAnImage(nn.Module):
    """Talking heads: convolutions around a softmax over the last dimension, where the channels lie innermost."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inside = self.before(x).softmax(-1)
        return inside, self.after(inside)


def test_softmax_behind_a_convolution_is_over_the_last_dimension(tmp_path: Path) -> None:
    """ExecuTorch 1.5 leaves the image channels-last there; when this passes without `layout_pass`, that can go."""
    torch.manual_seed(0)
    artifact = edgex.export_model(
        SoftmaxOfAnImage().eval(), (torch.randn(1, 4, 7, 9),), target="xnnpack", output=tmp_path, name="heads"
    )
    plan = artifact.manifest.delegation
    assert plan["delegated_ops"] == plan["total_ops"]
