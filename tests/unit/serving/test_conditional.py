"""Conditional requests and content negotiation, as RFC 9110 has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.foundation.errors import InvalidInput, InvalidSetting, TwinRavenError
from twinraven.serving import with_cors
from twinraven.serving.compression import accepts_gzip
from twinraven.serving.conditional import condition_of

_OPAQUE = st.text(st.characters(min_codepoint=0x23, max_codepoint=0x7E), max_size=20)


@given(st.lists(st.tuples(st.booleans(), _OPAQUE), min_size=1, max_size=20), st.sampled_from([",", ", ", " , ", ",,"]))
def test_a_list_of_tags_is_read_as_it_was_written(tags: list[tuple[bool, str]], between: str) -> None:
    """Every tag of a list holds, weak ones only in a weak comparison, and no other tag does."""
    text = between.join(f'{"W/" if is_weak else ""}"{tag}"' for is_weak, tag in tags)
    found = condition_of({b"if-match": text.encode()}, "If-Match")
    assert found is not None
    for is_weak, tag in tags:
        plain = tag.removesuffix("-gzip")
        assert found.holds(plain, strongly=False)
        assert is_weak or found.holds(plain, strongly=True)
    assert not found.holds("never given here, by nobody", strongly=False)


@given(st.text(max_size=40))
def test_any_header_is_read_or_refused(text: str) -> None:
    """No If-None-Match, however odd, causes anything but an answer or a refusal that names it."""
    try:
        condition_of({b"if-none-match": text.encode("utf-8", "replace")}, "If-None-Match")
    except TwinRavenError as error:
        assert isinstance(error, InvalidInput)
        assert error.details["field"] == "If-None-Match"


@pytest.mark.parametrize(
    ("stated", "is_accepted"),
    [
        (None, False),
        (b"", False),
        (b"gzip", True),
        (b"GZIP, deflate", True),
        (b"br, gzip;q=0.5", True),
        (b"gzip;q=0, *", False),
        (b"*", True),
        (b"*;q=0", False),
        (b"identity", False),
        (b"gzip;q=nonsense", False),
    ],
)
def test_gzip_is_sent_only_to_those_who_accept_it(stated: bytes | None, is_accepted: bool) -> None:
    """Accept-Encoding is read with its weights; without it nothing is compressed."""
    assert accepts_gzip(stated) is is_accepted


@pytest.mark.parametrize("origin", ["app.example", "https://app.example/path", "file://x", "null", "https://*.example"])
def test_an_origin_that_is_none_is_refused_when_the_server_starts(origin: str) -> None:
    """A setting that no browser could ever match is an error that names the setting."""

    async def nothing(*_: object) -> None:
        return

    with pytest.raises(InvalidSetting, match="allow_origins"):
        with_cors(nothing, [origin])
