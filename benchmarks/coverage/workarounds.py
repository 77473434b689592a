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

_REPGHOSTNET = """On inputs 16 times as large as the example onnx-cpu's outputs are 0.3 dB short of the limit; on the \
example itself and the other stress inputs they are within it. `-t xnnpack` verifies the model with the usual limits; \
for onnx-cpu say which accuracy is enough, as the error proposes: `--min-sqnr 75 --atol 0.07`."""

_EFFICIENTNET = """On inputs 16 times as large as the example onednn's outputs are 42 dB from eager's. The limit, what \
PyTorch's own kernels agree on less 20 dB, is 53 dB; the example itself and the other stress inputs are within theirs. \
`-t xnnpack` and `-t onnx-cpu` verify the model with the usual limits; for onednn say which accuracy is enough, as the \
error proposes: `--min-sqnr 41 --atol 160`."""

# By model; a model that no longer fails has none.
WORKAROUNDS: Mapping[str, str] = {
    "huggingface/AllenaiLongformerBase": _LONGFORMER,
    "timm/repghostnet_050": _REPGHOSTNET,
    "torchvision/efficientnet_b0": _EFFICIENTNET,
}
