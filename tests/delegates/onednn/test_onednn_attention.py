"""Attention that the backend runs in blocks of rows: every form against eager, and shapes that do not fit refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from onednn_cases import CASES
from onednn_support import Network, capture, check, load, lower, needs_onednn, random, read_pte, with_other_shape

from edgex.delegates.base import LoweredModule
from edgex.delegates.onednn.operators import attention
from edgex.errors import RunError

pytestmark = needs_onednn
FORMS = sorted(name for name in CASES if name.startswith("attention"))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few the scores are."""
    monkeypatch.setattr(attention, "_CACHED_BYTES", 0)


def version_of(lowered: LoweredModule) -> int:
    """The version of its plan."""
    content, start = read_pte(lowered)
    return content[start + 8]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_it(name: str, precision: str, always: None) -> None:
    function, inputs, *layers = CASES[name]
    lowered = check(Network(function, *(layers[0] if layers else ())), *inputs, precision=precision)
    assert version_of(lowered) == 4


def test_a_short_one_of_bfloat16_stays_with_onednn() -> None:
    """Its plan is of the first version, which older backends read; of float32 none is left to oneDNN."""
    heads = random(1, 2, 8, 4)
    network = Network(lambda x: F.scaled_dot_product_attention(x, x, x))
    assert version_of(check(network, heads, precision="bf16")) == 1
    assert version_of(check(network, heads)) == 4


def heads_of(x: torch.Tensor, count: int) -> torch.Tensor:
    return x.unflatten(-1, (count, -1)).transpose(-3, -2)


def windows_by_hand(x: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor, warmth: torch.Tensor) -> torch.Tensor:
    """As Swin writes it: a bias for each head, a mask for each window, and in version 2 a temperature for each head."""
    query, key, value = heads_of(x, 3), heads_of(x * 2, 3), heads_of(x + 1, 3)
    scores = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1) * warmth + bias[None]
    windows = mask.shape[0]
    scores = scores.view(x.shape[0] // windows, windows, *scores.shape[1:]) + mask[None, :, None]
    weights = scores.view(x.shape[0], *scores.shape[2:]).softmax(-1)
    return (weights @ value).transpose(1, 2).flatten(2)


def test_windows_by_hand_are_one_operator() -> None:
    """With both masks and the temperature in it, for one image and for two."""
    bias, mask, warmth = random(3, 9, 9), random(4, 9, 9, seed=1), random(3, 1, 1, seed=2).exp()
    for windows in (4, 8):
        lowered = check(Network(windows_by_hand), random(windows, 9, 12), bias, mask, warmth, left=2)
        assert b"softmax" not in read_pte(lowered)[0]


def test_softmax_of_nothing_is_no_number() -> None:
    """A program that writes attention out gives NaN where its mask leaves nothing; the operator of PyTorch gives 0."""
    mask = torch.zeros(5, 5)
    mask[2] = float("-inf")
    network = Network(lambda x, m: (x @ x.transpose(-2, -1) * 0.5 + m).softmax(-1) @ (x + 1))
    heads = random(1, 2, 5, 4)
    loaded = load(lower(capture(network, (heads, mask))))
    found = loaded(heads, mask)[0]
    loaded.runner.close()
    assert torch.equal(found.isnan(), network(heads, mask).isnan())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_heads_that_share_keys(precision: str) -> None:
    """Grouped queries, with a mask for all heads, for each head, and none; a single token."""
    for rows in (1, 7):
        query, key = random(2, 6, rows, 8), random(2, 2, 7, 8, seed=1)
        masks = random(rows, 7, seed=2), random(2, 6, rows, 7, seed=3)
        network = Network(
            lambda q, k, *m: tuple(
                F.scaled_dot_product_attention(q, k, k + 1, attn_mask=mask, enable_gqa=True) for mask in (None, *m)
            )
        )
        check(network, query, key, *masks, precision=precision)


MERGED = {
    "queries that are weights": (
        lambda q, k: (q @ k.transpose(-2, -1) * 0.3).softmax(-1) @ (k + 1),
        (5, 16),
        (3, 9, 16),
    ),
    "queries of each head": (
        lambda q, k: (q @ k.transpose(-2, -1) * 0.3).softmax(-1) @ (k + 1),
        (1, 4, 5, 16),
        (2, 4, 9, 16),
    ),
    "one value for all": (lambda q, k: (k @ k.transpose(-2, -1) * 0.3).softmax(-1) @ q, (1, 9, 16), (3, 9, 16)),
    "one key for all heads": (
        lambda q, k: (k @ q.transpose(-2, -1) * 0.3).softmax(-1) @ (q + 1),
        (2, 1, 9, 16),
        (2, 4, 5, 16),
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_what_is_the_same_for_the_whole_batch(name: str) -> None:
    """A few queries that merge all places, and keys that heads share, written out: one operator, nothing repeated."""
    function, *shapes = MERGED[name]
    one, other = (random(*shape, seed=seed) for seed, shape in enumerate(shapes))
    lowered = check(Network(function), one, other)
    assert b"softmax" not in read_pte(lowered)[0]


@pytest.mark.parametrize("columns", [1024, 1003])
def test_many_places_in_parts(columns: int) -> None:
    """In bfloat16 the scores of 512 places at a time, the last part padded; a mask for each."""
    query, key = random(1, 2, 530, 16), random(1, 2, columns, 16, seed=1)
    mask = random(530, columns, seed=2)
    network = Network(lambda q, k, m: F.scaled_dot_product_attention(q, k, k + 1, attn_mask=m))
    for precision in ("fp32", "bf16"):
        check(network, query, key, mask, precision=precision)


def test_a_long_one_is_one_event_and_its_last_block_a_smaller_one(tmp_path: Path) -> None:
    """Scores of 5 MB: six blocks of 128 rows and one of 32 for each head."""
    query, key = random(1, 2, 800, 16), random(1, 2, 800, 16, seed=1)
    network = Network(lambda q, k: F.scaled_dot_product_attention(q, k, k + 1))
    check(network, query, key)
    loaded = load(lower(capture(network, (query, key))), trace=True)
    loaded(query, key)
    loaded.runner.write_trace(tmp_path / "trace")
    loaded.runner.close()
    content = (tmp_path / "trace").read_bytes()
    assert b"scaled_dot_product_attention" in content
    assert b"scaled_dot_product_attention+" not in content


# batch, heads, rows, columns, size, width, rows of the mask
SHAPES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 3, 1, 7, 3, 1, 1),
    (2, 1, 33, 40, 16, 20, 33),
    (1, 3, 5, 1, 3, 4, 1),
    (2, 3, 33, 7, 1, 4, 1),
]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_all_kinds(shape: tuple[int, ...], precision: str, always: None) -> None:
    """Single rows, columns and heads; masks repeated along each dimension; query and result in another order."""
    batch, heads, rows, columns, size, width, mask_rows = shape
    query, key = random(batch, rows, heads, size), random(batch, heads, columns, size, seed=1)
    value, mask = random(batch, heads, columns, width, seed=2), random(1, 1, mask_rows, columns, seed=3)

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2) * 2, k, v, attn_mask=m)
        return mixed.transpose(1, 2).flatten(2) + 1

    check(Network(run), query, key, value, mask, precision=precision)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_scores_far_apart(precision: str, always: None) -> None:
    """Scores of some hundreds, with exponentials of 1 and 0; a scale below 0; rows of one place or none."""
    query, key = random(1, 2, 40, 16), random(1, 2, 50, 16, seed=1)
    mask = torch.zeros(40, 50)
    mask[3, 1:] = float("-inf")
    mask[4] = float("-inf")
    for scale in (20.0, -20.0):
        network = Network(lambda q, k, m, by=scale: F.scaled_dot_product_attention(q, k, k * 1, m, scale=by))
        check(network, query, key, mask, precision=precision)


@pytest.mark.parametrize("score", [-70.0, -80.0, -200.0])
def test_a_weight_next_to_nothing_is_none(score: float, always: None) -> None:
    """The smallest numbers slow processors down: 0 times infinity shows that none of them is left."""
    query, key = torch.ones(1, 2, 40, 16), torch.ones(1, 2, 50, 16)
    key[:, :, 1:] *= score / 16 + 1
    value = random(1, 2, 50, 16)
    value[:, :, 7] = float("inf")
    network = Network(lambda q, k, v: F.scaled_dot_product_attention(q, k * 1, v, scale=1.0))
    with load(lower(capture(network, [query, key, value]))) as loaded:
        (found,) = loaded(query, key, value)
    assert bool(found.isnan().all())
    value[:, :, 7] = 1
    check(network, query, key, value)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_a_row_that_is_masked_by_the_lowest_number(precision: str, dtype: torch.dtype, always: None) -> None:
    """As transformers mask: a padded place sees nothing, so that all its weights are the same."""
    lowest = torch.finfo(dtype).min
    heads = random(1, 2, 40, 16)
    mask = torch.zeros(40, 40).masked_fill(torch.arange(40) > 29, lowest)
    mask[30:] = lowest
    network = Network(lambda x, m: F.scaled_dot_product_attention(x, x * 1, x * 2, attn_mask=m))
    check(network, heads, mask, precision=precision)


@pytest.mark.parametrize("amount", [1e4, 1e5, 1e8])
@pytest.mark.parametrize("scale", [0.3, -0.3])
def test_scores_of_many_digits(amount: float, scale: float, always: None) -> None:
    """Whose rounding is far more than 1: the largest still has the weight 1, and the others none."""
    query, key = random(1, 2, 40, 16) * amount, random(1, 2, 50, 16, seed=1) * amount
    value = random(1, 2, 50, 16, seed=2)
    check(Network(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale)), query, key, value)


def test_shapes_that_do_not_fit_are_refused(always: None) -> None:
    """A plan with a right checksum, whose key has rows of another size than the query."""
    query, key = random(1, 2, 7, 5), random(1, 2, 9, 5)
    lowered = lower(capture(Network(lambda q, k: F.scaled_dot_product_attention(q, k, k)), (query, key)))
    with pytest.raises(RunError) as caught:
        load(with_other_shape(lowered, (1, 2, 5, 9), (1, 2, 4, 9)))
    assert "sizes do not fit each other" in str(caught.value.why)
