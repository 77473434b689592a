"""Published architectures with random weights of our own: what `benchmarks/onednn/comparison.py` measures.

They come from torchvision, timm and transformers, which edgex does not need:
`pip install --no-deps torchvision==0.28.0 timm && pip install transformers`. Nothing is downloaded. The libraries' own
initial weights give outputs near zero, with which any comparison passes; so all weights are drawn anew.
`edgex export benchmarks/zoo.py:resnet50` and so on: each name is a function that gives a module and its example inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Example = tuple[nn.Module, tuple[torch.Tensor, ...]]
TOKENS = 128


def draw_weights(module: nn.Module) -> nn.Module:
    """Weights that keep a signal's size through the layers; the same at every call."""
    generator = torch.Generator().manual_seed(0)

    def normal(tensor: torch.Tensor, deviation: float) -> None:
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * deviation)

    with torch.no_grad():
        for layer in module.modules():
            for name, tensor in layer.named_parameters(recurse=False):
                if tensor.dim() > 1:
                    inputs = tensor.shape[-1] if isinstance(layer, nn.Embedding) else tensor[0].numel()
                    gain = 2.0 if isinstance(layer, nn.Conv2d) else 1.0
                    normal(tensor, 1.0 if isinstance(layer, nn.Embedding) else math.sqrt(gain / inputs))
                elif name == "weight":
                    tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.4 + 0.8)
                else:
                    normal(tensor, 0.1)
            for name, tensor in layer.named_buffers(recurse=False):
                if name == "running_mean":
                    normal(tensor, 0.1)
                elif name == "running_var":
                    tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.4 + 0.8)
        calibrate_norms(module)
    return module.eval()


def calibrate_norms(module: nn.Module) -> None:
    """Batch norms take the statistics of what they see, as after a training: else 50 layers overflow or vanish."""
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
    if not norms:
        return
    module.eval()
    for layer in norms:
        layer.momentum = None
        layer.reset_running_stats()
        layer.train()  # only these: dropout and stochastic depth would make the statistics others at every call
    module(torch.randn(4, 3, 224, 224, generator=torch.Generator().manual_seed(1)))
    module.eval()


def _images() -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0)),)


def _tokens(words: int) -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, words, (1, TOKENS), generator=torch.Generator().manual_seed(0)),)


def _torchvision() -> Any:
    """Torchvision's models without its compiled part, which exists for one build of torch only."""
    # The package asks for two operators while it is imported, and no model here uses them.
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in (
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    ):
        if not hasattr(torch.ops.torchvision, schema.split("(")[0]):
            library.define(schema)
    _KEPT.append(library)
    import torchvision.models

    return torchvision.models


# A library's operators go with it.
_KEPT: list[Any] = []


def _vision(name: str) -> Example:
    return draw_weights(getattr(_torchvision(), name)(weights=None)), _images()


def resnet50() -> Example:
    """torchvision, 25.6 million parameters."""
    return _vision("resnet50")


def mobilenet_v2() -> Example:
    """torchvision, 3.5 million parameters."""
    return _vision("mobilenet_v2")


def mobilenet_v3_large() -> Example:
    """torchvision, 5.5 million parameters."""
    return _vision("mobilenet_v3_large")


def efficientnet_b0() -> Example:
    """torchvision, 5.3 million parameters."""
    return _vision("efficientnet_b0")


def squeezenet1_1() -> Example:
    """torchvision, 1.2 million parameters."""
    return _vision("squeezenet1_1")


def vit_small() -> Example:
    """timm, `vit_small_patch16_224`, 22 million parameters."""
    _torchvision()  # timm imports it
    import timm

    return draw_weights(timm.create_model("vit_small_patch16_224", pretrained=False)), _images()


class Output(nn.Module):
    """One output of a transformers model as a tensor."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the model gives under the name."""
        result: torch.Tensor = getattr(self.model(x), self.name)
        return result


def bert_base() -> Example:
    """transformers, 110 million parameters, 128 tokens."""
    _torchvision()  # transformers imports it
    from transformers import BertConfig, BertModel

    config = BertConfig()
    return Output(draw_weights(BertModel(config)), "last_hidden_state").eval(), _tokens(config.vocab_size)


def distilgpt2() -> Example:
    """transformers, 82 million parameters, 128 tokens, without a cache."""
    _torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=6, use_cache=False)
    return Output(draw_weights(GPT2LMHeadModel(config)), "logits").eval(), _tokens(config.vocab_size)


def whisper_tiny_encoder() -> Example:
    """transformers, 8 million parameters, 30 seconds of sound."""
    _torchvision()
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=384,
        encoder_layers=4,
        encoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_layers=4,
        decoder_attention_heads=6,
        decoder_ffn_dim=1536,
    )
    sound = torch.randn(1, 80, 3000, generator=torch.Generator().manual_seed(0))
    return Output(draw_weights(WhisperEncoder(config)), "last_hidden_state").eval(), (sound,)


MODELS: dict[str, Callable[[], Example]] = {
    made.__name__: made
    for made in (
        resnet50,
        mobilenet_v2,
        mobilenet_v3_large,
        efficientnet_b0,
        squeezenet1_1,
        vit_small,
        bert_base,
        distilgpt2,
        whisper_tiny_encoder,
    )
}
