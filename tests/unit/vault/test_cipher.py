"""Sealed values open in their own place, unchanged, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twinraven.audit import KeyRing
from twinraven.vault import SecretUnreadable
from twinraven.vault.cipher import Cipher, SealBinding, SealedValue

_PLACE = SealBinding("t", "s", 1, "ada")


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> KeyRing:
    return KeyRing(tmp_path_factory.mktemp("keys") / "kek.json")


def seal(ring: KeyRing, value: bytes = b"hunter2", place: SealBinding = _PLACE) -> SealedValue:
    return Cipher(ring).seal(value, place, kek_id=ring.active().id)


@given(value=st.binary(max_size=300))
def test_what_goes_in_comes_out(ring: KeyRing, value: bytes) -> None:
    """Any value opens to itself."""
    assert Cipher(ring).open(seal(ring, value), _PLACE) == value


@pytest.mark.req("AD-04")
def test_nothing_of_the_value_is_in_what_is_stored(ring: KeyRing) -> None:
    """The stored form holds no part of the value and is another one each time."""
    first, second = seal(ring, b"correct horse battery"), seal(ring, b"correct horse battery")
    assert b"correct" not in first.ciphertext + first.wrapped_key
    assert first.ciphertext != second.ciphertext
    assert first.wrapped_key != second.wrapped_key


@pytest.mark.req("AD-04")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.sampled_from(["ciphertext", "wrapped_key"]), place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_every_flipped_bit_is_refused(ring: KeyRing, part: str, place: int, bit: int) -> None:
    """No single bit of what is stored can change unnoticed."""
    sealed = seal(ring)
    body = bytearray(getattr(sealed, part))
    body[place % len(body)] ^= 1 << bit
    damaged = (
        replace(sealed, ciphertext=bytes(body)) if part == "ciphertext" else replace(sealed, wrapped_key=bytes(body))
    )
    with pytest.raises(SecretUnreadable):
        Cipher(ring).open(damaged, _PLACE)


@pytest.mark.req("AD-04")
@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(_PLACE, tenant_id="u"),
        replace(_PLACE, secret_id="other"),
        replace(_PLACE, version=2),
        replace(_PLACE, owner_id="bob"),
        SealBinding("ts", "", 1, "ada"),
    ],
)
def test_a_value_opens_in_its_own_place_alone(ring: KeyRing, elsewhere: SealBinding) -> None:
    """Moved to another tenant, secret, version or owner it does not open."""
    with pytest.raises(SecretUnreadable):
        Cipher(ring).open(seal(ring), elsewhere)


def test_parts_of_two_values_do_not_fit_together(ring: KeyRing) -> None:
    """A wrapped key of one version does not open the text of another, and text is not key."""
    one, two = seal(ring), seal(ring, b"other")
    for mixed in (
        replace(one, ciphertext=two.ciphertext),
        replace(one, wrapped_key=two.wrapped_key),
        replace(one, wrapped_key=one.ciphertext),
        replace(one, ciphertext=b""),
        replace(one, wrapped_key=one.wrapped_key[:20]),
    ):
        with pytest.raises(SecretUnreadable):
            Cipher(ring).open(mixed, _PLACE)


def test_a_wrapping_names_its_key(tmp_path: Path) -> None:
    """A data key wrapped by one generation does not pass as wrapped by another, and an unknown one is named."""
    ring = KeyRing(tmp_path / "kek.json")
    sealed = seal(ring)
    renewed = ring.renew()
    with pytest.raises(SecretUnreadable):
        Cipher(ring).open(replace(sealed, kek_id=renewed.id), _PLACE)
    with pytest.raises(SecretUnreadable, match="f" * 32):
        Cipher(ring).open(replace(sealed, kek_id="f" * 32), _PLACE)


def test_rewrapping_changes_the_wrapping_alone(tmp_path: Path) -> None:
    """The value's own text stays, and the old key is no longer needed."""
    ring = KeyRing(tmp_path / "kek.json")
    old = seal(ring)
    fresh = ring.renew()
    new = Cipher(ring).rewrap(old, _PLACE, kek_id=fresh.id)
    assert new.ciphertext == old.ciphertext
    ring.drop([old.kek_id])
    assert Cipher(ring).open(new, _PLACE) == b"hunter2"
    with pytest.raises(SecretUnreadable):
        Cipher(ring).open(old, _PLACE)


def test_an_error_does_not_repeat_what_it_is_about(ring: KeyRing) -> None:
    """The message names the secret by id and holds no byte of it."""
    with pytest.raises(SecretUnreadable) as refusal:
        Cipher(ring).open(replace(seal(ring), ciphertext=b"\x01hunter2hunter2"), _PLACE)
    assert "hunter2" not in refusal.value.message + repr(refusal.value.details)
    assert refusal.value.__cause__ is None
