"""Generation with real artifacts: what eager PyTorch goes on with, whatever way the text came into the cache."""

import numpy as np
import pytest
from decoder_support import CHUNK, CONTEXT, VOCABULARY, eager_greedy, eager_scores, train_tokenizer

import edgex
from edgex.errors import ArtifactError, RunError
from edgex.runtime.generation.sampling import Sampling
from edgex.runtime.session.numerics import measure_sqnr_db

PROMPT = [7, 3, 58, 11, 0, 42, 19]
TARGETS = ("xnnpack", "onnx-cpu", "onednn")


@pytest.fixture(scope="module")
def sessions(exported):
    opened = {target: edgex.load(exported("decoder", target), threads=1) for target in TARGETS}
    yield opened
    for session in opened.values():
        session.close()


@pytest.fixture(params=TARGETS)
def generator(request, sessions):
    made = sessions[request.param].generator()
    made.reset()
    return made


@pytest.fixture
def any_generator(sessions):
    """For what does not depend on the engine."""
    made = sessions["onnx-cpu"].generator()
    made.reset()
    return made


def close(actual, expected):
    sqnr = measure_sqnr_db(expected, actual)
    assert sqnr > 80, f"{sqnr:.1f} dB"


def test_greedy_text_is_eagers(generator):
    assert list(generator.stream(PROMPT, max_new=20)) == eager_greedy(PROMPT, 20)
    assert generator.finish == "length" and generator.position == len(PROMPT) + 20


@pytest.mark.parametrize("length", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 1, CONTEXT])
def test_prompts_of_any_length(length, any_generator):
    ids = [number * 7 % VOCABULARY for number in range(length)]
    close(any_generator.prefill(ids), eager_scores(ids))
    assert any_generator.room == CONTEXT - length


def test_one_prompt_in_any_pieces(generator):
    whole = generator.prefill(PROMPT)
    for pieces in ([3, 4], [1] * 7):
        generator.reset()
        at = 0
        for size in pieces:
            scores = generator.prefill(PROMPT[at : at + size])
            at += size
        close(scores, whole)


def test_a_text_goes_on_where_it_was(any_generator):
    first = list(any_generator.stream(PROMPT, max_new=6))
    assert first + list(any_generator.stream(max_new=6)) == eager_greedy(PROMPT, 12)
    follow_up = [1, 2, 3]
    text = [*any_generator.ids, *follow_up]
    assert list(any_generator.stream(follow_up, max_new=4)) == eager_greedy(text, 4)


def test_a_stream_that_is_left_in_the_middle(any_generator):
    stream = any_generator.stream(PROMPT, max_new=20)
    taken = [next(stream) for _ in range(4)]
    stream.close()
    assert any_generator.ids == (*PROMPT, *taken) and any_generator.finish is None
    assert taken + list(any_generator.stream(max_new=4)) == eager_greedy(PROMPT, 8)


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_rewind_and_redo_agree(count, generator):
    expected = eager_greedy(PROMPT, 10)
    assert list(generator.stream(PROMPT, max_new=10)) == expected
    generator.rewind(count)
    assert list(generator.stream(max_new=count)) == expected[-count:]
    generator.rewind(generator.position)
    other = [5, 4, 3]
    assert list(generator.stream(other, max_new=5)) == eager_greedy(other, 5)


def test_a_rewind_between_two_tokens(any_generator):
    stream = any_generator.stream(PROMPT, max_new=10)
    first = [next(stream) for _ in range(3)]
    any_generator.rewind(2)
    assert [next(stream) for _ in range(2)] == first[1:] == eager_greedy(PROMPT, 3)[1:]


def test_reset_leaves_no_trace(generator):
    before = generator.prefill(PROMPT)
    generator.prefill([9] * 20)
    generator.reset()
    assert generator.position == 0 and np.array_equal(generator.prefill(PROMPT), before)


def test_a_saved_prefix_goes_on_in_another_session(generator, exported, tmp_path):
    expected = eager_greedy(PROMPT, 8)
    first = list(generator.stream(PROMPT, max_new=4))
    generator.save(tmp_path / "prefix.safetensors")
    target = generator._decoder.artifact.manifest.target
    with edgex.load(exported("decoder", target), threads=1) as other:
        restored = other.generator()
        restored.prefill([1] * 30)
        restored.restore(tmp_path / "prefix.safetensors")
        assert restored.ids == (*PROMPT, *first)
        assert list(restored.stream(max_new=4)) == expected[4:]
        assert restored.spent.prefilled == 30, "nothing of the prefix was run again"
    # the one that was saved goes on too
    assert list(generator.stream(max_new=4)) == expected[4:]


def test_prefixes_that_are_refused(sessions, any_generator, tmp_path):
    with pytest.raises(RunError, match="no text to save"):
        any_generator.save(tmp_path / "none")
    any_generator.prefill(PROMPT)
    path = tmp_path / "prefix.safetensors"
    any_generator.save(path)
    with pytest.raises(RunError, match="was saved with another model"):
        sessions["xnnpack"].generator().restore(path)
    for content, word in ((b"", "cannot be read"), (path.read_bytes()[:-8], "cannot be read")):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(ArtifactError, match=word):
            any_generator.restore(tmp_path / "damaged")
    with pytest.raises(ArtifactError, match="no such file") as refused:
        any_generator.restore(tmp_path / "nowhere")
    assert "generator.save(path)" in refused.value.fix
    from safetensors.numpy import load_file, save_file

    tensors = load_file(path)
    about = {"format": "edgex.prefix/1", "artifact": any_generator._decoder.artifact.digest}
    for damaged, kind in (
        ({**tensors, "ids": np.array([VOCABULARY])}, RunError),
        ({**tensors, "ids": np.zeros(CONTEXT + 1, np.int64)}, RunError),
        ({**tensors, "scores": tensors["scores"][:-1]}, ArtifactError),
        ({name: value for name, value in tensors.items() if "keys" not in name}, ArtifactError),
    ):
        save_file(damaged, tmp_path / "damaged", about)
        with pytest.raises(kind):
            any_generator.restore(tmp_path / "damaged")
    save_file(tensors, tmp_path / "damaged")
    with pytest.raises(ArtifactError, match="is no saved prefix"):
        any_generator.restore(tmp_path / "damaged")
    assert list(any_generator.stream(max_new=3)) == eager_greedy(PROMPT, 3), "a refused prefix changes nothing"


def test_the_context_ends_a_text(any_generator):
    # The last token needs no room: nothing is generated after it.
    found = list(any_generator.stream([1] * (CONTEXT - 2), max_new=20))
    assert len(found) == 3 and any_generator.finish == "context" and found == eager_greedy([1] * (CONTEXT - 2), 3)
    with pytest.raises(RunError, match=f"the context of {CONTEXT} tokens is full"):
        list(any_generator.stream(max_new=1))
    any_generator.rewind(3)
    assert list(any_generator.stream(max_new=1)) == found[:1]


def test_an_id_that_ends_texts_is_not_given(any_generator):
    from dataclasses import replace

    expected = eager_greedy(PROMPT, 6)
    end = expected[3]
    first = expected.index(end)
    any_generator._decoder.limits = replace(any_generator.limits, eos=(60, end))
    assert list(any_generator.stream(PROMPT, max_new=6)) == expected[:first] and any_generator.finish == "eos"
    any_generator.reset()
    assert list(any_generator.stream(PROMPT, max_new=6, ignore_eos=True)) == expected


def test_drawn_texts_repeat_with_their_seed(any_generator):
    def draw(seed):
        any_generator.reset()
        return list(any_generator.stream(PROMPT, max_new=12, sampling=Sampling(1.5, 40, 0.95, seed=seed)))

    assert draw(1) == draw(1) != draw(2)
    draw(None)
    assert any_generator.seed is not None


def test_text_on_both_sides(sessions, tmp_path):
    from edgex.runtime.generation.tokenizer import Tokenizer

    path = train_tokenizer(tmp_path / "tokenizer.json")
    plain = Tokenizer(path, "here")
    generator = sessions["onnx-cpu"].generator(path)
    generator.reset()
    ids = plain.encode("für ")
    expected = eager_greedy(ids, 12)
    stream = generator.stream_text("für ", max_new=12)
    pieces = list(stream)
    assert stream.ids == expected and "".join(pieces) == stream.text
    assert plain.decode(ids + expected).rstrip("\ufffd") == "für " + stream.text
    # a text that goes on has no beginning of its own
    assert generator.encode("je") == plain.encode("je", special=False)
    with pytest.raises(RunError, match="stop text is empty"):
        generator.stream_text("für ", stop=[""])


@pytest.mark.parametrize(
    ("act", "word"),
    [
        (lambda g: g.prefill([]), "no token to go on from"),
        (lambda g: g.stream(), "no token to go on from"),
        (lambda g: g.prefill([VOCABULARY]), "no such id"),
        (lambda g: g.stream([1] * (CONTEXT + 1)), "do not fit the context"),
        (lambda g: g.stream([1], max_new=-1), "max_new must be 0 or more"),
        (lambda g: g.stream([1], sampling=Sampling(-1.0)), "temperature"),
        (lambda g: g.rewind(1), "cannot take back 1 tokens of a text of 0"),
        (lambda g: g.rewind(-1), "cannot take back -1 tokens"),
        (lambda g: g.stream_text("text"), "carries no tokenizer"),
    ],
)
def test_what_is_refused(act, word, any_generator):
    with pytest.raises((RunError, ArtifactError), match=word):
        act(any_generator)
    assert any_generator.position == 0 and any_generator.spent.prefilled == 0, "nothing was run"


def test_state_is_read_and_written_whole(sessions):
    for session in sessions.values():
        session.reset()
        state = session.read_state()
        assert {name: value.shape for name, value in state.items()} == {s.name: s.shape for s in session.state}
        with pytest.raises(RunError, match="not this artifact's state"):
            session.write_state({name: value[:, :, 1:] for name, value in state.items()})
        with pytest.raises(RunError, match="not this artifact's state"):
            session.write_state({})
