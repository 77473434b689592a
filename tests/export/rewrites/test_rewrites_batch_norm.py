from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Untouched, capture_program, check_rewrite, operators, program_of, run_program
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from edgex.export.rewrites import apply_rewrites
from edgex.export.rewrites.norms.batch_norm import fold_batch_norm
from edgex.export.rewrites.norms.batch_statistics import write_vector_norms

CONVS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def fold(module, *args, **kwargs):
    before = capture_program(module, *args, **kwargs)
    untouched = Untouched(before, *args)
    after, rewrite = fold_batch_norm(before)
    check_rewrite(before, after, *args, untouched=untouched)
    return before, after, rewrite


def left_alone(module, *args):
    before = capture_program(module, *args)
    after, rewrite = fold_batch_norm(before)
    return after is before and rewrite is None


@settings(max_examples=examples(25), deadline=None)
@given(
    dims=st.sampled_from([1, 2, 3]),
    transposed=st.booleans(),
    groups=st.integers(1, 3),
    in_factor=st.integers(1, 3),
    out_factor=st.integers(1, 3),
    kernel=st.integers(1, 3),
    bias=st.booleans(),
    affine=st.booleans(),
    eps=st.sampled_from([1e-5, 1e-3, 0.5]),
    seed=st.integers(0, 1000),
)
def test_any_convolution(dims, transposed, groups, in_factor, out_factor, kernel, bias, affine, eps, seed):
    conv = (TRANSPOSED if transposed else CONVS)[dims](
        groups * in_factor, groups * out_factor, kernel, groups=groups, bias=bias
    )
    module = nn.Sequential(conv, NORMS[dims](groups * out_factor, eps=eps, affine=affine))
    x = torch.randn(2, groups * in_factor, *[5] * dims, generator=torch.Generator().manual_seed(seed))
    _, after, rewrite = fold(module, x)
    assert rewrite.count == 1
    assert len(operators(after)) == 1
    assert set(after.exported.state_dict) == {"0.weight_folded", "0.bias_folded"}
    assert not after.exported.constants


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_with_two_dimensional_output(bias, affine):
    module = nn.Sequential(nn.Linear(6, 5, bias=bias), nn.BatchNorm1d(5, affine=affine), nn.Tanh())
    _, after, rewrite = fold(module, torch.randn(4, 6))
    assert operators(after) == ["aten.linear.default", "aten.tanh.default"]
    assert rewrite.name == "fold_batch_norm"
    assert rewrite.sources


def test_numbers_hold_over_a_deep_network():
    layers = []
    for _ in range(8):
        layers += [nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
    _, after, rewrite = fold(nn.Sequential(*layers), torch.randn(2, 8, 8, 8))
    assert rewrite.count == 8
    assert operators(after) == ["aten.conv2d.default", "aten.relu_.default"] * 8


def test_string_padding_and_channels_last_weights():
    module = nn.Sequential(nn.Conv2d(4, 6, 3, padding="same"), nn.BatchNorm2d(6)).to(memory_format=torch.channels_last)
    _, after, _ = fold(module, torch.randn(2, 4, 5, 5))
    assert operators(after) == ["aten.conv2d.padding"]


@pytest.mark.parametrize("layer", [nn.Conv2d(4, 6, 3), nn.ConvTranspose2d(4, 6, 3, groups=2)])
def test_core_operators_with_native_batch_norm(layer):
    x = torch.randn(2, 4, 5, 5)
    exported = capture_program(nn.Sequential(layer, nn.BatchNorm2d(6), nn.ReLU()), x).exported.run_decompositions()
    before = program_of(exported, (x,))
    assert "aten._native_batch_norm_legit_no_training.default" in operators(before)
    after, rewrite = fold_batch_norm(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1
    assert operators(after) == ["aten.convolution.default", "aten.relu.default"]


@pytest.mark.parametrize("square", [True, False])
def test_core_operators_with_addmm(square):
    x, features = torch.randn(4, 6), 6 if square else 5
    module = nn.Sequential(nn.Linear(6, features), nn.BatchNorm1d(features))
    before = program_of(capture_program(module, x).exported.run_decompositions(), (x,))
    assert "aten.addmm.default" in operators(before)
    after, rewrite = fold_batch_norm(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1
    assert "aten.linear.default" in operators(after)
    assert not any("batch_norm" in name for name in operators(after))


@pytest.mark.parametrize("beta", [1, 2])
def test_addmm_of_the_users_own(beta):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b, self.norm = nn.Parameter(torch.ones(6, 5)), nn.Parameter(torch.ones(5)), nn.BatchNorm1d(5)

        def forward(self, x):
            return self.norm(torch.addmm(self.b, x, self.w, beta=beta))

    if beta == 1:
        _, after, _ = fold(Own(), torch.randn(4, 6))
        assert operators(after) == ["aten.linear.default"]
    else:
        assert left_alone(Own(), torch.randn(4, 6))


class Shared(nn.Module):
    """One convolution called twice with a norm of its own each time, and once without."""

    def __init__(self, plain):
        super().__init__()
        self.conv, self.one, self.two, self.plain = nn.Conv1d(4, 4, 3, padding=1), *map(nn.BatchNorm1d, (4, 4)), plain

    def forward(self, x):
        y = self.two(self.conv(self.one(self.conv(x))))
        return y + self.conv(x) if self.plain else y


@pytest.mark.parametrize("plain", [True, False])
def test_shared_weights_get_constants_of_their_own(plain):
    before, after, rewrite = fold(Shared(plain), torch.randn(2, 4, 8))
    assert rewrite.count == 2
    names = set(after.exported.state_dict)
    assert {"conv.weight_folded", "conv.weight_folded_1", "conv.bias_folded", "conv.bias_folded_1"} <= names
    assert ("conv.weight" in names) == plain
    if plain:
        assert after.exported.state_dict["conv.weight"] is before.exported.state_dict["conv.weight"]


def test_weight_norm_then_batch_norm():
    x = torch.randn(2, 4, 8)
    before = capture_program(nn.Sequential(weight_norm(nn.Conv1d(4, 6, 3)), nn.BatchNorm1d(6)), x)
    assert fold_batch_norm(before)[0] is before
    after, rewrites = apply_rewrites(before)
    check_rewrite(before, after, x)
    assert [rewrite.name for rewrite in rewrites] == ["fold_constants", "fold_batch_norm"]
    assert operators(after) == ["aten.conv1d.default"]
    assert len(after.exported.state_dict) == 2


def test_norm_as_the_models_output():
    """The output is another node now, and the signature says so."""
    before, after, _ = fold(nn.Sequential(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)), torch.randn(2, 4, 8))
    assert before.exported.graph_signature.user_outputs != after.exported.graph_signature.user_outputs
    assert after.exported.graph_signature.user_outputs == ("conv1d",)


def test_dynamic_batch():
    x = torch.randn(3, 4, 8)
    module = nn.Sequential(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6))
    before = capture_program(module, x, dynamic_shapes=({0: torch.export.Dim("n", min=1, max=8)},))
    after, _ = fold_batch_norm(before)
    assert after.exported.range_constraints == before.exported.range_constraints
    for n in (1, 3, 8):
        x = torch.randn(n, 4, 8)
        torch.testing.assert_close(run_program(after, x), run_program(before, x))
    with pytest.raises(AssertionError, match="<= 8"):
        run_program(after, torch.randn(9, 4, 8))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.conv(x)
        return self.norm(y) + y


class ComputedWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x, w):
        return self.norm(nn.functional.conv1d(x, w))


class Joined(nn.Module):
    """Mixed convolutions: each has its kernel, and one norm is behind all of them."""

    def __init__(self, *parts, again=False, dim=1, channels=6):
        super().__init__()
        self.parts, self.again, self.dim, self.norm = nn.ModuleList(parts), again, dim, nn.BatchNorm1d(channels)

    def forward(self, x):
        made = [part(x) for part in self.parts]
        return self.norm(torch.cat([*made, made[0]] if self.again else made, self.dim))


class Between(nn.Module):
    def __init__(self, layer, view, norm=None):
        super().__init__()
        self.layer, self.view, self.norm = layer, view, norm or nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.view(self.layer(x)))


class LinearNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 4, bias=False), nn.BatchNorm1d(4)

    def forward(self, x):
        x = self.layer(x)
        return self.norm(x.flatten(0, 1)).reshape_as(x)


VIEWS = {
    "and back": (LinearNorm(), (2, 3, 8)),
    "rows": (Between(nn.Linear(8, 4), lambda x: x.flatten(0, 1)), (2, 3, 8)),
    "transposed": (Between(nn.Linear(8, 4), lambda x: x.mT), (2, 3, 8)),
    "permuted images": (Between(nn.Linear(8, 4), lambda x: x.permute(0, 3, 1, 2), nn.BatchNorm2d(4)), (2, 3, 5, 8)),
    "images in rows": (Between(nn.Conv2d(3, 4, 3, bias=False), lambda x: x.flatten(2)), (2, 3, 6, 5)),
    "both": (Between(nn.Linear(8, 4), lambda x: x.reshape(6, 2, 4).transpose(1, 2)), (3, 4, 8)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_between(name):
    """LeViT's linear layers are followed by norms of their rows, PointNet's by norms of their transposed ones."""
    module, shape = VIEWS[name]
    _, after, rewrite = fold(module, torch.randn(shape))
    assert rewrite.count == 1
    assert not any("norm" in name for name in operators(after))


@pytest.mark.parametrize("affine", [True, False])
def test_joined_layers_have_their_channels_part_each(affine):
    module = Joined(nn.Conv1d(4, 3, 1), nn.Conv1d(4, 2, 3, padding=1, bias=False), nn.ConvTranspose1d(4, 1, 1))
    module.norm = nn.BatchNorm1d(6, affine=affine)
    _, after, rewrite = fold(module, torch.randn(2, 4, 8))
    assert rewrite.count == 1
    assert not any("norm" in name for name in operators(after))


def training_norm(**kwargs):
    class Training(nn.BatchNorm1d):
        def forward(self, x):
            return nn.functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, training=True
            )

    return Training(4, **kwargs)


@pytest.mark.parametrize(
    ("module", "shapes"),
    [
        pytest.param(Branching(), [(2, 4, 8)], id="output used twice"),
        pytest.param(Joined(nn.Conv1d(4, 2, 1), nn.ReLU()), [(2, 4, 8)], id="one joined is no layer"),
        pytest.param(Joined(nn.Conv1d(4, 3, 1), again=True), [(2, 4, 8)], id="joined with itself"),
        pytest.param(
            Joined(nn.Conv1d(4, 6, 1), nn.Conv1d(4, 6, 1), dim=2), [(2, 4, 8)], id="joined along another dimension"
        ),
        pytest.param(ComputedWeight(), [(2, 4, 8), (4, 4, 3)], id="weight is an input"),
        pytest.param(
            nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)), [(2, 4, 8)], id="channels are not the features"
        ),
        pytest.param(Between(nn.Linear(8, 4), lambda x: x.reshape(2, 4, 4)), [(2, 4, 8)], id="not the features"),
        pytest.param(Between(nn.Linear(8, 8), lambda x: x.reshape(-1, 4)), [(2, 8)], id="features taken apart"),
        pytest.param(Between(nn.Linear(8, 4), lambda x: x.relu().mT), [(2, 4, 8)], id="an operator between"),
        pytest.param(nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4)), [(4, 4)], id="unbatched convolution"),
        pytest.param(
            nn.Sequential(nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4, track_running_stats=False)),
            [(2, 4, 8)],
            id="statistics of the batch",
        ),
        pytest.param(nn.Sequential(nn.Conv1d(4, 4, 3), training_norm()), [(2, 4, 8)], id="training norm"),
        pytest.param(nn.Sequential(nn.ReLU(), nn.BatchNorm1d(4)), [(2, 4, 8)], id="no layer before"),
        pytest.param(nn.Sequential(nn.Conv1d(4, 4, 3), nn.GroupNorm(2, 4)), [(2, 4, 8)], id="another norm"),
    ],
)
def test_left_alone(module, shapes):
    assert left_alone(module, *[torch.randn(*shape) for shape in shapes])


def test_statistics_that_the_program_updates_are_left_alone():
    """The same buffers serve a norm that updates them and one that reads them."""

    class Updating(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4)

        def forward(self, x):
            norm = self.norm
            y = nn.functional.batch_norm(x, norm.running_mean, norm.running_var, training=True)
            return norm(self.conv(x)) + y.mean()

    assert left_alone(Updating(), torch.randn(2, 4, 8))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_keep_theirs(dtype):
    module = nn.Sequential(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)).to(dtype)
    x = torch.randn(2, 4, 8, dtype=dtype)
    before = capture_program(module, x)
    after, _ = fold_batch_norm(before)
    assert {tensor.dtype for tensor in after.exported.state_dict.values()} == {dtype}
    tolerance = 1e-12 if dtype == torch.float64 else 5e-2
    torch.testing.assert_close(run_program(after, x), run_program(before, x), atol=tolerance, rtol=tolerance)


def test_fake_weights_fold_too():
    """A plan is made without weights."""
    with torch._subclasses.FakeTensorMode():
        module = nn.Sequential(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)).eval()
        x = torch.randn(2, 4, 8)
    after, rewrite = fold_batch_norm(program_of(torch.export.export(module, (x,)), (x,)))
    assert rewrite.count == 1
    assert operators(after) == ["aten.conv1d.default"]


def test_modules_whose_names_are_no_variables():
    module = nn.Sequential(OrderedDict({"block1-0": nn.Conv2d(3, 4, 3), "norm 1": nn.BatchNorm2d(4)}))
    x = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    before = capture_program(module, x)
    after, rewrite = fold_batch_norm(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1
    after.exported.run_decompositions({})  # generates code in which each weight is a variable


@pytest.mark.parametrize("affine", [True, False])
def test_a_norm_of_vectors_is_a_product_and_a_sum(affine):
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)) * 3 + 2
    before = capture_program(nn.Sequential(nn.ReLU(), nn.BatchNorm1d(6, affine=affine)), x)
    after, rewrite = write_vector_norms(before)
    check_rewrite(before, after, x)
    assert rewrite.name == "write_vector_norms"
    assert operators(after) == ["aten.relu.default", "aten.mul.Tensor", "aten.add.Tensor"]


def test_a_norm_of_images_and_one_by_the_batch_stay():
    images = capture_program(nn.BatchNorm2d(3), torch.randn(2, 3, 4, 4))
    assert write_vector_norms(images) == (images, None)
    by_batch = capture_program(nn.BatchNorm1d(6, track_running_stats=False), torch.randn(4, 6))
    assert write_vector_norms(by_batch) == (by_batch, None)
