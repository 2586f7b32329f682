"""Where connectors may go, by address and by spelling."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.connectors import AddressGuard, AddressRules
from twinraven.connectors.addresses import Address, check_host, is_public
from twinraven.connectors.urls import parse_url
from twinraven.foundation.errors import InvalidDefinition, InvalidSetting, PolicyViolation, ToolUnavailable

# Ways to write an address that nobody should reach (most of them resolve on some system), and addresses of both kinds.
SPELLINGS, PRIVATE, PUBLIC = (
    Path(__file__).with_name(name).read_text(encoding="utf-8").split()
    for name in ("inner_spellings.txt", "inner_addresses.txt", "public_addresses.txt")
)


async def _resolve(host: str, port: int) -> list[Address]:
    del port
    names = {
        "localhost": ["::1", "127.0.0.1"],
        "inside.example": ["10.0.0.7"],
        "rebound.example": ["169.254.169.254"],
        "mixed.example": ["10.0.0.7", "93.184.216.34"],
        "outside.example": ["93.184.216.34"],
    }
    if host not in names:
        raise OSError(-2, "Name or service not known")
    return [ipaddress.ip_address(address) for address in names[host]]


GUARD = AddressGuard(AddressRules(), resolve=_resolve)


@pytest.mark.parametrize("text", PRIVATE)
def test_special_addresses_are_not_public(text: str) -> None:
    """Everything that leads inside, or nowhere, is told from the Internet."""
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text: str) -> None:
    """The neighbours of the special ranges are not taken for them."""
    assert is_public(ipaddress.ip_address(text))


@given(st.ip_addresses(v=4))
def test_an_address_in_disguise_is_judged_as_what_it_leads_to(address: ipaddress.IPv4Address) -> None:
    """A mapped address and one for NAT64 are as public as the IPv4 address they carry."""
    mapped = ipaddress.IPv6Address((0xFFFF << 32) | int(address))
    translated = ipaddress.IPv6Address((0x64FF9B << 96) | int(address))
    assert is_public(mapped) == is_public(translated) == is_public(address)


@given(st.ip_addresses())
def test_nothing_that_python_calls_private_is_public(address: Address) -> None:
    """Our table is at least as strict as the library's on what is private, looped back, local or multicast."""
    kinds = (address.is_private, address.is_loopback, address.is_link_local, address.is_multicast)
    assert not (is_public(address) and address.version == 4 and any(kinds))


@pytest.mark.parametrize("url", SPELLINGS)
async def test_no_spelling_of_an_inner_address_passes(url: str) -> None:
    """Whatever form an address is written in, it is refused before anybody connects to it."""

    async def look_up() -> None:
        origin = parse_url(url).origin
        await GUARD.addresses(origin.host, origin.port)

    with pytest.raises((PolicyViolation, InvalidDefinition)):
        await look_up()


def test_there_are_enough_spellings() -> None:
    """The list stays long."""
    assert len(set(SPELLINGS)) >= 60


async def test_only_permitted_addresses_are_handed_out() -> None:
    """A name with addresses inside and outside leads outside alone."""
    assert await GUARD.addresses("mixed.example", 443) == [ipaddress.ip_address("93.184.216.34")]


async def test_the_operator_can_allow_networks() -> None:
    """An allowed network is reached by address and by name; its neighbours are not."""
    guard = AddressGuard(AddressRules.of(["10.0.0.0/8", "127.0.0.1"]), resolve=_resolve)
    assert await guard.addresses("inside.example", 80) == [ipaddress.ip_address("10.0.0.7")]
    assert await guard.addresses("localhost", 80) == [ipaddress.ip_address("127.0.0.1")]
    assert await guard.addresses("127.0.0.1", 80) == [ipaddress.ip_address("127.0.0.1")]
    with pytest.raises(PolicyViolation, match=r"the operator can allow it in connectors\.allow_private"):
        await guard.addresses("127.0.0.2", 80)
    with pytest.raises(PolicyViolation):
        await guard.strict().addresses("127.0.0.1", 80)


@pytest.mark.parametrize("text", ["localhost", "10.0.0.0/33", "", "10.0.0.1/8"])
def test_a_wrong_network_is_named(text: str) -> None:
    """What is no network is refused where it was set, not when a call is made."""
    with pytest.raises(InvalidSetting, match="neither an address nor a network"):
        AddressRules.of([text])


async def test_a_name_without_an_address_is_unavailable() -> None:
    """Not to exist is not to be forbidden: it may exist again later."""
    with pytest.raises(ToolUnavailable, match=r"nowhere\.example"):
        await GUARD.addresses("nowhere.example", 80)


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("my_service", "my_service"),
        ("93.184.216.34", "93.184.216.34"),
        ("2606:4700:4700:0:0:0:0:1111", "2606:4700:4700::1111"),
    ],
)
def test_hosts_have_one_form(host: str, plain: str) -> None:
    """A host is sent as it was checked."""
    assert check_host(host) == plain


@given(st.text(max_size=300))
def test_any_text_is_a_host_or_is_refused(text: str) -> None:
    """No text raises anything but a refusal, and what passes passes again unchanged."""
    try:
        plain = check_host(text)
    except PolicyViolation:
        return
    assert check_host(plain) == plain
    assert plain.isascii()


async def test_a_resolver_that_hangs_blocks_nobody(loop_guard: object) -> None:
    """Names are resolved on threads of their own, so the loop goes on."""
    guard = AddressGuard(AddressRules.of(["127.0.0.0/8", "::1"]))
    begun = time.monotonic()
    found, _ = await asyncio.gather(guard.addresses("localhost", 80), asyncio.sleep(0))
    assert found
    assert time.monotonic() - begun < 5
