"""Finding many texts at once: exactly what a simple search finds, only faster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinraven.vault.matcher import Matcher, Span, replace_spans

_SPELLINGS = st.lists(st.binary(min_size=4, max_size=12), min_size=1, max_size=8, unique=True)
_FEW_LETTERS = st.lists(st.text("ab", min_size=4, max_size=7).map(str.encode), min_size=1, max_size=6, unique=True)


def simple_search(spellings: list[bytes], text: bytes) -> set[tuple[int, int]]:
    return {
        (start, start + len(spelling))
        for spelling in spellings
        for start in range(len(text))
        if text.startswith(spelling, start)
    }


@given(_FEW_LETTERS, st.text("abc", max_size=60).map(str.encode))
def test_it_finds_what_a_simple_search_finds(spellings: list[bytes], text: bytes) -> None:
    """Every occurrence of every spelling is found, overlapping ones too, and nothing else."""
    matcher = Matcher(dict.fromkeys(spellings, b"*"))
    expected = simple_search(spellings, text)
    assert {(span.start, span.end) for span in matcher.spans(text)} == expected
    if expected:
        assert matcher.search(text) is not None


@given(_SPELLINGS, st.lists(st.binary(max_size=6), max_size=6), st.data())
def test_no_spelling_survives_replacement(spellings: list[bytes], filler: list[bytes], data: st.DataObject) -> None:
    """After replacement no spelling is left, whatever bytes they and the text are made of."""
    parts = [part for gap in filler for part in (gap, data.draw(st.sampled_from(spellings)))]
    text = b"".join(parts)
    matcher = Matcher(dict.fromkeys(spellings, b"\xff\xfe"))
    replaced = replace_spans(text, matcher.spans(text))
    left = b"\xff\xfe".join(piece for piece in replaced.split(b"\xff\xfe"))
    for piece in left.split(b"\xff\xfe"):
        assert not simple_search(spellings, piece)


def test_the_longest_spelling_stands_for_those_inside_it() -> None:
    """Of spellings inside one another only the outermost leaves its token."""
    matcher = Matcher({b"secret-one": b"<1>", b"secret-one-long": b"<2>", b"one-": b"<3>"})
    text = b"a secret-one-long b secret-one c"
    assert replace_spans(text, matcher.spans(text)) == b"a <2> b <1> c"


def test_overlapping_spellings_leave_both_tokens_and_no_remainder() -> None:
    """Where two secrets overlap, neither end of either is left."""
    matcher = Matcher({b"abcdEFGH": b"<1>", b"EFGHijkl": b"<2>"})
    text = b"xabcdEFGHijkly"
    assert replace_spans(text, matcher.spans(text)) == b"x<1><2>y"


def test_spellings_of_one_value_that_overlap_leave_one_token() -> None:
    """The same token is not repeated for the same place."""
    spans = [Span(0, 6, b"<1>"), Span(2, 9, b"<1>"), Span(12, 14, b"<1>")]
    assert replace_spans(b"0123456789abcdef", spans) == b"<1>9ab<1>ef"


def test_the_first_bytes_it_looks_for_are_rare_ones() -> None:
    """Among common letters a capital is chosen, so that the search hardly ever stops."""
    matcher = Matcher({b"tea-Qtea-tea": b"*", b"rest-Qrest": b"*"})
    assert matcher.search(b"tea rest " * 50) is None
    assert len({span.start for span in matcher.spans(b"..tea-Qtea-tea..rest-Qrest")}) == 2
