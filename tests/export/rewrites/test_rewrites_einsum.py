"""Einstein sums as products of matrices, for ONNX Runtime."""

import pytest
import torch

import edgex
from benchmarks.operators.proof import prove
from edgex.export.rewrites.products.einsum import permute_einsum, split_einsum
from tests.support.rewriting import Calls, capture_program, check_rewrite, operators

SUMS = {
    "bhid,bhjd->bhij": ((2, 3, 4, 5), (2, 3, 6, 5)),
    "bhij,bhjd->bhid": ((2, 3, 4, 5), (2, 3, 5, 6)),
    "bhid,bhjd->bihj": ((2, 3, 4, 5), (2, 3, 6, 5)),
    "bihd,bjhd->bhij": ((2, 4, 3, 5), (2, 6, 3, 5)),
    "bhij,bjhd->bihd": ((2, 3, 4, 6), (2, 6, 3, 5)),
    "ij,jk->ik": ((3, 4), (4, 5)),
    "ij,kj->ki": ((3, 4), (5, 4)),
    "bnd,dhe->bhne": ((2, 3, 4), (4, 5, 6)),
    "bhid,bhd->bhi": ((2, 3, 4, 5), (2, 3, 5)),
    "bchw,bdhw->bcd": ((2, 3, 4, 5), (2, 6, 4, 5)),
    "bcd,bcd->bc": ((2, 3, 4), (2, 3, 4)),
    "nkctv,kvw->nctw": ((2, 3, 4, 5, 6), (3, 6, 7)),
    "i,i->": ((4,), (4,)),
    "i,j->ij": ((4,), (3,)),
    "ii,ij->j": ((3, 3), (3, 4)),
    "bi,bj,bk->ijk": ((2, 3), (2, 4), (2, 5)),
    "...ij,...jk->...ik": ((2, 3, 4, 5), (3, 5, 2)),
}


def _factors(equation):
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(*shape, generator=generator) for shape in SUMS[equation])


@pytest.mark.parametrize("equation", SUMS)
def test_sums_become_products(equation):
    factors = _factors(equation)
    before = capture_program(Calls(lambda *factors: torch.einsum(equation, *factors)), *factors)
    after, rewrite = split_einsum(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *factors, min_sqnr_db=130)
    assert "aten.einsum.default" not in operators(after)


def test_what_is_taken_apart_is_reshaped_not_viewed():
    """A rewrite, or a quantization, may lay a factor otherwise later, of which there is no view."""
    factors = torch.randn(1, 2, 4, 5, 6), torch.randn(4, 3, 6)
    program = capture_program(Calls(lambda a, b: torch.einsum("byhwc,hkc->byhwk", a, b)), *factors)
    after, _ = split_einsum(program)
    assert "aten.reshape.default" in operators(after), operators(after)
    assert "aten._unsafe_view.default" not in operators(after)


def test_a_factor_is_turned_next_to_its_product():
    """Behind a reshape, so that ONNX Runtime multiplies by the turned matrix and copies none."""
    factors = _factors("bhid,bhjd->bhij")
    program = capture_program(Calls(lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b)), *factors)
    after, _ = split_einsum(program)
    *_, turn, product, _ = operators(after)
    assert (turn, product) == ("aten.permute.default", "aten.bmm.default")
    assert "aten.clone.default" not in operators(after)


def test_sizes_of_run_time_stay():
    factors = _factors("bhid,bhjd->bhij")
    batch = torch.export.Dim("batch", min=2, max=8)
    program = capture_program(
        Calls(lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b)), *factors, dynamic_shapes=(({0: batch}, {0: batch}),)
    )
    assert split_einsum(program) == (program, None)


def test_attention_by_sums_on_onnx_cpu():
    def attend(q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1)
        return torch.einsum("bhij,bhjd->bihd", scores, v).flatten(2)

    values = torch.randn(3, 1, 2, 16, 8, generator=torch.Generator().manual_seed(0)).unbind()
    proved = prove(Calls(attend), values, "onnx-cpu")
    assert proved.exit_code == 0, proved.reason
    assert "split_einsum" in proved.rewrites


@pytest.mark.parametrize("equation", ["byixjhd->bhyxijd", "ab->ba", "ba", " b c a -> a b c "])
def test_sums_of_nothing_become_permutations(equation):
    x = torch.randn([2, 3, 4, 5, 2, 3, 2][: sum(map(str.isalpha, equation.split("->")[0]))])
    before = capture_program(Calls(lambda x: torch.einsum(equation, x)), x)
    after, rewrite = permute_einsum(before)
    assert operators(after) == ["aten.permute.default"] and rewrite.count == 1
    check_rewrite(before, after, x)


@pytest.mark.parametrize("equation", ["ab->ab", "ab->a", "aa->a", "aa->", "...ab->...ba", "ab,ab->ab"])
def test_other_sums_are_no_permutations(equation):
    x = torch.randn(3, 3)
    before = capture_program(Calls(lambda x: torch.einsum(equation, *[x] * (1 + equation.count(",")))), x)
    assert permute_einsum(before) == (before, None)


class Windows(torch.nn.Module):
    """Attention over windows of an image, whose dimensions an einsum puts in order: seven of them."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        y = torch.einsum("byixjhd->bhyxijd", self.first(x).view(1, 2, 4, 2, 4, 2, 8)).flatten(2, 3).flatten(3, 4)
        y = (y @ y.mT).softmax(-1) @ y
        return self.last(y.permute(0, 2, 3, 1, 4).reshape(1, 64, 16))


def test_what_is_put_in_order_so_is_quantized_throughout(tmp_path):
    torch.manual_seed(0)
    samples = [(torch.randn(1, 64, 16),) for _ in range(4)]
    report = edgex.export_model(
        Windows().eval(),
        samples[0],
        target="xnnpack",
        quantize="int8",
        calibration=samples,
        output=tmp_path / "net.edgex",
    )
    assert report.manifest.status == "verified"
