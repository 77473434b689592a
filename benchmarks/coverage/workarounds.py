"""What to do about a published architecture that fails: longer than an error's `fix`, and says what was not tried."""

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

_T5 = """The suite draws weights that drive T5's attention, which divides its scores by nothing, into saturation. \
Eager in float32 is itself 85 dB from eager in float64; xnnpack's sums end 78 to 79 dB from eager's where 80 are \
asked, and a bisect finds each half of the model right by itself (89 dB). `-t onnx-cpu` and `-t onednn` verify it with \
the usual limits; for xnnpack say which accuracy is enough, as the error proposes: `--min-sqnr 76 --atol 4.3e-05`."""

_MAMBA = """The suite's weights amplify rounding from step to step of the recurrence: eager in float32 is itself 88 dB \
from eager in float64, and the targets end 65 to 78 dB from eager where 80 are asked. The small configuration is \
verified on every target. The error proposes the accuracy to ask for, which was not tried."""

_EFFICIENTNET = """On inputs 16 times as large as the example, all negative, its gates (sigmoids of \
squeeze-and-excite) saturate: onednn and xnnpack end 51 and 54 dB from eager where 60 are asked, and a bisect finds \
each half of the model right by itself (97 dB). The example itself and the other stress inputs are within their \
limits. `-t onnx-cpu` verifies the model with the usual ones; for the others say which accuracy is enough, as the \
error proposes: `--min-sqnr 50 --atol 110`."""

_RT_DETR = """It takes the best 300 of 8,400 scores as queries, and with the suite's random weights these lie closer \
together than rounding in a ResNet-50 moves them: eager in float32 is itself 25 to 34 dB from eager in float64, so no \
engine can be held to 80. The scores themselves, before they are sorted, are 100 dB from float64. The small \
configuration is verified on every target. Trained weights and a real picture should part the scores, which was not \
tried: the suite downloads nothing."""

# By model; a model that no longer fails has none.
WORKAROUNDS: Mapping[str, str] = {
    "huggingface/AllenaiLongformerBase": _LONGFORMER,
    "large/T5-small": _T5,
    "large/Mamba-130M": _MAMBA,
    "large/RT-DETR-R50": _RT_DETR,
    "large/efficientnet_b0": _EFFICIENTNET,
}
