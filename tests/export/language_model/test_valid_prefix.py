"""A decoder sees the filled part of its cache only: the same scores, shorter attentions, however it is written."""

from __future__ import annotations

import math

import pytest
import torch
from language_support import HEAD, VOCABULARY, Attention, Decoder
from torch import nn
from torch.nn import functional

from edgex.export.language_model.module import NextToken
from edgex.export.language_model.prefix_search import find_longer, find_rows
from edgex.export.language_model.request import LanguageRequest
from edgex.export.language_model.source import prepare_language_model
from edgex.export.language_model.valid_prefix import PrefixLengths, find_prefix, try_capture
from edgex.export.source.source import wrap_model
from edgex.runtime.session.numerics import measure_sqnr_db
from edgex.samples.random_weights import randomise_weights

CONTEXT, STEP, LENGTH = 64, 16, 20


def fused(query, keys, values, places):
    mask = torch.arange(CONTEXT)[None] <= places[:, None]
    return functional.scaled_dot_product_attention(query, keys, values, mask)


def by_keywords(query, keys, values, places):
    mask = torch.arange(keys.size(2)) <= places[:, None]
    return functional.scaled_dot_product_attention(query=query, key=keys, value=values, attn_mask=mask)


def masked_fill(query, keys, values, places):
    scores = query @ keys.transpose(2, 3) / math.sqrt(HEAD)
    scores = scores.masked_fill_(torch.arange(CONTEXT) > places[:, None], -math.inf)
    return scores.softmax(-1) @ values


def added(query, keys, values, places):
    mask = torch.zeros(len(places), CONTEXT).masked_fill(torch.arange(CONTEXT) > places[:, None], -1e9)
    return torch.matmul((mask + torch.matmul(query, keys.mT) / math.sqrt(HEAD)).softmax(-1), values)


def chosen(query, keys, values, places):
    scores = torch.einsum("bhnd,bhcd->bhnc", query, keys) / math.sqrt(HEAD)
    return torch.where(torch.arange(CONTEXT) <= places[:, None], scores, -1e9).softmax(-1) @ values


def grouped(query, keys, values, places):
    batch, heads, size, width = keys.shape
    keys, values = (one[:, :, None].expand(batch, heads, 1, size, width).reshape(keys.shape) for one in (keys, values))
    return masked_fill(query, keys, values, places)


def in_one_product(query, keys, values, places):
    mask = torch.zeros(1, len(places), CONTEXT).masked_fill(torch.arange(CONTEXT) > places[:, None], -1e9)
    scores = torch.baddbmm(mask, query[0], keys[0].transpose(1, 2), alpha=1 / math.sqrt(HEAD))
    return (scores.softmax(-1) @ values[0])[None]


def over_everything(query, keys, values, places):
    return fused(query, keys, values, places) + (CONTEXT - keys.shape[2])


def make_decoder(mix) -> Decoder:
    class Mixing(Attention):
        def forward(self, x, position):
            count = x.shape[1]
            query, key, value = (part.view(1, count, -1, HEAD).transpose(1, 2) for part in self.project(x).chunk(3, -1))
            places = position + torch.arange(count)
            self.keys.index_copy_(2, places, key)
            self.values[:, :, places] = value
            mixed = mix(query, self.keys, self.values, places)
            return self.output(mixed.transpose(1, 2).reshape(x.shape))

    class Built(Decoder):
        attention_type = Mixing

    torch.manual_seed(0)
    return Built(CONTEXT).eval()


def read(model, chunk):
    tokens = torch.arange(LENGTH)[None] * 7 % VOCABULARY
    with torch.no_grad():
        for first in range(0, LENGTH, chunk):
            scores = model(tokens[:, first : first + chunk], torch.tensor([first]))["logits"]
    return scores.numpy()


@pytest.mark.parametrize("mix", [fused, by_keywords, masked_fill, added, chosen, grouped, in_one_product])
def test_scores_are_the_same_and_no_attention_is_longer_than_the_text(mix) -> None:
    sizes = []

    def watched(query, keys, values, places):
        sizes.append(keys.shape[2])
        return mix(query, keys, values, places)

    model = make_decoder(watched)
    prefix = find_prefix({"model.attention.keys": 2, "model.attention.values": 2}, CONTEXT)
    assert prefix is not None
    assert prefix.step == STEP
    expected, found = read(NextToken(model), 5), read(NextToken(model, prefix=prefix), 5)
    assert sizes == [CONTEXT] * 4 + [16, 16, 16, 32]
    found_db = measure_sqnr_db(expected, found)
    assert found_db is None or found_db > 110, found_db
    try_capture(NextToken(model, prefix=prefix), torch.arange(5).numpy())


@pytest.mark.parametrize(
    ("mix", "sentence"),
    [
        (fused, "the filled part of the cache is read, in steps of 16 tokens"),
        (over_everything, "the whole cache (attention.keys, attention.values) is read at every step: without its rest"),
        (lambda query, keys, values, places: fused(query, keys.view(1, -1, CONTEXT, HEAD), values, places),
         "is read at every step: its beginning does not fit: test_valid_prefix.py:"),
    ],
)  # fmt: skip
def test_a_model_that_needs_its_whole_cache_keeps_it(mix, sentence) -> None:
    tokens, position = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    source = wrap_model(make_decoder(mix), (tokens, position), {}, None, "decoder")
    prepared = prepare_language_model(source, LanguageRequest(CONTEXT, 8))
    assert any(sentence in notice for notice in prepared.notices), prepared.notices
    assert (prepared.module.prefix is not None) == (mix is fused)


class WithState(Attention):
    """Keeps the last two inputs of a convolution, of as many channels as the context has tokens."""

    def __init__(self, context):
        super().__init__(context)
        self.widen = torch.nn.Linear(self.output.in_features, context)
        self.convolve = torch.nn.Conv1d(context, self.output.out_features, 3)
        self.register_buffer("state", torch.zeros(1, context, 2))

    def forward(self, x, position):
        window = torch.cat([self.state * (position > 0), self.widen(x).mT], -1)
        self.state.copy_(window[..., -2:])
        return super().forward(x, position) + self.convolve(window).mT


class WithPages(Attention):
    """Keeps a number of each token, and reads how many there is room for."""

    def __init__(self, context):
        super().__init__(context)
        self.register_buffer("pages", torch.zeros(context, 1))

    def forward(self, x, position):
        places = position + torch.arange(x.shape[1])
        self.pages.index_copy_(0, places, x[0, :, :1])
        room = self.pages.reshape(CONTEXT // 2, 2).shape[0]
        return super().forward(x, position) * room / CONTEXT


@pytest.mark.parametrize(("attention", "whole"), [(WithState, None), (WithPages, "attention.pages")])
def test_a_buffer_that_is_read_whole_leaves_the_others_their_beginning(attention, whole) -> None:
    class Built(Decoder):
        attention_type = attention

    torch.manual_seed(0)
    args = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    source = wrap_model(Built(CONTEXT).eval(), args, {}, None, "decoder")
    prepared = prepare_language_model(source, LanguageRequest(CONTEXT, 8))
    assert prepared.module.prefix is not None, prepared.notices
    assert set(prepared.module.prefix.buffers) == {"model.attention.keys", "model.attention.values"}
    said = [notice for notice in prepared.notices if "read whole, though as long as the context" in notice]
    assert [notice.endswith(f": {whole}") for notice in said] == ([] if whole is None else [True])


def test_the_reason_names_the_line_and_what_failed_there() -> None:
    tokens, position = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)

    def viewed(query, keys, values, places):
        return fused(query, keys.view(1, -1, CONTEXT, HEAD), values.view(1, -1, CONTEXT, HEAD), places)

    source = wrap_model(make_decoder(viewed), (tokens, position), {}, None, "decoder")
    prepared = prepare_language_model(source, LanguageRequest(CONTEXT, 8))
    (notice,) = [notice for notice in prepared.notices if "does not fit" in notice]
    assert "shape '[1, -1, 64, 8]' is invalid" in notice


def test_a_dimension_is_of_tokens_where_reading_leaves_the_rest_as_it_was() -> None:
    before = {name: torch.zeros(1, 6, 6) for name in ("rows", "both", "state")} | {"longer": torch.zeros(9, 6)}
    behind = {name: tensor.clone() for name, tensor in before.items()}
    behind["rows"][:, :2] = 1
    behind["both"][:, :2, :2] = 1
    behind["state"] += torch.rand(1, 6, 6)
    behind["longer"][:2] = torch.rand(2, 6)
    assert find_rows(behind, before.get, 6, 2) == {"rows": 1}
    assert find_longer(behind, before.get, 6, 2) == {"longer": 9}


def test_places_that_a_model_clears_are_not_filled() -> None:
    before, behind = torch.rand(1, 2, 6, 3), torch.zeros(1, 2, 6, 3)
    behind[:, :, :2] = 1
    assert find_rows({"keys": behind}, lambda _: before, 6, 2) == {"keys": 2}


def test_a_short_cache_is_read_whole() -> None:
    assert find_prefix({}, 4096) is None
    assert find_prefix({"keys": 2}, 16) is None
    assert find_prefix({"keys": 2}, 4096) == PrefixLengths({"keys": 2}, 4096, 256)


class Recurrent(nn.Module):
    """No attention: a state of one size, one dimension of which happens to be as long as the context."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, CONTEXT)
        self.scores = nn.Linear(CONTEXT, 50)
        self.register_buffer("state", torch.zeros(1, CONTEXT))

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """A sum of what was read, which forgets."""
        steps = torch.arange(tokens.shape[1])
        weights = torch.tril(0.5 ** (steps[:, None] - steps).clamp(min=0))
        state = self.state * (position > 0)
        mixed = weights @ self.embed(tokens) + 0.5 ** (steps + 1)[None, :, None] * state[:, None]
        self.state.copy_(mixed[:, -1])
        return self.scores(mixed)


def test_of_a_model_without_a_cache_nothing_is_said_about_reading_one() -> None:
    model = Recurrent().eval()
    randomise_weights(model)
    prepared = prepare_language_model(wrap_model(model, (), {}), LanguageRequest(CONTEXT, 8))
    said = " ".join(prepared.notices)
    assert "what the model keeps of a text takes" in said and "however long" in said
    assert "is read" not in said and "attention" not in said and prepared.module.prefix is None


def test_a_cache_longer_than_the_context_is_named() -> None:
    prepared = prepare_language_model(wrap_model(make_decoder(masked_fill), (), {}), LanguageRequest(32, 8))
    (said,) = [notice for notice in prepared.notices if "is read" in notice]
    assert (
        "(attention.keys, attention.values)" in said and f"has places for {CONTEXT} tokens, and --context is 32" in said
    )
