"""The operators that oneDNN Graph runs, each with how it is lowered. What a lowering does not know it refuses.

Every lowering is a function of (builder, node) that returns the node's value, or a tuple of values (None for an
output that nothing may use). The same function answers whether an operator is taken: it is tried on a builder of its
own.
"""

from __future__ import annotations

from edgex.delegates.onednn.operators.cached import CACHE_OPERATORS
from edgex.delegates.onednn.operators.choosing import CHOOSING_OPERATORS
from edgex.delegates.onednn.operators.elementwise import ELEMENTWISE_OPERATORS, Emit
from edgex.delegates.onednn.operators.layers import NETWORK_OPERATORS
from edgex.delegates.onednn.operators.low_bits import LOW_BIT_OPERATORS
from edgex.delegates.onednn.operators.scattering import SCATTERING_OPERATORS
from edgex.delegates.onednn.operators.views import VIEW_OPERATORS
from edgex.delegates.onednn.quantized.rules import QUANTIZED_OPERATORS

OPERATORS: dict[str, Emit] = {
    **ELEMENTWISE_OPERATORS,
    **NETWORK_OPERATORS,
    **VIEW_OPERATORS,
    **CHOOSING_OPERATORS,
    **SCATTERING_OPERATORS,
    **CACHE_OPERATORS,
    **LOW_BIT_OPERATORS,
    **QUANTIZED_OPERATORS,
}

# Kept whole where they are taken: decomposed, oneDNN would not recognise them.
KEPT_WHOLE = (
    "linear",
    "matmul",
    "scaled_dot_product_attention",
    "hardswish",
    "hardsigmoid",
    "silu",
    "mish",
    "softplus",
    "prelu",
)
