"""Guards against SSRF: connectors reach the public Internet, and only those private addresses that the operator names.

Whoever writes a tool's endpoint, and every server that answers with a redirect, chooses an address for us. Names and
spellings say nothing (`127.1`, `2130706433` and a name that an attacker's DNS answers are all the loopback), so the
address that is about to be connected to is judged, and the connection goes to that address and no other.

Special ranges are listed here and not asked of `ipaddress`: its `is_global` changed between Python releases, and is
true for addresses that a translator on the way turns into private ones.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

from twinraven.foundation.errors import InvalidSetting, PolicyViolation, ToolUnavailable
from twinraven.storage import forget_after_fork

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

Resolve = Callable[[str, int], Awaitable[list[Address]]]
"""All addresses of a name; raises OSError where it has none."""

MAX_ADDRESSES = 8
MAX_HOST_CHARS = 253
_THREADS = 8

_SPECIAL_V4 = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    168.63.129.16/32
"""  # the last is public, but inside one cloud it is the host that hands out credentials
_GLOBAL_V6 = "2000::/3"
_SPECIAL_V6 = "2001::/23 2001:db8::/32 2002::/16 3fff::/20"
_CARRIES_V4 = "::ffff:0:0/96 64:ff9b::/96"  # a mapped address, and one that NAT64 translates

_NUMERIC_LABEL = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?")


@cache
def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(item) for item in text.split())


def is_public(address: Address) -> bool:
    """Return whether an address leads to the public Internet, through any translation on the way."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _networks(_SPECIAL_V4))
    if any(address in network for network in _networks(_CARRIES_V4)):
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    if any(address in network for network in _networks(_SPECIAL_V6)):
        return False
    return address in _networks(_GLOBAL_V6)[0]


@dataclass(frozen=True, slots=True)
class AddressRules:
    """An allow-list of addresses: public ones, and these networks."""

    allowed: tuple[Network, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> AddressRules:
        """Rules from settings: addresses such as 127.0.0.1 and networks such as 10.0.0.0/8."""
        networks: list[Network] = []
        for text in texts:
            try:
                networks.append(ipaddress.ip_network(text))
            except ValueError as error:
                raise InvalidSetting(
                    f"{text!r} is neither an address nor a network: {error}", field="connectors.allow_private"
                ) from None
        return cls(tuple(networks))

    def permits(self, address: Address) -> bool:
        return is_public(address) or any(address in network for network in self.allowed)


def check_host(host: str) -> str:
    """Return a host as it goes into a request: lower case, ASCII, without a final dot.

    Disguised addresses are refused.
    """
    if len(host) > MAX_HOST_CHARS:
        raise _refused(host, "is longer than a host name can be")
    if ":" in host:
        return _checked_v6(host)
    try:
        plain = host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        raise _refused(host, "is not a host name") from None
    if _NUMERIC_LABEL.fullmatch(plain.rpartition(".")[2]):
        try:
            return str(ipaddress.IPv4Address(plain))
        except ValueError:
            raise _refused(host, "is an address in a disguise; write four decimal numbers") from None
    if _NAME.fullmatch(plain) is None or ".." in plain:
        raise _refused(host, "is not a host name")
    return plain


def _checked_v6(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        raise _refused(host, "is not an IPv6 address") from None
    if address.scope_id is not None:
        raise _refused(host, "names a network interface")
    return str(address)


_ADVICE = "the operator can allow it in connectors.allow_private"


class AddressGuard:
    """Finds the addresses of a host, and hands out only those that the rules permit."""

    def __init__(self, rules: AddressRules, *, resolve: Resolve | None = None, advice: str = _ADVICE) -> None:
        """`advice` is what a refusal says besides."""
        self.rules = rules
        self._resolve = resolve or SystemResolver()
        self._advice = advice

    def strict(self) -> AddressGuard:
        """Return the same without exceptions, for where a stranger sends us."""
        advice = "a redirect may not lead inside, whatever the operator allows its tools"
        return AddressGuard(AddressRules(), resolve=self._resolve, advice=advice)

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Resolve and check the addresses of a host; raise PolicyViolation if every one is forbidden."""
        plain = check_host(host)
        literal = _literal(plain)
        try:
            found = [literal] if literal is not None else await self._resolve(plain, port)
        except OSError as error:
            raise ToolUnavailable(f"the host {plain!r} cannot be resolved: {error.strerror or error}") from error
        permitted = [address for address in dict.fromkeys(found) if self.rules.permits(address)]
        if not permitted:
            raise _refused(plain, f"leads to an address that is not public; {self._advice}")
        return permitted[:MAX_ADDRESSES]


class SystemResolver:
    """Asks the system's resolver, on threads of its own: a DNS that hangs must not keep others from theirs."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        forget_after_fork(self)

    async def __call__(self, host: str, port: int) -> list[Address]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="twinraven-dns")
        return await asyncio.get_running_loop().run_in_executor(self._threads, _ask_system, host, port)

    def after_fork(self) -> None:
        """A child has none of the threads."""
        self._threads = None


def _ask_system(host: str, port: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(place[0])) for _, _, _, _, place in found]


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _refused(host: str, why: str) -> PolicyViolation:
    return PolicyViolation(f"the host {host[:100]!r} {why}", rule="connectors.addresses", host=host[:100])
