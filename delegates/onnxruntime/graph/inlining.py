"""Write the functions of a translated model out, each value with a name of its own.

```
before:  y = attention(q, k, v)       attention(q, k, v) { sqrt = Sqrt(scale) ... }       sqrt = Sqrt(noise)
after:   sqrt_1 = Sqrt(scale) ...                                                         sqrt = Sqrt(noise)
```

onnxscript's optimizer inlines first too, and keeps both names alike. Where both become constants, it ends in
"Initializer 'sqrt' is already registered" (`_constant_folding.py` of onnxscript 0.7).
"""

from __future__ import annotations

from typing import Any


def inline_functions(model: Any) -> None:
    """Inline every function and make names unique.

    Args:
        model: An `onnx_ir.Model`, changed in place.
    """
    from onnx_ir.passes.common import InlinePass, NameFixPass

    InlinePass()(model)
    NameFixPass()(model)
