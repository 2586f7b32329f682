"""URLs taken apart and put together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.connectors.urls import parse_url
from twinraven.foundation.errors import InvalidDefinition, InvalidInput, PolicyViolation


def test_a_url_is_its_parts() -> None:
    """Scheme, host, port, path and query are told apart; a usual port is left out of the authority."""
    url = parse_url("https://API.example.com:443/v1/?a=b")
    assert (url.origin.authority, url.target, str(url)) == (
        "api.example.com",
        "/v1/?a=b",
        "https://api.example.com/v1/?a=b",
    )
    assert parse_url("http://[2606:4700::1]:8080").origin.authority == "[2606:4700::1]:8080"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must begin with"),
        ("ftp://example.com", "must begin with"),
        ("http://", "must begin with"),
        ("http://example.com:99999", "is not a URL"),
        ("http://example.com:x", "is not a URL"),
        ("http://[::1", "is not a URL"),
        ("http://exa mple.com", "blanks"),
        ("http://example.com/\nHost: x", "control characters"),
        ("http://example.com\\@inside", "backslashes"),
        ("http://u:secret@example.com", "put them into a secret"),
        ("http://example.com/" + "a" * 20_000, "too long"),
    ],
)
def test_what_is_no_url_is_refused(text: str, problem: str) -> None:
    """The error says what is wrong, and repeats no password."""
    with pytest.raises(InvalidDefinition, match=problem) as refusal:
        parse_url(text)
    assert "secret@" not in refusal.value.message


def test_paths_are_put_below_the_endpoint() -> None:
    """A path never replaces the endpoint's own."""
    base = parse_url("https://example.com/v1/")
    assert base.extended("/orders/1").path == "/v1/orders/1"
    assert base.extended("orders").path == "/v1/orders"
    assert base.extended("").path == "/v1/"
    assert base.extended("/a b/ü/%2F").path == "/v1/a%20b/%C3%BC/%2F"


@pytest.mark.parametrize("path", ["/../admin", "/a/..", "/./a", "/a/%2e%2e/b", "/..%2Fadmin", "/a/%2E%2e%5cb", ".."])
def test_paths_do_not_climb(path: str) -> None:
    """Dots that lead upwards are refused in every encoding, also behind an encoded slash."""
    with pytest.raises(InvalidInput, match="climb"):
        parse_url("https://example.com/v1").extended(path)


def test_queries_are_encoded() -> None:
    """A value cannot begin another parameter."""
    url = parse_url("https://example.com/?a=1").asking([("q", "x&y=z #"), ("ü", "")])
    assert url.target == "/?a=1&q=x%26y%3Dz%20%23&%C3%BC="


@given(st.text(max_size=200))
def test_any_location_is_followed_or_refused(location: str) -> None:
    """Whatever a server sends as Location gives a URL of http or a refusal."""
    try:
        url = parse_url("https://example.com/a/b").redirected(location)
    except (InvalidDefinition, PolicyViolation, ValueError):
        return
    assert url.origin.scheme in ("http", "https")
    assert str(url).isascii()
