"""The operator at fault in one of several methods: a language model's, and those of `methods()`."""

from __future__ import annotations

import torch
from bisect_support import randn
from language_support import Decoder, make_decoder
from torch import nn

from edgex.errors import VerificationError
from edgex.export.language_model.request import LanguageRequest
from edgex.export.pipeline import export_to_targets
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_methods, wrap_model


def pooled(x):
    """ONNX Runtime ignores the divisor; a rewrite avoids that."""
    return nn.functional.avg_pool2d(x.unsqueeze(1), (1, 3), 1, (0, 1), divisor_override=2)[:, 0]


class PoolingDecoder(Decoder):
    """One operator of it is wrong on onnx-cpu without rewrites."""

    def forward(self, tokens, position):
        x = self.embed(tokens) + self.place(position + torch.arange(tokens.shape[1]))
        x = x + self.attention(self.norms[0](x), position)
        return self.scores(pooled(self.norms[2](x)))


def export(source, tmp_path, **settings):
    given = ExportSettings(("onnx-cpu",), output=tmp_path, rewrite=False, **settings)
    (failure,) = export_to_targets(lambda: source, given, name="net").failures
    return failure


def test_a_language_model_that_is_wrong_names_the_operator_and_the_method(tmp_path):
    source = wrap_model(make_decoder(PoolingDecoder), (), {})
    failure = export(source, tmp_path, language=LanguageRequest(24, 4))
    assert isinstance(failure.error, VerificationError)
    found = failure.to_json()["bisect"]
    assert [place["op"] for place in found["born"]] == ["aten.avg_pool2d.default"]
    assert found["method"] in ("prefill", "decode") and found["born"][0]["source"].startswith("test_methods.py:")
    assert "born at aten.avg_pool2d.default" in failure.error.why
    assert "damaged" not in failure.error.why
    assert "--llm --context 24 --chunk 4 " in failure.error.fix


class Counter(nn.Module):
    """Two methods over one buffer; what one adds up, the other pools, wrongly on onnx-cpu without rewrites."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.zeros(1, 2, 6))

    def add(self, x):
        self.sum.add_(x)
        return x * 2.0

    def read(self, scale):
        return pooled(self.sum) * scale + self.sum


def test_the_method_at_fault_is_looked_at_with_the_state_that_others_left(tmp_path):
    model = Counter().eval()
    methods = {"add": (model.add, (randn(1, 2, 6),)), "read": (model.read, (randn(1, 1, 1, seed=1),))}
    failure = export(wrap_methods(methods), tmp_path)
    assert isinstance(failure.error, VerificationError)
    found = failure.to_json()["bisect"]
    assert [place["op"] for place in found["born"]] == ["aten.avg_pool2d.default"]
    assert found["method"] == "read" and "step 2 (read)" in failure.error.why
