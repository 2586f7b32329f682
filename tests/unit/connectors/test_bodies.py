"""Bodies of answers: bounded, inflated, read."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.connectors.bodies import MAX_MEMBERS, BodyReader, Reading, read_body
from twinraven.foundation.errors import InvalidOutput

LIMIT = 100_000


def _read(pieces: list[bytes], encoding: str = "gzip", *, limit: int = LIMIT, cut: bool = False) -> bytes:
    reader = BodyReader(encoding, limit=limit, cut=cut)
    for piece in pieces:
        reader.feed(piece)
        if reader.is_full:
            break
    return reader.body()


@given(st.lists(st.binary(max_size=2_000), min_size=1, max_size=4), st.integers(1, 50))
def test_a_compressed_body_is_what_was_compressed(members: list[bytes], size: int) -> None:
    """However a body is cut into pieces and into members, it comes out whole."""
    packed = b"".join(gzip.compress(member) for member in members)
    pieces = [packed[start : start + size] for start in range(0, len(packed), size)]
    assert _read(pieces) == b"".join(members)


@given(st.binary(max_size=500))
def test_junk_is_refused_and_nothing_else_is_raised(junk: bytes) -> None:
    """Bytes that are no gzip end in one error."""
    try:
        _read([junk])
    except InvalidOutput:
        return


def test_a_bomb_does_not_go_off() -> None:
    """A body that grows a thousandfold is refused at the limit, before it takes the memory."""
    bomb = gzip.compress(bytes(200_000_000), compresslevel=9)
    begun = time.process_time()
    tracemalloc.start()
    with pytest.raises(InvalidOutput, match="larger than 10000000 bytes"):
        _read([bomb[start : start + 65_536] for start in range(0, len(bomb), 65_536)], limit=10_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30_000_000
    assert time.process_time() - begun < 2


def test_a_bomb_in_a_bomb_stays_packed() -> None:
    """One layer is taken off and no more: two are refused by name."""
    with pytest.raises(InvalidOutput, match="gzip, gzip"):
        BodyReader("gzip, gzip", limit=LIMIT)


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "compress", "x" * 1000])
def test_an_encoding_that_nobody_asked_for_is_refused(encoding: str) -> None:
    """Only what we can bound is read."""
    with pytest.raises(InvalidOutput, match="was not asked for"):
        BodyReader(encoding, limit=LIMIT)


def test_members_without_end_are_refused() -> None:
    """A stream of empty members would keep a processor busy for nothing."""
    with pytest.raises(InvalidOutput, match="members"):
        _read([gzip.compress(b"") * (MAX_MEMBERS + 1)])


def test_a_body_that_breaks_off_is_refused() -> None:
    """Half an answer is not an answer."""
    with pytest.raises(InvalidOutput, match="breaks off"):
        _read([gzip.compress(b"x" * 10_000)[:-10]])


def test_a_plain_body_is_bounded_too() -> None:
    """The limit counts what arrives."""
    with pytest.raises(InvalidOutput, match="larger than 10 bytes"):
        _read([b"x" * 6, b"x" * 6], "", limit=10)
    assert _read([b"x" * 10], "identity", limit=10) == b"x" * 10


def test_errors_are_cut_and_not_refused() -> None:
    """Of a long error its beginning is enough."""
    assert _read([b"x" * 6, b"y" * 6], "", limit=10, cut=True) == b"xxxxxxyyyy"
    assert _read([gzip.compress(b"z" * 1000)[:-4]], limit=10, cut=True) == b"z" * 10


@pytest.mark.parametrize(
    ("body", "content_type", "reading", "value"),
    [
        (b"", "application/json", "auto", None),
        (b'{"a": 1}', "application/json", "auto", {"a": 1}),
        (b'{"a": 1}', "application/problem+json; charset=utf-8", "auto", {"a": 1}),
        (b'\xef\xbb\xbf{"a": 1}', "text/json", "auto", {"a": 1}),
        (b'{"a": 1}', "text/plain", "auto", '{"a": 1}'),
        (b'{"a": 1}', "text/plain", "json", {"a": 1}),
        (b"gr\xfc\xdfe", "text/plain; charset=latin-1", "auto", "grüße"),
        (b"gr\xfc", "text/plain; charset=klingon", "auto", "gr\ufffd"),
        (b"<a/>", "application/atom+xml", "auto", "<a/>"),
        (b"\x00\x01", "image/png", "auto", {"content_type": "image/png", "base64": "AAE="}),
        (b"12345678901234567890123", "application/json", "auto", 12345678901234567890123),
    ],
)
def test_bodies_are_read_as_what_they_are(body: bytes, content_type: str, reading: Reading, value: Any) -> None:
    """JSON gives values, text gives text, anything else is carried in base64."""
    assert read_body(body, content_type, reading=reading) == value


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b"\xff", b"{'a': 1}"])
def test_broken_json_is_the_services_fault(body: bytes) -> None:
    """What says it is JSON and is not is an invalid output."""
    with pytest.raises(InvalidOutput, match="not JSON"):
        read_body(body, "application/json")
