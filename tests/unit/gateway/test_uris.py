"""Addresses of resources: telling whose they are, and which template made them."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.gateway.uris import is_qualified, matches, origin, qualified, scheme, unqualified

SERVERS = st.text(min_size=1, max_size=20)
VALUES = st.text(alphabet="abcXYZ019 -_.~/?#äß", max_size=12)


@given(server=SERVERS, uri=st.text(min_size=1, max_size=60))
def test_an_address_that_names_its_server_can_be_read_again(server: str, uri: str) -> None:
    """Server and address come back as they were, whatever either consists of."""
    shown = qualified(server, uri)
    assert is_qualified(shown)
    assert unqualified(shown) == (server, uri)


@pytest.mark.parametrize("uri", ["note://x", "twinraven:/a/b", "twinraven://", "twinraven://a", "twinraven:///x", ""])
def test_other_addresses_name_no_server(uri: str) -> None:
    """What is not of that form, or is only half of it, is nobody's in particular."""
    assert unqualified(uri) is None


def test_the_form_is_known_in_any_case() -> None:
    """Schemes have no case, so no server can give out an address that only looks different."""
    assert unqualified("TwinRaven://a/note://x") == ("a", "note://x")


@pytest.mark.parametrize(
    ("template", "uri", "is_one"),
    [
        ("order://{id}", "order://1", True),
        ("order://{id}", "order://1/2", False),
        ("order://{id}", "note://1", False),
        ("file:///{+path}", "file:///a/b.txt", True),
        ("file://{/path*}", "file:///a/b.txt", True),
        ("repo://{owner}/{name}{.ext}", "repo://a/b.git", True),
        ("repo://{owner}/{name}", "repo://a", False),
        ("find://all{?q,limit}", "find://all", True),
        ("find://all{?q,limit}", "find://all?q=a/b&limit=3", True),
        ("find://all?q={q}{&limit}", "find://all?q=1&limit=2", True),
        ("doc://{id}{#part}", "doc://1#two", True),
        ("plain://as/it/stands", "plain://as/it/stands", True),
        ("broken://{id", "broken://{id", True),
        ("", "", True),
    ],
)
def test_templates_know_their_addresses(template: str, uri: str, is_one: bool) -> None:
    """An address fits a template exactly when some values make the one from the other."""
    assert matches(template, uri) is is_one


@given(first=VALUES, second=VALUES)
def test_what_a_template_makes_fits_it(first: str, second: str) -> None:
    """Whatever is put into a template as the standard says, the result is known as its own."""
    uri = f"a://{quote(first, safe='')}/x/{quote(second, safe='/?#')}"
    assert matches("a://{first}/x/{+second}", uri)


def test_no_template_can_keep_us_busy() -> None:
    """A server's template that has endless ways through an address costs no more than a moment."""
    begun = time.process_time()
    assert not matches("a:" + "{+x}a{y}" * 4 + "!", "a:" + "a" * 2_000)
    assert not matches("a:" + "{+x}" * 10_000, "a:" + "a" * 10_000)
    assert time.process_time() - begun < 2


def test_parts_of_an_address() -> None:
    """The scheme, and what stands before the path, are the same in any case."""
    assert (scheme("Note://Old/Today"), origin("Note://Old/Today?x")) == ("note", "note://old")
    assert (scheme("urn:a:b"), origin("urn:a:b")) == ("urn", "urn:a:b")
