"""What to do about operators that a target does not run: only what is true of them."""

from __future__ import annotations

from collections.abc import Iterable

# Operators of PyTorch's own; others exist in the user's Python only, and an artifact runs without that.
_OWN = ("aten.", "prims.", "quantized_decomposed.")


_CONSTANT = "for a constant matrix compute it in __init__ and keep the result in a buffer"
# What to do about single operators that no rewrite writes in others.
_ADVICE = {
    "aten._linalg_svd": f"{_CONSTANT}; a largest singular value is a few steps of v = normalize(a.mT @ (a @ v)); "
    "else return the matrix and decompose it outside",
    "aten._linalg_eigh": f"{_CONSTANT}; a largest eigenvalue is a few steps of v = normalize(a @ v); else return the "
    "matrix and decompose it outside",
    "aten.linalg_eig": f"{_CONSTANT}; else return the matrix and decompose it outside",
    "aten.linalg_qr": f"{_CONSTANT}; orthonormal columns are by Gram-Schmidt: q = normalize(x), y - (q * y).sum() * q",
    "aten.linalg_pinv": f"{_CONSTANT}; where a matrix of up to 8 columns has full rank: "
    "torch.linalg.solve(a.mT @ a, a.mT)",
    "aten.linalg_matrix_exp": f"{_CONSTANT}; where its norm is small, the sum of a few powers: "
    "torch.eye(n) + a + a @ a / 2 + …",
    "aten.linalg_lu": f"{_CONSTANT}; torch.linalg.solve, inv and det of up to 8 rows run as they are",
    "aten._unique2": "how many values differ is found in the run: count with (x[:, None] == torch.arange(n)).sum(0), "
    "or sort and compare neighbours",
    "aten.unique_consecutive": "keep the sequence as long as it is, and mark where x[1:] != x[:-1]",
    "aten.embedding_renorm": "scale the rows in __init__, without max_norm",
    "aten.histogram": "torch.histc, which every target takes",
    "aten.segment_reduce": "torch.zeros(n).index_add(0, segment, x), which every target takes",
    # Those of torchvision.
    "torchvision.nms": "let torchvision.ops.nms look at 256 boxes at most (scores.topk(256)), or return boxes and "
    "scores and suppress outside of the artifact",
    "torchvision.roi_align": "give torchvision.ops.roi_align sampling_ratio=2: without one the sizes of the "
    "regions decide how many samples are taken",
    "torchvision.roi_pool": "use torchvision.ops.roi_align with sampling_ratio=2",
    "torchvision.ps_roi_align": "use torchvision.ops.roi_align with sampling_ratio=2",
    "torchvision.ps_roi_pool": "use torchvision.ops.roi_align with sampling_ratio=2",
}


def name_other_targets(operators: Iterable[str], targets: str) -> str:
    """What to do about operators that a target does not run, a phrase.

    Args:
        operators: Their names, for example `aten.sort.default`.
        targets: Targets by comma that may take PyTorch's own operators.
    """
    operators = list(operators)
    known = [advice for name, advice in _ADVICE.items() if any(one.startswith(name) for one in operators)]
    others = f"`edgex why MODEL -t {targets}` which other target takes it"
    if known:
        elsewhere = any(one.startswith(_OWN) for one in operators)
        return "; ".join([*dict.fromkeys(known), *([f"or see with {others}"] if elsewhere else [])])
    foreign = [name for name in operators if not name.startswith(_OWN) and "." in name]
    if foreign:
        return (
            f"write {', '.join(dict.fromkeys(foreign))} in PyTorch's own operators: an artifact runs without the "
            "Python that defines others, on every target"
        )
    return f"rewrite what is at these lines, or see with {others}"
