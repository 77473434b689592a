"""Attention over a cache as one operator: where it is recognised, and a state that ONNX Runtime keeps in one place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from language_support import HEAD, HEADS, VOCABULARY, WIDTH, Attention, Decoder, make_decoder
from torch.nn.functional import scaled_dot_product_attention

import edgex
from edgex.delegates.graph.schema import operator_name
from edgex.export.capture.stage import capture_source
from edgex.export.language_model.request import read_request
from edgex.export.language_model.source import pieces, prepare_language_model, random_text
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites.attention.cached import write_cached_attention
from edgex.export.source.source import wrap_model
from edgex.runtime.session.numerics import measure_sqnr_db

CONTEXT, CHUNK = 48, 4


class _Fused(Attention):
    """As `Attention`, in PyTorch's own operator, and with one head of keys for all of the query."""

    def __init__(self, context: int) -> None:
        super().__init__(context)
        self.project = torch.nn.Linear(WIDTH, WIDTH + 2 * HEAD)
        self.register_buffer("keys", torch.zeros(1, 1, context, HEAD))
        self.register_buffer("values", torch.zeros(1, 1, context, HEAD))

    def mask(self, places: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return others[None] <= places[:, None]

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        count = x.shape[1]
        parts = self.project(x).split([WIDTH, HEAD, HEAD], -1)
        query, key, value = (part.view(1, count, -1, HEAD).transpose(1, 2) for part in parts)
        places = self.places(position, count)
        self.keys.index_copy_(2, places, key)
        self.values.index_copy_(2, places, value)
        mask = self.mask(places, torch.arange(self.keys.shape[2]))[None, None]
        return self.output(self.attend(query, mask).transpose(1, 2).reshape(1, count, WIDTH))

    def attend(self, query: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        every = [one[:, :, None].expand(1, 1, HEADS, one.shape[2], HEAD).flatten(1, 2) for one in self._read()]
        return scaled_dot_product_attention(query, *every, attn_mask=seen[..., : every[0].shape[2]])

    def _read(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.keys[:, :, :], self.values[:, :, :]


class _Shared(_Fused):
    """The operator itself shares the heads: `enable_gqa`."""

    def attend(self, query: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        keys, values = self._read()
        mask = seen[..., : keys.shape[2]]
        return scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=True)


class _Windowed(_Fused):
    def mask(self, places, others):
        return super().mask(places, others) & (others[None] > places[:, None] - 7)


class _AsFloats(_Fused):
    def mask(self, places, others):
        return torch.zeros(1).masked_fill(~super().mask(places, others), -1e30)


class _Biased(_Fused):
    """Nearer tokens count more, as in ALiBi."""

    def mask(self, places, others):
        distance = (places[:, None] - others[None]).float()
        return (-0.1 * distance).masked_fill(~super().mask(places, others), -1e30)


class _Blind(_Fused):
    """Never looks at every third token."""

    def mask(self, places, others):
        return super().mask(places, others) & ((others[None] % 3 != 1) | (others[None] == places[:, None]))


def _decoder(attention):
    kind = type("Kind", (Decoder,), {"attention_type": attention})
    return make_decoder(kind, context=CONTEXT)


def _capture(attention):
    source = wrap_model(_decoder(attention), (), {})
    return capture_source(
        prepare_language_model(source, read_request(True, CONTEXT, CHUNK)), {}, lambda *_: None
    ).capture


@pytest.mark.parametrize(("attention", "window"), [(_Fused, 0), (_Shared, 0), (_Windowed, 7), (_AsFloats, 0)])
def test_a_causal_text_is_recognised_by_what_its_mask_computes(attention, window):
    capture = _capture(attention)
    program, rewrite = write_cached_attention(capture.program)
    assert rewrite is not None and rewrite.count == 1
    nodes = {operator_name(node): node for node in program.exported.graph.nodes}
    assert nodes["edgex::cached_attention"].args[-1] == window
    assert not {"aten::index_copy_", "aten::scaled_dot_product_attention"} & nodes.keys()
    text, runners = random_text(VOCABULARY, CONTEXT, seed=4), [GraphRunner(capture.program), GraphRunner(program)]
    for part in (*pieces(9, CHUNK), *(slice(at, at + 1) for at in range(9, 20)), slice(6, 10)):
        given = [torch.from_numpy(text[None, part].copy()), torch.tensor([part.start])]
        expected, found = (runner.run(given)[0].numpy() for runner in runners)
        assert measure_sqnr_db(expected, found) > 100, part


@pytest.mark.parametrize("attention", [_Biased, _Blind, Attention])
def test_another_attention_stays_as_it_is(attention):
    program = _capture(attention).program
    found, rewrite = write_cached_attention(program)
    assert rewrite is None and found is program


def test_the_cache_stays_in_one_place_on_onnx_cpu(tmp_path):
    artifact = edgex.export_model(
        _decoder(_Windowed), target="onnx-cpu", context=CONTEXT, chunk=CHUNK, output=tmp_path, name="decoder"
    )
    (state, other) = artifact.manifest.method.state
    assert state.in_place and other.in_place
    text = random_text(VOCABULARY, CONTEXT, seed=5)
    with edgex.load(artifact.path) as prefill:
        decode = prefill.method("decode")

        def call(method, part):
            return method(text[None, part], np.array([part.start]))["logits"]

        first = call(prefill, slice(0, CHUNK))
        kept, second = prefill.read_state(), call(decode, slice(CHUNK, CHUNK + 1))
        assert any((kept[name] != value).any() for name, value in decode.read_state().items())
        prefill.write_state(kept)
        assert np.array_equal(call(decode, slice(CHUNK, CHUNK + 1)), second)
        decode.reset()
        assert all(not value.any() for value in prefill.read_state().values())
        assert np.array_equal(call(prefill, slice(0, CHUNK)), first)
        assert not np.array_equal(first, second)
        # A loop keeps its arrays and writes into them; other arrays, and views, are what they hold too.
        token, place = text[None, :1].copy(), np.array([0])
        rows = np.empty((2, len(text)), np.int64)
        rows[0] = text
        for at in (0, 1, 2):
            token[0, 0], place[0] = text[at], at
            again = decode(token, place)["logits"]
            other_arrays = decode(rows[:1, at : at + 1], np.array([at]))["logits"]
            assert np.array_equal(again, other_arrays) and np.array_equal(again, decode(token, place)["logits"])
