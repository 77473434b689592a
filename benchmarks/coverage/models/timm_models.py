"""60 families of timm, each by its smallest member, on small images."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from benchmarks.coverage.models.weights import SEED, draw_weights, thin_out
from benchmarks.coverage.suite import Entry, Example

CLASSES = 10

# Name to the image's side in pixels and what makes the member smaller. `img_size` is for those that are built for one
# size of image.
FAMILIES: dict[str, tuple[int, dict[str, Any]]] = {
    "beit_base_patch16_224": (64, {"img_size": 64, "depth": 2, "embed_dim": 64, "num_heads": 4}),
    "botnet26t_256": (64, {"img_size": 64}),
    "cait_xxs24_224": (64, {"img_size": 64, "depth": 2}),
    "coat_lite_tiny": (64, {"img_size": 64, "serial_depths": [1, 1, 1, 1]}),
    "coatnet_pico_rw_224": (64, {"img_size": 64}),
    "convit_tiny": (64, {"img_size": 64, "depth": 3, "local_up_to_layer": 2}),
    "convmixer_768_32": (64, {}),
    "convnext_atto": (64, {}),
    "crossvit_9_240": (240, {"depth": ((1, 1, 0), (1, 1, 0), (1, 1, 0))}),
    "cs3darknet_focus_s": (64, {}),
    "davit_tiny": (64, {"depths": (1, 1, 1, 1)}),
    "deit3_small_patch16_224": (64, {"img_size": 64, "depth": 2, "embed_dim": 64, "num_heads": 4}),
    "densenet121": (64, {"block_config": (2, 2, 2, 2)}),
    "dla46_c": (64, {}),
    "dm_nfnet_f0": (64, {}),
    "dpn48b": (64, {}),
    "edgenext_xx_small": (64, {"depths": (1, 1, 2, 1)}),
    "efficientformer_l1": (224, {}),
    "efficientformerv2_s0": (224, {}),
    "efficientnet_lite0": (64, {}),
    "efficientvit_b0": (64, {}),
    "efficientvit_m0": (224, {}),
    "ese_vovnet19b_slim": (64, {}),
    "eva02_tiny_patch14_224": (56, {"img_size": 56, "depth": 2}),
    "fastvit_t8": (64, {}),
    "focalnet_tiny_srf": (64, {}),
    "gcvit_xxtiny": (64, {"img_size": 64}),
    "ghostnet_050": (64, {}),
    "gmlp_ti16_224": (64, {"img_size": 64}),
    "hardcorenas_a": (64, {}),
    "hgnetv2_b0": (64, {}),
    "hiera_tiny_224": (224, {"stages": (1, 1, 1, 1)}),
    "hrnet_w18_small": (64, {}),
    "inception_next_atto": (64, {}),
    "levit_128s": (224, {}),
    "mambaout_femto": (64, {"depths": (1, 1, 2, 1)}),
    "mixer_s32_224": (64, {"img_size": 64}),
    "mobilenetv4_conv_small": (64, {}),
    "mobilevit_xxs": (64, {}),
    "mobilevitv2_050": (64, {}),
    "mvitv2_tiny": (64, {"img_size": 64}),
    "nest_tiny": (64, {"img_size": 64}),
    "pit_ti_224": (224, {}),
    "poolformer_s12": (64, {}),
    "pvt_v2_b0": (64, {"depths": (1, 1, 1, 1)}),
    "regnety_002": (64, {}),
    "repghostnet_050": (64, {}),
    "repvit_m0_9": (64, {}),
    "res2net50_14w_8s": (64, {"layers": (1, 1, 1, 1)}),
    "resnest14d": (64, {}),
    "resnetv2_50": (64, {"layers": (1, 1, 1, 1)}),
    "rexnet_100": (64, {}),
    "selecsls42": (64, {}),
    "sequencer2d_s": (64, {"img_size": 64, "layers": (1, 1, 1, 1)}),
    "skresnet18": (64, {}),
    "swiftformer_xs": (64, {}),
    "tiny_vit_5m_224": (64, {}),
    "tnt_s_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "twins_svt_small": (64, {"depths": [1, 1, 1, 1]}),
    "xcit_nano_12_p16_224": (64, {"depth": 2}),
}


def entries() -> list[Entry]:
    """The families by name."""
    return [Entry(f"timm/{name}", partial(_make, name)) for name in FAMILIES]


def _make(name: str) -> Example:
    from benchmarks.zoo import _torchvision

    _torchvision()  # timm imports it
    import timm

    side, extra = FAMILIES[name]
    torch.manual_seed(SEED)
    module = timm.create_model(name, pretrained=False, num_classes=CLASSES, **extra)
    # Fainter than what norms are calibrated on: the proof tries it 16 times as bright.
    args = (torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(SEED)) / 4,)
    return Example(draw_weights(thin_out(module), args), args)
