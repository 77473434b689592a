"""What to do about a published architecture that fails: tried, and longer than an error's `fix`."""

from __future__ import annotations

from collections.abc import Mapping

_LONGFORMER = """Longformer decides in Python, from the values of its mask, whether a word attends to all others, and \
reads overlapping windows out of a tensor's memory, which an artifact lays out in its own way. Where no word of yours \
attends to all others, say so in your file, and let the windows be copied, which transformers has a switch for:

```python
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

attend = LongformerSelfAttention.forward


def attend_to_windows(self, *args, **kwargs):
    return attend(self, *args, **{**kwargs, "is_global_attn": False})


LongformerSelfAttention.forward = attend_to_windows
model.config.onnx_export = True
```"""

_T5 = """The suite draws weights that drive T5's attention, which divides its scores by nothing, into saturation: \
xnnpack's sums end 78 dB from eager's where 80 are asked, and a bisect finds each half of the model right by itself \
(89 dB). `-t onnx-cpu` and `-t onednn` verify it with the usual limits; for xnnpack say which accuracy is enough, as \
the error proposes: `--min-sqnr 77 --atol 5.1e-05`."""

_EFFICIENTNET = """On inputs 16 times as large as the example, all negative, its gates (sigmoids of \
squeeze-and-excite) saturate: xnnpack and onednn end 53 and 55 dB from eager where 60 are asked, and a bisect finds \
each half of the model right by itself (97 dB). The example itself and the other stress inputs are within their \
limits. `-t onnx-cpu` verifies the model with the usual ones; for the others say which accuracy is enough, as the \
error proposes: `--min-sqnr 52 --atol 86`."""

# By model; a model that no longer fails has none.
WORKAROUNDS: Mapping[str, str] = {
    "huggingface/AllenaiLongformerBase": _LONGFORMER,
    "large/T5-small": _T5,
    "large/efficientnet_b0": _EFFICIENTNET,
}
