"""Which token comes next: the order of the filters, the shares that are drawn, what a seed gives again."""

import numpy as np
import pytest

from edgex.errors import RunError
from edgex.runtime.generation.sampling import Sampler, Sampling, distribution

SCORES = np.log(np.array([0.1, 0.4, 0.05, 0.25, 0.2]))


@pytest.mark.parametrize(
    ("sampling", "ids", "shares"),
    [
        (Sampling(1.0), [1, 3, 4, 0, 2], [0.4, 0.25, 0.2, 0.1, 0.05]),
        (Sampling(1.0, top_k=2), [1, 3], [0.4 / 0.65, 0.25 / 0.65]),
        (Sampling(1.0, top_k=0), [1, 3, 4, 0, 2], [0.4, 0.25, 0.2, 0.1, 0.05]),
        (Sampling(1.0, top_k=99), [1, 3, 4, 0, 2], [0.4, 0.25, 0.2, 0.1, 0.05]),
        # 0.4 + 0.25 is not yet 0.7: the third belongs to them
        (Sampling(1.0, top_p=0.7), [1, 3, 4], [0.4 / 0.85, 0.25 / 0.85, 0.2 / 0.85]),
        (Sampling(1.0, top_p=1e-9), [1], [1.0]),
        # the share that counts is that among the k likeliest
        (Sampling(1.0, top_k=2, top_p=0.6), [1], [1.0]),
        (Sampling(0.5), [1, 3, 4, 0, 2], np.array([0.16, 0.0625, 0.04, 0.01, 0.0025]) / 0.275),
        (Sampling(1e-320), [1, 3, 4, 0, 2], [1, 0, 0, 0, 0]),
    ],
)
def test_distribution(sampling, ids, shares):
    found_ids, found = distribution(SCORES, sampling)
    assert found_ids.tolist() == ids
    np.testing.assert_allclose(found, shares, rtol=1e-12)


def test_draws_follow_the_shares():
    sampler = Sampler(Sampling(1.0, top_k=3, seed=1))
    drawn = np.bincount([sampler.choose(SCORES, ()) for _ in range(4000)], minlength=5) / 4000
    # Three standard deviations of a share of 4,000 draws are at most 0.024.
    np.testing.assert_allclose(drawn, [0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85], atol=0.024)


def test_a_seed_gives_the_same_again_and_no_seed_another():
    def draw(seed):
        sampler = Sampler(Sampling(1.0, seed=seed))
        return sampler.seed, [sampler.choose(SCORES, ()) for _ in range(40)]

    assert draw(7) == draw(7) and draw(7)[1] != draw(8)[1]
    first, second = draw(None), draw(None)
    assert first[0] != second[0] and draw(first[0]) == first


def test_greedy_takes_the_first_of_the_likeliest():
    assert Sampler(Sampling()).choose(np.array([1, 3, 3, -np.inf], np.float32), ()) == 1
    assert Sampler(Sampling()).seed is None


def test_repetition_penalty_makes_what_was_said_less_likely():
    scores = np.array([2.0, 1.9, -1.0, -1.1])
    assert Sampler(Sampling(repetition_penalty=1.2)).choose(scores, [0, 0, 3]) == 1
    assert Sampler(Sampling(repetition_penalty=1.2)).choose(scores[2:], [0]) == 1
    assert scores.tolist() == [2.0, 1.9, -1.0, -1.1]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0), Sampling(repetition_penalty=1.1)])
def test_scores_that_mean_nothing_are_refused(bad, sampling):
    with pytest.raises(RunError, match="the best score that the model gave is"):
        Sampler(sampling).choose(np.array([0.0, bad, 1.0]), ())


@pytest.mark.parametrize(
    ("sampling", "word"),
    [
        (Sampling(-0.1), "temperature must be 0 or more"),
        (Sampling(float("nan")), "temperature"),
        (Sampling(1.0, top_k=-1), "top_k"),
        (Sampling(1.0, top_p=0.0), "top_p"),
        (Sampling(1.0, top_p=1.1), "top_p"),
        (Sampling(repetition_penalty=0.0), "repetition_penalty"),
        (Sampling(seed=-1), "seed"),
    ],
)
def test_settings_that_cannot_be(sampling, word):
    with pytest.raises(RunError, match=word):
        Sampler(sampling)
