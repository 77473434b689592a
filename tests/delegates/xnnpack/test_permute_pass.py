"""Permutes of images are views where XNNPACK has the channels last already, and give eager's numbers in any layout."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from pte_support import captured, write_artifact
from torch import nn
from torch.nn import functional as F

import edgex
from edgex.delegates.xnnpack.delegate import XnnpackDelegate
from edgex.export.rewrites import apply_rewrites, wanted_rewrites
from edgex.runtime.session.numerics import measure_sqnr_db


class Hybrid(nn.Module):
    """Convolutions, tokens between them, and an image again."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 4, 3, padding=1)
        self.tokens = nn.Linear(8, 8)

    def forward(self, x):
        image = self.before(x)
        tokens = self.tokens(image.flatten(2).transpose(1, 2))
        return self.behind(image + tokens.transpose(1, 2).reshape(image.shape))


class Permutes(nn.Module):
    """What reads an image, or what was made of it, in every order of dimensions; each result is an output."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.again, self.pixels = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 8)

    def forward(self, x):
        image = self.conv(x)
        last = image.permute(0, 2, 3, 1)
        first = self.pixels(last).permute(0, 3, 1, 2)
        return {
            "sum": self.again(first + image) + first,
            "of the result": last.permute(0, 2, 1, 3) * 2.0,
            "of the input": x.permute(0, 2, 3, 1) * 2.0,
            "another order": self.again(image.permute(0, 1, 3, 2)).permute(0, 3, 2, 1),
            "there and back": self.again(last.permute(0, 3, 1, 2)),
            "as it is": last,
            "softmax": self.again(image.softmax(1)),
            "shuffled": F.pixel_shuffle(image, 2) * 2.0,
            "shuffled back": F.pixel_unshuffle(F.pixel_shuffle(first, 2), 2) + image,
            "repeated": self.again(F.interpolate(image, scale_factor=(2.0, 3.0))),
            "activated": F.elu(image, 0.7) + F.selu(first) + F.celu(first, 0.5) + F.softplus(image) + F.elu(image),
        }


def lowered(module, x, folder):
    """The kinds of XNNPACK's nodes, the plan, and how far each output is from eager, in dB."""
    torch.manual_seed(0)
    program, _ = apply_rewrites(captured(module, x), wanted_rewrites(XnnpackDelegate()))
    made, artifact = write_artifact(program, folder / "net.xnnpack.edgex")
    with torch.no_grad():
        expected = module(x)
    with edgex.load(artifact.path, check="size") as session:
        found = session.run(x.numpy())
    pairs = zip(expected.items() if isinstance(expected, dict) else [("", expected)], found, strict=True)
    decibels = {}
    for (name, one), other in pairs:
        assert np.isfinite(other).all() and one.shape == other.shape, name
        decibels[name] = measure_sqnr_db(one.numpy(), other)
    kinds = Counter(node["kind"] for region in made.debug["delegates"] for node in region["nodes"])
    return kinds, made.plan, decibels


def test_tokens_between_convolutions_are_copied_for_nobody(tmp_path):
    kinds, plan, decibels = lowered(Hybrid(), torch.randn(1, 3, 6, 5), tmp_path)
    assert plan.delegate_calls == 1 and plan.fallbacks == ()
    assert kinds["StaticTranspose"] == 2, f"the input's and the output's only: {kinds}"
    assert decibels[""] > 100, decibels


@pytest.mark.parametrize("shape", [(1, 3, 6, 5), (2, 3, 1, 4)], ids=str)
def test_permutes_of_every_kind_give_the_numbers_of_eager(shape, tmp_path):
    _, plan, decibels = lowered(Permutes(), torch.randn(shape), tmp_path)
    assert plan.fallbacks == (), plan.fallbacks
    assert min(decibels.values()) > 100, decibels
