"""Linear algebra on small matrices: eager's numbers whatever rows have to change places, and what is left alone."""

from __future__ import annotations

import math

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators, run_program

from benchmarks.operators.proof import prove
from edgex.export.rewrites.matrices.small import write_small_matrices

pytestmark = pytest.mark.long_file
linalg = torch.linalg
# Operators that differ in a name, in an argument or in a result that nothing reads are tried at a few sizes only.
FEW = (1, 2, 5)


def rand(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def matrices(size, condition=10.0, *, batch=(3, 2), positive=False):
    """Matrices of a condition number, with a determinant near 1; `positive` ones are symmetric."""
    left, right = (linalg.qr(rand(*batch, size, size, seed=seed + size)).Q for seed in (0, 100))
    end = math.log10(condition) / 2 if size > 1 else 0.0
    values = 1.5 * torch.logspace(end, -end, size, dtype=torch.float64)
    if not positive:
        return ((left * values) @ right.mT).float()
    made = (left * values) @ left.mT
    return ((made + made.mT) / 2).float()


def triangles(size, condition=10.0):
    """Lower triangles with something else above them."""
    lower = linalg.cholesky(matrices(size, condition, positive=True))
    return lower + torch.triu(torch.full_like(lower, 7.0), 1)


def sides(size, count=3, batch=(3, 2)):
    return rand(*batch, size, count, seed=7).float()


def written(function, *args, least_db, count=1, **options):
    before = capture_program(Calls(function), *args, **options)
    after, rewrite = write_small_matrices(before)
    assert rewrite is not None and (rewrite.name, rewrite.count) == ("write_small_matrices", count)
    assert not any(name in found for found in operators(after) for name in ("linalg", "inverse", "cholesky", "det"))
    assert write_small_matrices(after) == (after, None)
    check_rewrite(before, after, *args, min_sqnr_db=least_db)
    return before, after


GENERAL = {
    "inv": lambda a, b: linalg.inv(a),
    "inverse": lambda a, b: torch.inverse(a),
    "inv_ex": lambda a, b: linalg.inv_ex(a).inverse,
    "matrix_power": lambda a, b: linalg.matrix_power(a, -1),
    "solve": linalg.solve,
    "solve_ex": lambda a, b: linalg.solve_ex(a, b).result,
    "solve of vectors": lambda a, b: linalg.solve(a, b[..., 0]),
    "solve from the right": lambda a, b: linalg.solve(a, b.mT, left=False),
    "solve without the factors": lambda a, b: torch.ops.aten._linalg_solve_ex(a, b)[0],
    "linalg.det": lambda a, b: linalg.det(a),
    "det": lambda a, b: torch.det(a),
    "det without the factors": lambda a, b: torch.ops.aten._linalg_det(a)[0],
    "linalg.slogdet": lambda a, b: linalg.slogdet(a),
    "slogdet": lambda a, b: torch.slogdet(a).logabsdet,
    "slogdet without the factors": lambda a, b: torch.ops.aten._linalg_slogdet(a)[1],
}
POSITIVE = {
    "logdet": lambda a: torch.logdet(a),
    "linalg.cholesky": linalg.cholesky,
    "linalg.cholesky, upper": lambda a: linalg.cholesky(a, upper=True),
    "cholesky": lambda a: torch.cholesky(a),
    "cholesky, upper": lambda a: torch.cholesky(a, upper=True),
    "cholesky_ex": lambda a: linalg.cholesky_ex(a).L,
}
TRIANGULAR = {
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, a),
    "cholesky_solve, upper": lambda a, b: torch.cholesky_solve(b, a.mT, upper=True),
    "cholesky_inverse": lambda a, b: torch.cholesky_inverse(a),
    "cholesky_inverse, upper": lambda a, b: torch.cholesky_inverse(a.mT, upper=True),
    "lower": lambda a, b: linalg.solve_triangular(a, b, upper=False),
    "upper": lambda a, b: linalg.solve_triangular(a.mT, b, upper=True),
    "lower, from the right": lambda a, b: linalg.solve_triangular(a, b.mT, upper=False, left=False),
    "upper, from the right": lambda a, b: linalg.solve_triangular(a.mT, b.mT, upper=True, left=False),
    "ones": lambda a, b: linalg.solve_triangular(a, b, upper=False, unitriangular=True),
    "ones, from the right": lambda a, b: linalg.solve_triangular(
        a.mT, b.mT, upper=True, left=False, unitriangular=True
    ),
    "triangular_solve": lambda a, b: torch.triangular_solve(b, a, upper=False).solution,
    "triangular_solve, transposed": lambda a, b: torch.triangular_solve(b, a, upper=False, transpose=True)[0],
    "triangular_solve, ones": lambda a, b: torch.triangular_solve(b, a.mT, upper=True, unitriangular=True)[0],
}


def cases(functions, *tried_throughout):
    return [(name, size) for name in functions for size in ((*range(1, 9), 16) if name in tried_throughout else FEW)]


def check_conditions(function, well, ill, *, well_db, ill_db):
    """A program of its own is for the well conditioned ones: the others run in the same."""
    before, after = written(function, *well, least_db=well_db)
    check_rewrite(before, after, *ill, min_sqnr_db=ill_db)


@pytest.mark.parametrize(("name", "size"), cases(GENERAL, "inv", "solve", "linalg.det", "linalg.slogdet"))
def test_general_matrices(name, size):
    b = sides(size)
    check_conditions(GENERAL[name], (matrices(size), b), (matrices(size, 1e3), b), well_db=115, ill_db=85)


@pytest.mark.parametrize(("name", "size"), cases(POSITIVE, "linalg.cholesky", "logdet"))
def test_positive_definite_matrices(name, size):
    well, ill = (matrices(size, condition, positive=True) for condition in (10.0, 1e3))
    check_conditions(POSITIVE[name], (well,), (ill,), well_db=120, ill_db=95)


@pytest.mark.parametrize(("name", "size"), cases(TRIANGULAR, "cholesky_solve", "lower", "upper, from the right"))
def test_triangles_whatever_is_on_the_other_side(name, size):
    b = sides(size)
    check_conditions(TRIANGULAR[name], (triangles(size), b), (triangles(size, 1e3), b), well_db=115, ill_db=100)


@pytest.mark.parametrize("name", [name for name in TRIANGULAR if "inverse" not in name])
@pytest.mark.parametrize("size", [9, 33])
def test_larger_triangles_are_solved_in_halves(name, size):
    b = sides(size, batch=(2,))
    written(TRIANGULAR[name], matrices(size, batch=(2,)).tril() + torch.eye(size) * 3, b, least_db=100)


@pytest.mark.parametrize("name", [name for name in POSITIVE if "cholesky" in name])
@pytest.mark.parametrize("size", [9, 41, pytest.param(64, marks=pytest.mark.slow)])
def test_larger_matrices_are_factored_in_halves(name, size):
    written(POSITIVE[name], matrices(size, positive=True), least_db=110)


class Process(torch.nn.Module):
    """A variance that a known factor tells, its triangle made when it runs."""

    def __init__(self, size, **options):
        super().__init__()
        self.factor = torch.nn.Parameter(matrices(size, batch=()))
        self.options = options

    def forward(self, b):
        eye = torch.eye(len(self.factor))
        triangle = self.factor.triu(1) if self.options["upper"] else self.factor.tril(-1)
        return linalg.solve_triangular(triangle + eye * 3, b, **self.options)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("size", [9, 32, 100])
def test_triangles_of_weights_are_solved_by_blocks(size, left, upper):
    torch.manual_seed(0)
    b = sides(size, batch=())
    proved = prove(Process(size, upper=upper, left=left), (b if left else b.mT.contiguous(),), "xnnpack")
    assert proved.exit_code == 0, proved.reason
    assert "write_small_matrices" in proved.rewrites


@pytest.mark.parametrize("target", ["onnx-cpu", "onednn"])
def test_a_triangle_for_each_place_is_solved_by_blocks(target):
    class Distances(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("factor", matrices(50, batch=(40,)).tril() + torch.eye(50) * 3)

        def forward(self, x):
            return linalg.solve_triangular(self.factor, x, upper=False).square().sum(1).sqrt()

    proved = prove(Distances(), (torch.randn(40, 50, 2, generator=torch.Generator().manual_seed(0)),), target)
    assert proved.exit_code == 0, proved.reason


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_reads_the_triangle_that_eager_reads(upper):
    given = matrices(4, positive=True)
    given = given + (torch.tril if upper else torch.triu)(torch.full_like(given, 9.0), -1 if upper else 1)
    written(lambda a: linalg.cholesky(a, upper=upper), given, least_db=120)


# Rows of which none can stay where it is, rows that begin with equal numbers, and scales far apart.
ORDERS = {
    "zeros on the diagonal": torch.tensor([[0.0, 2, 0, 1], [3, 0, 1, 0], [0, 1, 0, 4], [1, 0, 5, 0]]),
    "exchanged rows": torch.eye(5)[[2, 0, 4, 1, 3]],
    "signs": torch.tensor([[1.0, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]),
    "a pivot near zero": torch.tensor([[1e-9, 1.0, 0.5], [1.0, 1.0, 2.0], [0.3, -1.0, 1.0]]),
    "a camera": torch.tensor([[1266.0, 0, 816, 0], [0, 1260, 491, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
    "two rows, exchanged": torch.tensor([[0.0, 2], [3, 0]]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_rows_change_places(name):
    a = ORDERS[name]
    b = sides(len(a), batch=())
    for function in (linalg.inv, linalg.det, torch.det, linalg.slogdet, lambda a: linalg.solve(a, b)):
        before = capture_program(Calls(function), a)
        after, _ = write_small_matrices(before)
        for one, other in zip(run_program(before, a), run_program(after, a), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)


def test_determinants_of_singular_matrices_and_of_others_below_zero():
    columns = torch.zeros(3, 3)
    columns[0, 1], columns[1, 2] = 2.0, 3.0
    given = torch.stack([columns, torch.zeros(3, 3), torch.diag(torch.tensor([2.0, -3.0, 1.0])), torch.eye(3)])
    for function in (linalg.det, linalg.slogdet, torch.logdet):
        before = capture_program(Calls(function), given)
        after, rewrite = write_small_matrices(before)
        assert rewrite is not None
        for one, other in zip(run_program(before, given), run_program(after, given), strict=True):
            torch.testing.assert_close(other, one, equal_nan=True)


BROADCAST = {
    "one matrix": (linalg.solve, matrices(4, batch=()), sides(4)),
    "one right side": (linalg.solve, matrices(4), sides(4, batch=())),
    "both": (linalg.solve, matrices(3, batch=(3, 1)), sides(3, batch=(1, 2))),
    "two rows": (linalg.solve, matrices(2, batch=(3, 1)), sides(2, batch=(2,))),
    "one vector": (linalg.solve, matrices(4, batch=()), sides(4, batch=())[:, 0]),
    "a square right side": (linalg.solve, matrices(4, batch=(4,)), sides(4, 4, batch=())),
    "a triangle": (lambda a, b: linalg.solve_triangular(a, b, upper=True), triangles(4)[0, 0], sides(4)),
    "a factor": (lambda a, b: torch.cholesky_solve(b, a), triangles(4), sides(4, batch=(2,))),
    "ones on the diagonal": (
        lambda a, b: linalg.solve_triangular(a, b, upper=False, unitriangular=True),
        triangles(4),
        sides(4, batch=(2,)),
    ),
}


@pytest.mark.parametrize("name", BROADCAST)
def test_dimensions_before_rows_and_columns_are_repeated(name):
    function, *args = BROADCAST[name]
    written(function, *args, least_db=110)


def test_powers_below_minus_one():
    before = capture_program(Calls(lambda a: linalg.matrix_power(a, -3)), matrices(4))
    after, rewrite = write_small_matrices(before)
    assert rewrite is not None
    check_rewrite(before, after, matrices(4), min_sqnr_db=110)


@pytest.mark.parametrize("size", [2, 4])
def test_any_number_of_matrices_and_of_right_sides(size):
    batch, count = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("count", min=2, max=64)

    def function(a, b):
        return linalg.inv(a), linalg.solve(a, b), linalg.solve(a, b[..., 0]), linalg.det(a)

    shapes = ({0: batch}, {0: batch, 2: count})
    a, b = matrices(size, batch=(5,)), sides(size, batch=(5,))
    _, after = written(function, a, b, least_db=110, count=4, dynamic_shapes=(shapes,))
    others = matrices(size, batch=(9,)), sides(size, 6, batch=(9,))
    for one, other in zip(function(*others), run_program(after, *others), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


LEFT_ALONE = {
    "seventeen rows": (linalg.inv, matrices(17)),
    "a large triangle": (
        lambda a, b: linalg.solve_triangular(a, b, upper=False),
        matrices(1025, batch=()),
        sides(1025, batch=()),
    ),
    "float64": (linalg.inv, matrices(3).double()),
    "error codes": (lambda a: linalg.inv_ex(a), matrices(3)),
    "error codes of Cholesky": (lambda a: linalg.cholesky_ex(a), matrices(3, positive=True)),
    "LU factors": (lambda a, b: torch.ops.aten._linalg_solve_ex(a, b), matrices(3), sides(3)),
    "the copied matrix": (lambda a, b: tuple(torch.triangular_solve(b, a)), matrices(3), sides(3)),
    "products": (lambda a: linalg.matrix_power(a, 3), matrices(3)),
    "pinv": (linalg.pinv, matrices(3)),
    "svdvals": (linalg.svdvals, matrices(3)),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name):
    function, *args = LEFT_ALONE[name]
    before = capture_program(Calls(function), *args)
    assert write_small_matrices(before) == (before, None)


def test_rows_that_only_a_run_knows_are_left_alone():
    size = torch.export.Dim("size", min=2, max=8)
    before = capture_program(Calls(linalg.inv), matrices(4), dynamic_shapes=(({2: size, 3: size},),))
    assert write_small_matrices(before) == (before, None)


def test_the_operators_stay_few():
    sizes = {2: 20, 3: 70, 4: 100, 6: 160, 8: 220}
    for size, most in sizes.items():
        assert len(operators(written(linalg.inv, matrices(size), least_db=110)[1])) <= most


class Filter(torch.nn.Module):
    """A camera's inverse, a Kalman gain, a distance, a homography and a normal distribution's logarithm."""

    def forward(self, camera, covariance, b, corners):
        lower = linalg.cholesky(covariance)
        gain = torch.cholesky_solve(b, lower)
        whitened = linalg.solve_triangular(lower, b, upper=False)
        density = linalg.slogdet(covariance).logabsdet + (whitened**2).sum((-2, -1))
        flat = linalg.inv(covariance[:, :2, :2])
        return linalg.inv(camera), gain, linalg.solve(camera, b), linalg.solve(corners, b[0, :, 0]), density, flat

    example = (
        matrices(4, batch=(6,)),
        matrices(4, positive=True, batch=(6,)),
        sides(4, batch=(6,)),
        matrices(4, batch=()),
    )


class Determinants(torch.nn.Module):
    def forward(self, a):
        return linalg.det(a), torch.logdet(a @ a.mT), linalg.matrix_power(a, -2)


@pytest.mark.parametrize("target", ["xnnpack", "onednn", "onnx-cpu"])
@pytest.mark.parametrize(("module", "args"), [(Filter(), Filter.example), (Determinants(), (matrices(3),))])
def test_targets_give_what_eager_gives(module, args, target):
    proved = prove(module, args, target)
    assert proved.exit_code == 0, proved.reason
    assert "write_small_matrices" in proved.rewrites
    assert proved.verification["min_sqnr_db"] > 100


class Solved(torch.nn.Module):
    def forward(self, a, b):
        return linalg.solve(a, b), linalg.det(a)


@pytest.mark.parametrize("target", ["xnnpack", "onednn", "onnx-cpu"])
def test_targets_take_any_number_of_matrices(target):
    batch = torch.export.Dim("batch", min=2, max=64)
    shapes = {"a": {0: batch}, "b": {0: batch}}
    proved = prove(Solved(), (matrices(3, batch=(6,)), sides(3, batch=(6,))), target, dynamic_shapes=shapes)
    assert proved.exit_code == 0, proved.reason
    assert "write_small_matrices" in proved.rewrites
