"""Write inverses, solutions, determinants and Cholesky factors of small matrices in elementary operators.

```
before:  y = aten.linalg_inv.default(a)                         # a: [6, 4, 4]
after:   m = cat([a, eye(4).expand(6, 4, 4)], -1)
         u = cat(rows of m, eliminated, -2)                     # [6, 4, 8]
         y = the solution of u[:, :, :4] @ y = u[:, :, 4:], from the last row upwards

before:  y = aten.linalg_inv.default(a)                         # a: [6, 2, 2], here [[p, q], [r, s]]
after:   y = [[s, -q], [-r, p]] / (p * s - q * r)
```

Engines have no kernels for LAPACK's functions, and models call them on camera matrices, covariances and homographies.
Written are float32 matrices of up to `_LARGEST` rows with any dimensions before them, Cholesky factors of up to 128,
and solutions with triangles of up to 1,024, of which only a run may know how many they are; left alone are larger ones,
and programs that use LAPACK's error codes or factors. From three rows on nothing is by the adjugate, whose error grows
with the square of the condition number. A singular matrix, for which eager raises an error, gives infinities or NaN.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.graph.values import largest_size
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, Write, static, substitute
from edgex.export.rewrites.folding.constants import find_foldable, fold_nodes
from edgex.export.rewrites.matrices.elimination import Eliminated, eliminate
from edgex.export.rewrites.matrices.inverses import solve_by_inverse
from edgex.export.rewrites.matrices.triangles import factor, solve_blocks, solve_triangle

aten = torch.ops.aten

# Rows of a matrix: the operators grow in number with them, about 25 a row.
_LARGEST = 16
# A triangle of weights with more rows is solved by inverses.
_ROWS = 8
# Of a triangle or a symmetric matrix, whose operators grow in number with the rows, and of a triangle that is inverted,
# in blocks at export or as a whole.
_LARGEST_TRIANGLE = 128
_LARGEST_INVERTED = 1024
# Of all inverses of such blocks: 784 triangles of 200 rows have 20 MB.
_INVERSES_BYTES = 64 * 1024 * 1024


def write_small_matrices(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator on small matrices; the same program comes back without one."""
    detail = "{count} operator(s) on small matrices ({operators}) became elementary ones"
    made_of_weights = {node.name for node in constant_tensors(program)}
    for node in program.exported.graph.nodes:
        if node.op == "call_function" and all(read.name in made_of_weights for read in node.all_input_nodes):
            made_of_weights.add(node.name)

    def operands(node: Node) -> tuple[Any, ...]:
        triangle = node.args[0]
        assert isinstance(triangle, Node)
        return *named_arguments(node).values(), triangle.name in made_of_weights

    rules = {**_RULES, aten.linalg_solve_triangular.default: Rule(_solve_triangular, operands=operands)}
    written, rewrite = substitute(program, "write_small_matrices", rules, detail)
    return _invert_blocks(written), rewrite


def _invert_blocks(program: CapturedProgram) -> CapturedProgram:
    """Compute the inverses of a known triangle's blocks here: nothing else has an operator for them."""
    weights = constant_tensors(program)
    foldable = find_foldable(program, weights, _INVERSES_BYTES)
    blocks = {node for node in foldable if node.target is aten.linalg_solve_triangular.default}
    folded = fold_nodes(program, blocks, foldable, weights, _INVERSES_BYTES)
    return program if folded is None else folded[0]


def _inverse(a: torch.Tensor) -> torch.Tensor:
    size = int(a.shape[-1])
    if size == 1:
        return 1.0 / a
    if size == 2:
        (p, q), (r, s) = _entries(a)
        adjugate = torch.cat([torch.cat([s, -q], -1), torch.cat([-r, p], -1)], -2)
        return adjugate / (p * s - q * r)
    return _solve(a, _ones_on_diagonal(a))


def _power(a: torch.Tensor, exponent: int) -> Any:
    if exponent >= 0:  # products, which need no help
        return NotImplemented
    inverse = _inverse(a)
    return inverse if exponent == -1 else torch.linalg.matrix_power(inverse, -exponent)


def _solve_any(a: torch.Tensor, b: torch.Tensor, left: bool) -> torch.Tensor:
    if b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1]):  # vectors
        return _solve(a, b.unsqueeze(-1)).squeeze(-1)
    if not left:
        return _solve(a.transpose(-2, -1), b.transpose(-2, -1)).transpose(-2, -1)
    return _solve(a, b)


def _solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    size = int(a.shape[-1])
    if size == 1:
        return b / a
    if size == 2:
        (p, q), (r, s) = _entries(a)
        upper, lower = b.narrow(-2, 0, 1), b.narrow(-2, 1, 1)
        return torch.cat([s * upper - q * lower, p * lower - r * upper], -2) / (p * s - q * r)
    both = torch.cat(_repeated(a, b), -1)
    rows = torch.cat(eliminate(both).rows, -2)
    return solve_triangle(rows.narrow(-1, 0, size), rows[..., size:], upper=True)


def _determinant(a: torch.Tensor) -> torch.Tensor:
    size = int(a.shape[-1])
    if size == 1:
        found = a.clone()  # a view of it would see what is written to it later
    elif size == 2:
        (p, q), (r, s) = _entries(a)
        found = p * s - q * r
    else:
        done = eliminate(a, singular=True)
        found = _signed(reduce(torch.mul, _diagonal(done)), done)
    return found.squeeze(-1).squeeze(-1)


def _sign_and_logarithm(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    done = eliminate(a, singular=True)
    diagonal = torch.cat(_diagonal(done), -1)
    signs = torch.sign(diagonal)
    sign = _signed(reduce(torch.mul, [signs.narrow(-1, k, 1) for k in range(int(a.shape[-1]))]), done)
    return sign.squeeze(-1).squeeze(-1), torch.sum(torch.log(torch.abs(diagonal)), (-2, -1))


def _logarithm(a: torch.Tensor) -> torch.Tensor:
    """NaN for a determinant below zero, minus infinity for zero."""
    sign, logarithm = _sign_and_logarithm(a)
    return logarithm + torch.log(sign)


def _cholesky(a: torch.Tensor, upper: bool) -> torch.Tensor:
    return factor(a.transpose(-2, -1)).transpose(-2, -1) if upper else factor(a)


def _cholesky_solve(b: torch.Tensor, triangle: torch.Tensor, upper: bool) -> torch.Tensor:
    triangle, b = _repeated(triangle, b)
    half = solve_triangle(triangle, b, upper=upper, transposed=upper)
    return solve_triangle(triangle, half, upper=upper, transposed=not upper)


def _solve_triangular(a: torch.Tensor, b: torch.Tensor, upper: bool, left: bool, ones: bool, known: bool) -> Any:
    size = a.shape[-1]
    largest = largest_size(size)
    if any(tensor.dtype != torch.float32 for tensor in (a, b)) or largest is None:
        return NotImplemented
    if not 1 <= largest <= _LARGEST_INVERTED:
        return NotImplemented
    if not left:
        a, b, upper = a.transpose(-2, -1), b.transpose(-2, -1), not upper
    a, b = _repeated(a, b)
    if known and size > _ROWS:
        found = solve_blocks(a, b, upper=upper, ones=ones)
    elif not static(size) or size > _LARGEST_TRIANGLE:
        found = solve_by_inverse(a, b, largest, upper=upper, ones=ones)
    else:
        found = solve_triangle(a, b, upper=upper, ones=ones)
    return found if left else found.transpose(-2, -1)


def _triangular_solve(b: torch.Tensor, a: torch.Tensor, upper: bool, transposed: bool, ones: bool) -> tuple[Any, ...]:
    """The older operator, with its arguments the other way round."""
    a, b = _repeated(a, b)
    return solve_triangle(a, b, upper=upper, transposed=transposed, ones=ones), None


def _diagonal(done: Eliminated) -> list[torch.Tensor]:
    return [row.narrow(-1, k, 1) for k, row in enumerate(done.rows)]


def _signed(value: torch.Tensor, done: Eliminated) -> torch.Tensor:
    """With the sign changed once for every exchange of rows."""
    for stayed in done.stayed:
        value = torch.where(stayed, value, -value)
    return value


def _entries(a: torch.Tensor) -> list[list[torch.Tensor]]:
    """The entries of a matrix of two rows, each [..., 1, 1]."""
    return [[a.narrow(-2, i, 1).narrow(-1, j, 1) for j in range(2)] for i in range(2)]


def _repeated(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two matrices with the same dimensions before rows and columns."""
    batch = tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))  # type: ignore[no-untyped-call]
    a, b = (x if tuple(x.shape[:-2]) == batch else x.expand(*batch, *x.shape[-2:]) for x in (a, b))
    return a, b


def _ones_on_diagonal(a: torch.Tensor) -> torch.Tensor:
    return torch.eye(int(a.shape[-1]), dtype=a.dtype, device=a.device)


def _small(write: Write, at: int = 0, largest: int = _LARGEST) -> Write:
    """A rule that applies where all is float32, and argument `at` is small square matrices."""

    def apply(*arguments: Any) -> Any:
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        rows, columns = arguments[at].shape[-2:]
        if any(tensor.dtype != torch.float32 for tensor in tensors) or not static(rows, columns):
            return NotImplemented
        return write(*arguments) if rows == columns and 1 <= rows <= largest else NotImplemented

    return apply


_factored = partial(_small, largest=_LARGEST_TRIANGLE)

# With None for error codes, LAPACK's factors and copies of the matrix: where they are used, the operator stays.
_RULES: Rules = {
    aten.linalg_inv.default: _small(_inverse),
    aten.inverse.default: _small(_inverse),
    aten.linalg_inv_ex.default: _small(lambda a, _check: (_inverse(a), None)),
    aten.linalg_matrix_power.default: _small(_power),
    aten.linalg_solve.default: _small(_solve_any),
    aten.linalg_solve_ex.default: _small(lambda a, b, left, _check: (_solve_any(a, b, left), None)),
    aten._linalg_solve_ex.default: _small(lambda a, b, left, _check: (_solve_any(a, b, left), None, None, None)),
    aten.linalg_det.default: _small(_determinant),
    aten.det.default: _small(_determinant),
    aten._linalg_det.default: _small(lambda a: (_determinant(a), None, None)),
    aten.linalg_slogdet.default: _small(_sign_and_logarithm),
    aten.slogdet.default: _small(_sign_and_logarithm),
    aten._linalg_slogdet.default: _small(lambda a: (*_sign_and_logarithm(a), None, None)),
    aten.logdet.default: _small(_logarithm),
    aten.linalg_cholesky.default: _factored(_cholesky),
    aten.cholesky.default: _factored(_cholesky),
    aten.linalg_cholesky_ex.default: _factored(lambda a, upper, _check: (_cholesky(a, upper), None)),
    aten.cholesky_solve.default: _factored(_cholesky_solve, at=1),
    aten.cholesky_inverse.default: _factored(lambda a, upper: _cholesky_solve(_ones_on_diagonal(a), a, upper)),
    aten.triangular_solve.default: _factored(_triangular_solve, at=1),
}
