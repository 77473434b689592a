"""40 torchvision models: classification, detection backbones and segmentation, on images of 64 x 64 or 96 x 96."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.coverage.models.weights import SEED, draw_weights, thin_out
from benchmarks.coverage.suite import Entry, Example

CLASSES = 10

# Name to the image's side in pixels.
CLASSIFIERS = {
    "alexnet": 64,
    "convnext_tiny": 64,
    "densenet121": 64,
    "efficientnet_b0": 64,
    "efficientnet_v2_s": 64,
    "googlenet": 64,
    "inception_v3": 96,
    "maxvit_t": 64,
    "mnasnet0_5": 64,
    "mnasnet1_0": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_large": 64,
    "mobilenet_v3_small": 64,
    "regnet_x_400mf": 64,
    "regnet_x_800mf": 64,
    "regnet_y_400mf": 64,
    "regnet_y_800mf": 64,
    "resnet18": 64,
    "resnet34": 64,
    "resnet50": 64,
    "resnext50_32x4d": 64,
    "shufflenet_v2_x0_5": 64,
    "shufflenet_v2_x1_0": 64,
    "squeezenet1_0": 64,
    "squeezenet1_1": 64,
    "swin_t": 64,
    "swin_v2_t": 64,
    "vgg11": 64,
    "vgg11_bn": 64,
    "vit_b_16": 64,
    "wide_resnet50_2": 64,
}
SEGMENTERS = ("deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large")


def entries() -> list[Entry]:
    """Classifiers, detection backbones, segmenters."""
    found = [Entry(f"torchvision/{name}", partial(_classifier, name)) for name in CLASSIFIERS]
    found += [Entry(f"torchvision/{name}", make) for name, make in DETECTORS.items()]
    return found + [Entry(f"torchvision/{name}", partial(_segmenter, name)) for name in SEGMENTERS]


def _library() -> Any:
    from benchmarks.zoo import _torchvision

    torch.manual_seed(SEED)
    return _torchvision()


def _image(side: int) -> torch.Tensor:
    """Fainter than what norms are calibrated on: the proof tries it 16 times as bright."""
    return torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(SEED)) / 4


def _with_image(module: nn.Module, side: int) -> Example:
    args = (_image(side),)
    return Example(draw_weights(thin_out(module), args), args)


def _classifier(name: str) -> Example:
    """A classifier of ten classes; where an architecture has no smaller form, fewer blocks or narrower heads."""
    models = _library()
    extra: dict[str, Any] = {"num_classes": CLASSES}
    side = CLASSIFIERS[name]
    if name in ("googlenet", "inception_v3"):
        extra |= {"aux_logits": False, "init_weights": False}
    if name == "vit_b_16":
        return _with_image(_small_vit(models), side)
    if name == "maxvit_t":
        return _with_image(_small_maxvit(models), side)
    module = getattr(models, name)(weights=None, **extra)
    if name in ("alexnet", "vgg11", "vgg11_bn"):
        _narrow(module.classifier, 64)
    return _with_image(module, side)


def _narrow(classifier: nn.Sequential, width: int) -> None:
    """The two hidden layers of 4096 hold 100 million of a VGG's weights."""
    first, second, last = (at for at, layer in enumerate(classifier) if isinstance(layer, nn.Linear))
    classifier[first] = nn.Linear(classifier[first].in_features, width)
    classifier[second] = nn.Linear(width, width)
    classifier[last] = nn.Linear(width, CLASSES)


def _small_vit(models: Any) -> nn.Module:
    made: nn.Module = models.VisionTransformer(
        image_size=64,
        patch_size=16,
        num_layers=3,
        num_heads=4,
        hidden_dim=64,
        mlp_dim=128,
        num_classes=CLASSES,
    )
    return made


def _small_maxvit(models: Any) -> nn.Module:
    made: nn.Module = models.MaxVit(
        input_size=(64, 64),
        stem_channels=16,
        partition_size=4,
        block_channels=[16, 32],
        block_layers=[1, 1],
        head_dim=16,
        stochastic_depth_prob=0.0,
        num_classes=CLASSES,
    )
    return made


def _resnet_fpn() -> Example:
    detection = _library().detection.backbone_utils
    return _with_image(detection.resnet_fpn_backbone(backbone_name="resnet18", weights=None), 64)


def _mobilenet_fpn() -> Example:
    detection = _library().detection.backbone_utils
    made = detection.mobilenet_backbone(backbone_name="mobilenet_v3_large", weights=None, fpn=True)
    return _with_image(made, 64)


class _Retina(nn.Module):
    """Backbone, pyramid and both heads of RetinaNet: what is left without anchors and suppression."""

    def __init__(self, models: Any) -> None:
        super().__init__()
        utils = models.detection.backbone_utils
        from torchvision.ops.feature_pyramid_network import LastLevelP6P7

        self.backbone = utils.resnet_fpn_backbone(
            backbone_name="resnet18", weights=None, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256)
        )
        self.head = models.detection.retinanet.RetinaNetHead(256, 3, CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, 3, H, W]`."""
        return self.head(list(self.backbone(x).values()))


class _Fcos(nn.Module):
    """Backbone, pyramid and heads of FCOS, whose towers use group norm."""

    def __init__(self, models: Any) -> None:
        super().__init__()
        utils = models.detection.backbone_utils
        self.backbone = utils.resnet_fpn_backbone(backbone_name="resnet18", weights=None, returned_layers=[2, 3, 4])
        self.head = models.detection.fcos.FCOSHead(256, 1, CLASSES, num_convs=1)

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, 3, H, W]`."""
        return self.head(list(self.backbone(x).values()))


class _SsdLite(nn.Module):
    """Backbone and heads of SSDlite."""

    def __init__(self, models: Any) -> None:
        super().__init__()
        lite = models.detection.ssdlite
        backbone = models.mobilenet_v3_small(weights=None, reduced_tail=True)
        norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.03)
        self.backbone = lite._mobilenet_extractor(backbone, 6, norm)
        channels = [found.shape[1] for found in self.backbone.eval()(_image(96)).values()]
        self.head = lite.SSDLiteHead(channels, [6] * len(channels), CLASSES, norm)

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, 3, H, W]`."""
        return self.head(list(self.backbone(x).values()))


def _wrapped(kind: Callable[[Any], nn.Module], side: int) -> Example:
    return _with_image(kind(_library()), side)


DETECTORS: dict[str, Callable[[], Example]] = {
    "detection_resnet18_fpn": _resnet_fpn,
    "detection_mobilenet_v3_fpn": _mobilenet_fpn,
    "detection_retinanet_resnet18": partial(_wrapped, _Retina, 64),
    "detection_fcos_resnet18": partial(_wrapped, _Fcos, 64),
    "detection_ssdlite_mobilenet_v3": partial(_wrapped, _SsdLite, 96),
}


def _segmenter(name: str) -> Example:
    module = getattr(_library().segmentation, name)(weights=None, weights_backbone=None, num_classes=CLASSES)
    return _with_image(module, 64)
