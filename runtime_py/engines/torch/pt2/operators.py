"""Which functions a `.pt2` may call.

torch resolves an operator's name by walking attributes from `torch`, `math` or `operator`
(`GraphModuleDeserializer.deserialize_operator`): `torch.os.system` is one of them. So only operators of known
libraries are accepted, whose arguments are tensors and numbers; where one takes a text, it is listed.
"""

from __future__ import annotations

import re

# Libraries of operators: PyTorch's own, and those that quantized programs and torchvision's models hold.
LIBRARIES = ("aten", "quantized_decomposed", "torchao", "torchvision")
# What Python's operators on tensors are called in a graph: `a & b`, `a |= b`. No other name may look like an attribute
# that every object has.
_BITWISE = "__i?(?:and|or|xor|lshift|rshift)__"
_OPERATOR = re.compile(
    rf"torch\.ops\.(?P<library>\w+)\.(?P<name>[A-Za-z]\w*|_[A-Za-z]\w*|{_BITWISE})\.(?P<overload>[A-Za-z]\w*)"
)

# Control flow whose branches are graphs of the same file, and regions.
_HIGHER_ORDER = frozenset(
    f"torch.ops.higher_order.{name}"
    for name in (
        *("cond", "while_loop", "scan", "map_impl", "associative_scan"),
        *("wrap_with_set_grad_enabled", "wrap_with_autocast"),
    )
)

# Arithmetic on sizes: `_SYM_OPS` of torch/_export/serde/serialize.py.
_ON_SIZES = frozenset(
    [
        f"_operator.{name}"
        for name in (
            *("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "neg", "pos"),
            *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_"),
        )
    ]
    + [f"math.{name}" for name in ("ceil", "floor", "trunc", "sqrt", "log", "log2", "exp")]
    + [f"torch.sym_{name}" for name in ("float", "int", "ite", "max", "min", "not", "sqrt", "sum")]
    + ["torch._sym_sqrt"]
)

# Operators that take a text: a mode, an equation, a message. Not `from_file` and `save`, which open files.
_TEXT_ARGUMENTS_NAMES = """
_assert_async _assert_scalar _functional_assert_async _functional_assert_scalar _convolution_mode
_linalg_check_errors _linalg_eigh _linalg_svd conv1d conv2d conv3d div div_ divide divide_ einsum
fft_fft fft_fft2 fft_fftn fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn
fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn gelu gelu_ gelu_backward get_autocast_dtype
index_reduce index_reduce_ linalg_cond linalg_eigh linalg_eigvalsh linalg_lstsq linalg_matrix_norm linalg_norm
linalg_qr linalg_svd linalg_svdvals meshgrid nanquantile quantile pad pad_sequence scatter scatter_ scatter_reduce
scatter_reduce_ searchsorted segment_reduce stft _upsample __upsample __interpolate
"""
_TEXT_ARGUMENTS = frozenset(_TEXT_ARGUMENTS_NAMES.split())
_PLAIN_TYPES = re.compile(
    r"(?:Optional\[)?(?:List\[)?(?:Optional\[)?"
    r"(?:Tensor|number|int|SymInt|float|bool|ScalarType|Layout|Device|MemoryFormat|Generator|complex|str)[\]?]*"
)


def check_operator(target: str) -> None:
    """Let the name of an operator through.

    Raises:
        ValueError: It is none of those that a `.pt2` may call.
    """
    if target in _HIGHER_ORDER or target in _ON_SIZES:
        return
    found = _OPERATOR.fullmatch(target)
    if not found or found["library"] not in LIBRARIES:
        raise ValueError("it is no operator that edgex lets a .pt2 call")
    if found["library"] == "aten":
        _check_arguments(found["name"], found["overload"])


def _check_arguments(name: str, overload: str) -> None:
    import torch

    operator = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if not isinstance(operator, torch._ops.OpOverload):
        raise ValueError("torch has no such operator")
    for argument in operator._schema.arguments:
        kind = str(argument.type)
        if not _PLAIN_TYPES.fullmatch(kind):
            raise ValueError(f"its argument {argument.name} is of type {kind}")
        if "str" in kind and name not in _TEXT_ARGUMENTS:
            raise ValueError(f"its argument {argument.name} is a text, which may name a file")
