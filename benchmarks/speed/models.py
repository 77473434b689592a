"""The architectures of the survey: those of the coverage suite, images at the size and depth they were published with.

Hugging Face's keep the suite's small configurations: no weights are published with a configuration here, and most of
them differ in width alone.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from functools import partial

import torch

from benchmarks.coverage.models import huggingface, modern, timm_models, torchvision_models
from benchmarks.coverage.models.weights import SEED, draw_weights
from benchmarks.coverage.suite import Entry, Example

_SIDE = 224

# Ten that between them have most kinds of layers, in minutes.
SAMPLE = (
    "timm/tiny_vit_5m_224",
    "torchvision/mobilenet_v3_small",
    "torchvision/swin_v2_t",
    "timm/ghostnet_050",
    "huggingface/DistillGPT2",
    "timm/edgenext_xx_small",
    "torchvision/resnet18",
    "timm/levit_128s",
    "huggingface/BertForMaskedLM",
    "timm/fastvit_t8",
)


def entries(only: Sequence[str] = (), *, sample: bool = False) -> list[Entry]:
    """The models of one run, in order; no library is imported.

    Args:
        only: Patterns of names, `timm/*` for example; empty is all.
        sample: Those of `SAMPLE` alone.
    """
    found = [Entry(f"timm/{name}", partial(_timm, name)) for name in timm_models.FAMILIES]
    found += [Entry(f"torchvision/{name}", partial(_torchvision, name)) for name in torchvision_models.CLASSIFIERS]
    found += huggingface.entries()
    found += modern.entries()
    by_name = {entry.name: entry for entry in found}
    chosen = [by_name[name] for name in SAMPLE] if sample else found
    return [entry for entry in chosen if not only or any(fnmatch.fnmatchcase(entry.name, one) for one in only)]


def _timm(name: str) -> Example:
    from benchmarks.zoo import _torchvision as import_torchvision

    import_torchvision()  # timm imports it
    import timm

    torch.manual_seed(SEED)
    module = timm.create_model(name, pretrained=False).eval()
    args = (torch.randn(1, *module.default_cfg["input_size"]) / 4,)
    return Example(draw_weights(module, args), args)


def _torchvision(name: str) -> Example:
    from benchmarks.zoo import _torchvision as import_torchvision

    models = import_torchvision()
    torch.manual_seed(SEED)
    args = (torch.randn(1, 3, _SIDE, _SIDE) / 4,)
    return Example(draw_weights(models.get_model(name, weights=None).eval(), args), args)
