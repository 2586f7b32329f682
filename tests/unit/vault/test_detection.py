"""Credentials are recognised by form and by randomness; identifiers are not credentials."""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.vault.detection import find_credentials


def found(text: bytes) -> list[bytes]:
    return [text[start:end] for start, end in find_credentials(text)]


@pytest.mark.parametrize(
    "credential",
    [
        b"sk-ant-api03-a1b2c3d4e5f6g7h8",
        b"sk_live_abcdefghijklmnop12",
        b"AKIAIOSFODNN7EXAMPLE",
        b"ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        b"github_pat_11ABCDEFG0abcdefghijkl",
        b"glpat-abcdefghijklmnop1234",
        b"xoxb-123456789012-abcdefabcdef",
        b"AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
        b"tr_" + b"a" * 43,
        b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    ],
)
def test_known_forms_are_found_whole(credential: bytes) -> None:
    """A credential in the form its provider gives it is found, from its first character to its last."""
    for text in (credential, b'{"authorization":"Bearer ' + credential + b'"}', b"?key=" + credential + b"&x=1"):
        assert credential in found(text)


@pytest.mark.parametrize("end", ["\n", "\\n", "\\\\n"])
def test_private_keys_are_found_whole(end: str) -> None:
    """A private key is found from its first line to its last, with line ends as they are or escaped."""
    lines = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/yGw=", "-----END RSA PRIVATE KEY-----"]
    key = end.join(lines).encode()
    assert key in found(b'{"pem":"' + key + b'","n":1}')


@pytest.mark.parametrize(
    "text",
    [
        b"#W2378156",
        b"credit_card_9513926",
        b"ORD-2026-000123-XK42-77812",
        b"5F9C3A52-1B7E-4C0E-9B6A-0D6F2C1E8A77",
        b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        b"2026-11-15T22:43:07.527962Z",
        b"get_order_details_for_customer_and_items",
        b"ReadTimeoutErrorExceptionHandler2",
        b"https://example.com/Docs/Api/V2/GetOrderStatus_ById",
        b"sk-learn-extension-package-name",
        b"12345678901234567890123456789012",
        b"[secret:0123456789ab]",
    ],
)
def test_identifiers_are_left_alone(text: bytes) -> None:
    """Order numbers, UUIDs, hashes, dates, names and paths are what the record is about."""
    assert found(text) == []


@given(st.uuids(), st.binary(min_size=16, max_size=64))
def test_uuids_and_hashes_are_never_taken(one: uuid.UUID, digest: bytes) -> None:
    """No UUID and no hexadecimal text is flagged, in either case."""
    for text in (str(one), str(one).upper(), one.hex, digest.hex(), digest.hex().upper()):
        assert found(f'{{"id":"{text}"}}'.encode()) == []


@pytest.mark.parametrize(("encode", "size"), [(base64.urlsafe_b64encode, 24), (base64.b64encode, 32)])
def test_nearly_all_random_tokens_are_found(encode: Callable[[bytes], bytes], size: int) -> None:
    """Of tokens drawn by chance at least nineteen in twenty are flagged."""
    chance = random.Random(7)
    hits = sum(bool(found(b'{"t":"' + encode(chance.randbytes(size)) + b'"}')) for _ in range(500))
    assert hits >= 475


def test_the_threshold_can_be_moved() -> None:
    """A higher threshold takes less."""
    token = b"xY3" * 8
    assert list(find_credentials(token, entropy=1.0)) != []
    assert list(find_credentials(token, entropy=3.5)) == []
