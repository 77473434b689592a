"""Ids to text as they come: whole characters, blanks where they belong, nothing of a stop text."""

import pytest
from decoder_support import TEXT, train_tokenizer
from hypothesis import given
from hypothesis import strategies as st

from edgex.runtime.generation.text import Detokenizer, StopTexts, TextStream
from edgex.runtime.generation.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Bytes only, no merges: each other character comes in parts."""
    return Tokenizer(train_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json", 1), "here")


def stream(detokenizer, ids):
    return [detokenizer.add(token) for token in ids]


def test_pieces_are_whole_characters_and_make_the_text(tokenizer):
    ids = tokenizer.encode(TEXT * 3)
    pieces = stream(Detokenizer(tokenizer.decode), ids)
    assert "".join(pieces) == TEXT * 3
    assert "\ufffd" not in "".join(pieces) and "" in pieces, "no character came in parts: the test shows nothing"


@pytest.mark.parametrize("split", range(1, 40, 3))
def test_what_was_before_is_not_given_again(tokenizer, split):
    ids = tokenizer.encode(TEXT * 2)
    pieces = stream(Detokenizer(tokenizer.decode, ids[:split]), ids[split:])
    assert tokenizer.decode(ids[:split]).rstrip("\ufffd") + "".join(pieces) == TEXT * 2


def test_half_a_character_at_the_end_is_not_given(tokenizer):
    whole = tokenizer.encode("für 日")
    (piece,) = {"".join(stream(Detokenizer(tokenizer.decode), whole[:-cut])) for cut in (1, 2)}
    assert piece == "für "


def test_bytes_that_are_no_character_do_not_hold_up_what_follows(tokenizer):
    broken = tokenizer.encode("日")[:1]
    pieces = stream(
        Detokenizer(tokenizer.decode), [*tokenizer.encode("je"), *broken, *broken, *tokenizer.encode("den")]
    )
    assert "".join(pieces) == "je\ufffd\ufffdden"


def test_a_bytewise_decoder_gives_the_same():
    """Decoders with byte fallback make every byte of an unfinished run its own mark."""

    def decode(ids):
        return bytes(ids).decode("utf-8", "replace")

    text = "a€😀é\n"
    assert "".join(stream(Detokenizer(decode), text.encode())) == text


def test_a_blank_before_a_word_stays():
    """As decoders of SentencePiece do: the first word's blank is dropped."""
    words = {1: "▁one", 2: "▁two", 3: "s"}

    def decode(ids):
        return "".join(words[number] for number in ids).replace("▁", " ").removeprefix(" ")

    assert stream(Detokenizer(decode), [1, 2, 3]) == ["one", " two", "s"]
    assert stream(Detokenizer(decode, [1]), [2, 3]) == [" two", "s"]


@given(st.lists(st.text("ab\n", max_size=4), max_size=8), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3))
def test_text_ends_before_the_first_stop_text(pieces, stops):
    seen, found = "", StopTexts(stops)
    for piece in pieces:
        seen += found.add(piece)
        if found.found is not None:
            break
    else:
        seen += found.end()
    whole = "".join(pieces)
    # The text as it is after each piece: a stop text counts as soon as it is there.
    heads = ["".join(pieces[: number + 1]) for number in range(len(pieces))]
    first = next((head for head in heads if any(stop in head for stop in stops)), None)
    expected = whole if first is None else first[: min(first.find(stop) for stop in stops if stop in first)]
    assert seen == expected and (found.found is None) == (first is None)


def test_a_stream_takes_no_token_behind_a_stop_text(tokenizer):
    ids = iter(tokenizer.encode("naïve text, und für"))
    text = TextStream(ids, Detokenizer(tokenizer.decode), [", u"])
    assert "".join(text) == text.text == "naïve text" and text.stopped_by == ", u"
    assert tokenizer.decode([*text.ids, *ids]) == "naïve text, und für"
    assert tokenizer.decode(text.ids).startswith("naïve text, u")
