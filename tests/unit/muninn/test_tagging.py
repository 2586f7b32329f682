"""Tags that the record itself shows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from twinraven.muninn.tagging import CACHED, FALLBACK, RETRY, TagExtractor


def tags(
    extractor: TagExtractor, tool: str, call: str, *, raised: bool = False, session: str = "s", output: bytes = b"1"
) -> list[str]:
    return extractor.tags("default", session, tool, call, raised=raised, output=output)


def test_a_retry_is_the_same_call_after_it_raised() -> None:
    """The same tool with the same arguments after a failure is a retry, until it has succeeded."""
    extractor = TagExtractor()
    assert tags(extractor, "read", "1", raised=True) == []
    assert tags(extractor, "read", "2", raised=True) == []
    assert tags(extractor, "read", "3") == []
    assert tags(extractor, "read", "1", raised=True) == [RETRY]
    assert tags(extractor, "read", "1") == [RETRY]
    assert tags(extractor, "read", "1") == []
    assert tags(extractor, "read", "2") == [RETRY]


def test_a_fallback_is_another_way_right_after_a_failure() -> None:
    """Another tool with the same arguments, straight after one raised, is a fallback; later it is like any other."""
    extractor = TagExtractor()
    assert tags(extractor, "read", "1", raised=True) == []
    assert tags(extractor, "mirror", "1") == [FALLBACK]
    assert tags(extractor, "archive", "1") == []


def test_sessions_do_not_mix() -> None:
    """A failure in one session makes nothing a retry in another."""
    extractor = TagExtractor()
    tags(extractor, "read", "1", raised=True, session="a")
    assert tags(extractor, "read", "1", session="b") == []
    assert tags(extractor, "read", "1", session="a") == [RETRY]


def test_an_answer_may_say_that_it_was_cached() -> None:
    """The usual marks of a cache are recognised, the mere word is not."""
    extractor = TagExtractor()
    for output in (b'{"cached":true}', b'{"a":{"from_cache":true}}', b'{"x-cache":"HIT"}'):
        assert tags(extractor, "read", "1", output=output) == [CACHED]
    for output in (b'{"cached":false}', b'"cached"', b'{"geocache":true}'):
        assert tags(extractor, "read", "1", output=output) == []


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(0, 9000), st.booleans()), max_size=300))
def test_what_is_remembered_is_bounded(calls: list[tuple[int, bool]]) -> None:
    """However many sessions and tools fail, the memory for tags stays small."""
    extractor = TagExtractor()
    for number, raised in calls:
        tags(extractor, f"tool-{number % 200}", str(number), raised=raised, session=str(number % 3))
    for number in range(5000):
        tags(extractor, "read", "1", raised=True, session=f"many-{number}")
    assert extractor.remembered_sessions <= 4096
