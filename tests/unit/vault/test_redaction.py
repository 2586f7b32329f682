"""Redaction: no spelling of a secret is left, everything else is, and JSON stays JSON."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.vault.fakes import HeldValues, Time, make_redactor
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.vault import Redactor
from twinraven.vault.spellings import spellings

_SECRET = 'pä55 "word"/\\sl'
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def known() -> HeldValues:
    return HeldValues(t=[_SECRET, "AKIA-something-long", "12345678"], u=["only of u's"])


@pytest.fixture
def redactor(tmp_path: Path, known: HeldValues) -> Redactor:
    return make_redactor(tmp_path, known)


def test_a_text_without_secrets_is_returned_as_it_is(redactor: Redactor) -> None:
    """Not a copy: the very object, so that nothing is paid for nothing."""
    for tenant_id in ("t", "nobody"):
        text = b'{"city":"Oslo","n":1.50}'
        assert redactor.redact(tenant_id, text) is text


@pytest.mark.req("AD-04")
@pytest.mark.parametrize(
    "spelt",
    [
        orjson.dumps(_SECRET).decode(),
        json.dumps(_SECRET),
        json.dumps(json.dumps({"inner": _SECRET})),
        json.dumps(json.dumps(json.dumps([_SECRET], ensure_ascii=False))),
        json.dumps(base64.b64encode(_SECRET.encode()).decode()),
        json.dumps(base64.b64encode(f"user:{_SECRET}".encode()).decode()),
        json.dumps(base64.urlsafe_b64encode(f"me:{_SECRET}:x".encode()).decode()),
        json.dumps("https://host/?q=" + quote(_SECRET)),
        json.dumps("https://host/?q=" + quote(_SECRET, safe="").lower()),
    ],
)
def test_every_spelling_becomes_the_same_token(redactor: Redactor, spelt: str) -> None:
    """However it is spelt, the value leaves its one token and no trace, in a key as in a value."""
    token = redactor.token("t", _SECRET)
    for text in (f'{{"a":{spelt},"b":2}}', f"[{spelt},{{{spelt}:null}}]"):
        redacted = redactor.redact("t", text.encode())
        assert token.encode() in redacted
        orjson.loads(redacted)
        assert not [one for one in spellings(_SECRET) if one in redacted]


def test_tokens_are_stable_within_a_tenant_and_differ_between_tenants(tmp_path: Path, redactor: Redactor) -> None:
    """Equal stays equal, also in another process; two tenants' tokens say nothing of each other."""
    again = make_redactor(tmp_path, HeldValues())
    assert redactor.token("t", _SECRET) == again.token("t", _SECRET)
    assert redactor.token("t", _SECRET) != redactor.token("u", _SECRET)
    assert len(redactor.token("t", _SECRET)) == len("[secret:0123456789ab]")
    elsewhere = make_redactor(tmp_path / "other", HeldValues())
    assert elsewhere.token("t", _SECRET) != redactor.token("t", _SECRET)


def test_a_tenant_is_redacted_by_its_own_values(redactor: Redactor) -> None:
    """What is secret to one tenant is plain text to another."""
    text = b'"only of u\'s"'
    assert redactor.redact("t", text) is text
    assert redactor.redact("u", text) != text


@pytest.mark.parametrize(
    "text", [b'{"pin":12345678}', b"[112345678.5]", b"12345678", b'{"a":12345678123456789012345678}']
)
def test_a_number_becomes_a_string_and_json_stays_json(redactor: Redactor, text: bytes) -> None:
    """A secret in the digits of a number is taken out without breaking the document."""
    redacted = redactor.redact("t", text)
    assert b"12345678" not in redacted
    assert redactor.token("t", "12345678") in json.dumps(parse_json(redacted))


def test_an_escape_is_not_cut_in_half(tmp_path: Path) -> None:
    """A value that seems to begin inside an escape does not leave a broken document."""
    redactor = make_redactor(tmp_path, HeldValues(t=["nabcdefgh"]))
    text = canonical_json({"a": "\nabcdefgh", "b": "nabcdefgh"})
    redacted = parse_json(redactor.redact("t", text))
    assert redacted["a"] == "\nabcdefgh"
    assert redacted["b"] == redactor.token("t", "nabcdefgh")


def test_text_that_is_no_json_is_redacted_too(redactor: Redactor) -> None:
    """Tags and other plain texts go the same way."""
    assert (
        redactor.redact("t", b"tag AKIA-something-long!")
        == f"tag {redactor.token('t', 'AKIA-something-long')}!".encode()
    )


@_shared_folder
@given(value=_JSON, data=st.data())
def test_json_stays_json_and_nothing_is_left(tmp_path: Path, value: Any, data: st.DataObject) -> None:
    """Secrets cut out of the document itself, whatever they are, leave JSON that holds none of them."""
    text = canonical_json(value)
    if len(text) < 8:
        return
    start = data.draw(st.integers(0, len(text) - 8))
    piece = text[start : start + data.draw(st.integers(8, 20))].decode("utf-8", "ignore")
    if len(piece.strip()) < 8 or "[secret:" in piece:
        return
    redactor = make_redactor(tmp_path, HeldValues(t=[piece]))
    redacted = redactor.redact("t", text)
    parse_json(redacted)
    assert redactor.redact("t", redacted) == redacted


@_shared_folder
@given(value=_JSON)
def test_what_holds_no_secret_is_not_touched(tmp_path: Path, value: Any) -> None:
    """Redaction changes nothing but secrets."""
    redactor = make_redactor(tmp_path, HeldValues(t=["unlikely-to-be-drawn-7Qx"]))
    text = canonical_json(value)
    assert redactor.redact("t", text) is text


def test_values_are_read_once_and_looked_for_again_each_second(tmp_path: Path) -> None:
    """A change elsewhere is noticed within a second, at the price of one look per second."""
    known, clock = HeldValues(t=["first-secret"]), Time()
    redactor = make_redactor(tmp_path, known, monotonic=clock)
    for _ in range(100):
        redactor.redact("t", b'"x"')
    assert (known.looks, known.reads) == (1, 1)
    known.put("t", "first-secret", "second-secret")
    clock.now += 1.0
    assert b"second-secret" not in redactor.redact("t", b'"second-secret"')
    assert (known.looks, known.reads) == (2, 2)
    clock.now += 1.0
    redactor.redact("t", b'"x"')
    assert (known.looks, known.reads) == (3, 2)


def test_what_this_process_changed_or_revealed_is_known_at_once(tmp_path: Path) -> None:
    """No text passes between a change here and the look that notices it."""
    known, clock = HeldValues(), Time()
    redactor = make_redactor(tmp_path, known, monotonic=clock)
    assert redactor.redact("t", b'"first-secret"') == b'"first-secret"'
    known.put("t", "first-secret")
    redactor.changed("t")
    assert b"first" not in redactor.redact("t", b'"first-secret"')
    known.put("t", "first-secret", "second-secret")
    redactor.revealed("t", "second-secret")
    assert "second-secret" not in redactor.redact_text("a line with second-secret, first-secret")
    assert "first-secret" not in redactor.redact_text("a line with second-secret, first-secret")
    assert b"second" not in redactor.redact("t", b'"second-secret"')
    looks = known.looks
    redactor.revealed("t", "second-secret")
    redactor.redact("t", b'"x"')
    assert known.looks == looks


def test_on_a_loop_a_text_is_redacted_only_while_no_look_is_due(tmp_path: Path) -> None:
    """What would read the vault, or take long, is left to a thread; nothing passes by what was known a second ago."""
    known, clock = HeldValues(t=["first-secret"]), Time()
    redactor = make_redactor(tmp_path, known, monotonic=clock)
    assert redactor.redact_now("t", b'"x"') is None
    redactor.redact("t", b'"x"')
    clean = redactor.redact_now("t", b'"first-secret"')
    assert clean is not None
    assert b"first-secret" not in clean
    assert redactor.redact_now("t", b'"%s"' % (b"x" * 100_000)) is None
    redactor.changed("t")
    assert redactor.redact_now("t", b'"x"') is None
    redactor.redact("t", b'"x"')
    clock.now += 1.0
    assert redactor.redact_now("t", b'"x"') is None
    assert known.reads == 1


def test_a_notice_that_comes_during_a_look_is_not_lost(tmp_path: Path) -> None:
    """A change announced while values are being read leads to another look."""

    class Slow(HeldValues):
        def values(self, tenant_id: str) -> list[str]:
            found = super().values(tenant_id)
            if self.reads == 1:
                self.put("t", "first-secret", "second-secret")
                redactor.changed("t")
            return found

    known = Slow(t=["first-secret"])
    redactor = make_redactor(tmp_path, known, monotonic=Time())
    redactor.redact("t", b'"x"')
    assert b"second" not in redactor.redact("t", b'"second-secret"')


def test_where_values_cannot_be_read_nothing_passes(tmp_path: Path) -> None:
    """A store that cannot say what is secret stops what would be recorded."""

    class Broken(HeldValues):
        def changes(self, tenant_id: str) -> int:
            raise OSError(f"no store for {tenant_id}")

    with pytest.raises(OSError, match="no store"):
        make_redactor(tmp_path, Broken()).redact("t", b'"x"')


def test_plain_text_is_redacted_for_one_tenant_or_for_all(redactor: Redactor) -> None:
    """A log line belongs to nobody, so every known value is taken out of it; no value is read for it."""
    redactor.prepare("t")
    redactor.prepare("u")
    line = f"failed with {_SECRET} and only of u's"
    cleaned = redactor.redact_text(line)
    assert (
        cleaned == f"failed with {redactor.token('t', _SECRET)} and {redactor.token('u', 'only of u' + chr(39) + 's')}"
    )
    assert redactor.redact_text(line, tenant_id="u").startswith(f"failed with {_SECRET}")
    assert redactor.redact_text("\ud800 nothing") == "\ud800 nothing"


def test_echoes_of_marked_fields_are_found_in_any_spelling(redactor: Redactor) -> None:
    """What a caller passed in a marked field is taken out of the answer as well."""
    schema = {"properties": {"auth": {"properties": {"key": {"writeOnly": True}}}, "id": {"type": "string"}}}
    params = {"auth": {"key": "never-stored-value"}, "id": "order-12345"}
    stored = redactor.redact_marked("t", schema, params)
    token = redactor.token("t", "never-stored-value")
    assert stored == {"auth": {"key": token}, "id": "order-12345"}
    answer = canonical_json({"sent": base64.b64encode(b"never-stored-value").decode(), "for": "order-12345"})
    assert parse_json(redactor.redact_echoes("t", schema, params, answer)) == {"sent": token, "for": "order-12345"}


def test_credentials_nobody_registered_are_taken_out_by_option(tmp_path: Path) -> None:
    """With the option on, what looks like a credential becomes a stable token; identifiers stay."""
    redactor = make_redactor(tmp_path, HeldValues(t=["known-secret"]), detect=True)
    text = b'{"key":"sk-proj-4fJ2kQ9xTz81LmNp","order":"#W2378156","id":"5f9c3a52-1b7e-4c0e-9b6a-0d6f2c1e8a77"}'
    first = parse_json(redactor.redact("t", text))
    assert first["key"].startswith("[secret:")
    assert (first["order"], first["id"]) == ("#W2378156", "5f9c3a52-1b7e-4c0e-9b6a-0d6f2c1e8a77")
    assert redactor.redact("t", text) == canonical_json(first) or parse_json(redactor.redact("t", text)) == first
    assert "sk-proj" not in redactor.redact_text("Bearer sk-proj-4fJ2kQ9xTz81LmNp")
    assert redactor.token("t", "sk-proj-4fJ2kQ9xTz81LmNp") == first["key"]
    # Ids and keys look random because they are: in them only known values are replaced.
    assert redactor.redact_known("t", b"sk-proj-4fJ2kQ9xTz81LmNp") == b"sk-proj-4fJ2kQ9xTz81LmNp"
    assert redactor.redact_known("t", b"for known-secret").startswith(b"for [secret:")


def test_it_costs_next_to_nothing_when_nothing_is_there(tmp_path: Path) -> None:
    """The call path pays at most a few microseconds, and no more with a hundred secrets than with one."""
    text = canonical_json(
        {"order_id": "#W2378156", "items": ["1008292230", "4107812777"], "reason": "no longer needed"}
    )
    times: list[float] = []
    for count in (1, 100):
        held = HeldValues(t=[base64.b64encode(bytes([number]) * 20).decode() + str(number) for number in range(count)])
        redactor = make_redactor(tmp_path, held)
        redactor.prepare("t")
        best = min(_cpu_seconds(redactor, text) for _ in range(7))
        times.append(best)
    assert times[1] < 4 * times[0]
    assert max(times) < 6e-6


def _cpu_seconds(redactor: Redactor, text: bytes) -> float:
    redact, rounds = redactor.redact, 2000
    begin = time.process_time()
    for _ in range(rounds):
        redact("t", text)
    return (time.process_time() - begin) / rounds
