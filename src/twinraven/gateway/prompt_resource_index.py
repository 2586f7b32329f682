"""Indexes what upstream servers offer besides tools: prompts, resources and resource templates.

Their lists are asked for when a client asks, all servers at once and each for a bounded time: a server that is down or
hangs is missing from the answer, and the log says so. What each server listed last is remembered, to find the one that
a name or an address belongs to. Prompts are named like tools. A resource keeps its server's URI; one
that more than one server lists is qualified with its server, also while one of them is down, so that no server can put
its own content under another's URI.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from twinraven.connectors import UpstreamCapabilities, upstream_tool_id
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput, NotFound, TwinRavenError
from twinraven.gateway.uris import is_qualified, matches, origin, qualified, scheme, unqualified

Definition = dict[str, Any]

_LIST_S: Final = 10.0
_LONGEST_DEFINITION: Final = 256 * 1024
_LONGEST_URI: Final = 64 * 1024
_logger = logging.getLogger("twinraven.gateway")

MayUse = Callable[[str, str | None, str], bool]
"""Whether a caller of a tenant may call a tool of this name, or use what is named like one."""


@dataclass(frozen=True, slots=True)
class ListKind:
    """One kind of list: prompts, resources or resource templates."""

    method: str
    member: str
    identity: str
    """The field that tells the definitions of one server apart."""
    ability: Literal["prompts", "resources"]
    most: int


PROMPTS: Final = ListKind("prompts/list", "prompts", "name", "prompts", 2_000)
RESOURCES: Final = ListKind("resources/list", "resources", "uri", "resources", 10_000)
TEMPLATES: Final = ListKind("resources/templates/list", "resourceTemplates", "uriTemplate", "resources", 500)


@dataclass(frozen=True, slots=True)
class LocatedItem:
    """The location of a prompt or a resource: its server, and its name there."""

    server: str
    identity: str
    is_qualified: bool = False


class ListingServers(Protocol):
    """Lists prompts and resources of the upstream servers."""

    @property
    def tenant_id(self) -> str: ...

    def abilities(self) -> dict[str, UpstreamCapabilities]: ...

    async def listed(self, tenant_id: str, server: str, method: str, member: str, *, most: int) -> list[Definition]: ...


class PromptResourceIndex:
    """Lists and finds prompts and resources."""

    def __init__(
        self,
        upstreams: ListingServers,
        may_use: MayUse,
        *,
        ready: Callable[[], Awaitable[None]],
        list_s: float = _LIST_S,
        prefix: bool = True,
    ) -> None:
        """`ready` returns when the first list can be made; `prefix` names every prompt after its server."""
        self._prefix = prefix
        self._upstreams = upstreams
        self._may_use = may_use
        self._ready = ready
        self._list_s = list_s
        self._kept: dict[tuple[ListKind, str], list[Definition]] = {}
        self._stale: set[tuple[ListKind, str]] = set()

    async def listing(self, tenant_id: str, caller: str | None, kind: ListKind) -> list[Definition]:
        """List what all answering servers show the caller, in the order of the configuration."""
        if tenant_id != self._upstreams.tenant_id:
            return []
        await self._ready()
        answered = await self._ask(kind, self._servers(kind))
        claims = self._claims(kind)
        shown: list[Definition] = []
        for server in answered:
            for definition in self._kept[kind, server]:
                identity = self._shown(kind, server, definition[kind.identity], claims)
                if self._may_use(tenant_id, caller, _rule_id(kind, server, definition[kind.identity])):
                    shown.append({**definition, kind.identity: identity})
        return shown

    async def find_prompt(self, tenant_id: str, caller: str | None, name: str) -> LocatedItem:
        """Find the prompt that is shown under this name, to a caller who may use it."""
        if tenant_id == self._upstreams.tenant_id:
            for is_fresh in (False, True):
                await self._know(PROMPTS, anew=is_fresh)
                found = self._named_prompt(name)
                if found is not None and self._may_use(tenant_id, caller, _rule_id(PROMPTS, *found)):
                    return LocatedItem(*found)
        raise NotFound(f"no prompt {name[:200]!r}", field="name")

    async def find_resource(self, tenant_id: str, caller: str | None, uri: str) -> LocatedItem:
        """Find the resource at this address, for a caller who may use it."""
        if len(uri) > _LONGEST_URI:
            raise InvalidInput(f"the address is longer than {_LONGEST_URI} characters", field="uri")
        servers = await self._holders(uri) if tenant_id == self._upstreams.tenant_id else []
        named = unqualified(uri)
        inner = uri if named is None else named[1]
        allowed = [server for server in servers if self._may_use(tenant_id, caller, qualified(server, inner))]
        if not allowed:
            raise NotFound(f"no resource {uri[:200]!r}", field="uri", fix="name its server: twinraven://SERVER/ADDRESS")
        if len(allowed) > 1:
            choices = [qualified(server, inner) for server in allowed]
            raise InvalidInput(f"several servers may have this address: use one of {', '.join(choices)}", field="uri")
        return LocatedItem(allowed[0], inner, is_qualified=named is not None)

    async def find_template(self, tenant_id: str, caller: str | None, template: str) -> LocatedItem:
        """Find the template that is shown as this, or the resource at this address."""
        if tenant_id == self._upstreams.tenant_id and not is_qualified(template):
            await self._know(TEMPLATES)
            servers = self._listing(TEMPLATES, template)
            if len(servers) == 1 and self._may_use(tenant_id, caller, qualified(servers[0], template)):
                return LocatedItem(servers[0], template)
        return await self.find_resource(tenant_id, caller, template)

    def forget(self, server: str, ability: str) -> None:
        """Invalidate the cached lists of a server: they are fetched again before they are used."""
        self._stale |= {key for key in self._kept if key[1] == server and key[0].ability == ability}

    # Inside.

    def _servers(self, kind: ListKind) -> list[str]:
        return [name for name, able in self._upstreams.abilities().items() if getattr(able, kind.ability)]

    async def _know(self, *kinds: ListKind, anew: bool = False) -> None:
        """Have a list of each server, if it can be had: the last one, where nothing says that it is another now."""
        await self._ready()
        asking: list[Awaitable[list[str]]] = []
        for kind in kinds:
            every = self._servers(kind)
            needed = [name for name in every if anew or (kind, name) not in self._kept or (kind, name) in self._stale]
            asking += [self._ask(kind, needed)] if needed else []
        await asyncio.gather(*asking)

    async def _ask(self, kind: ListKind, servers: Iterable[str]) -> list[str]:
        """Ask these for their lists; the names of those that answered."""
        asked = list(servers)
        answers = await asyncio.gather(*(self._ask_one(kind, server) for server in asked))
        return [server for server, answered in zip(asked, answers, strict=True) if answered]

    async def _ask_one(self, kind: ListKind, server: str) -> bool:
        upstreams = self._upstreams
        self._stale.discard((kind, server))
        try:
            async with asyncio.timeout(self._list_s):
                found = await upstreams.listed(upstreams.tenant_id, server, kind.method, kind.member, most=kind.most)
        except (TwinRavenError, TimeoutError) as error:
            reason = str(error) or f"no answer in {self._list_s:g} s"
            _logger.warning("the %s of %r are missing: %s", kind.member, server, reason)
            self._stale.add((kind, server))
            return False
        self._kept[kind, server] = _usable(kind, server, found)
        return True

    def _claims(self, kind: ListKind) -> Counter[str]:
        """Return how many servers list each address."""
        of_kind = [found for (listed, _), found in self._kept.items() if listed is kind]
        return Counter(identity for found in of_kind for identity in {entry[kind.identity] for entry in found})

    def _named_prompt(self, name: str) -> tuple[str, str] | None:
        """Server and name of the prompt that is shown under this name, or has it with its server's."""
        claims = self._claims(PROMPTS)
        for server in self._servers(PROMPTS):
            for definition in self._kept.get((PROMPTS, server), ()):
                own = definition["name"]
                if name in (upstream_tool_id(server, own), self._shown(PROMPTS, server, own, claims)):
                    return server, own
        return None

    def _shown(self, kind: ListKind, server: str, identity: str, claims: Counter[str]) -> str:
        if kind is PROMPTS:
            is_bare = not self._prefix and claims[identity] == 1
            return identity if is_bare else upstream_tool_id(server, identity)
        return qualified(server, identity) if claims[identity] > 1 or is_qualified(identity) else identity

    async def _holders(self, uri: str) -> list[str]:
        """Return the servers that may have the resource at an address."""
        await self._ready()
        servers = self._servers(RESOURCES)
        if is_qualified(uri):
            named = unqualified(uri)
            return [] if named is None or named[0] not in servers else [named[0]]
        if len(servers) == 1:
            return servers
        for is_fresh in (False, True):
            await self._know(RESOURCES, TEMPLATES, anew=is_fresh)
            found = self._listing(RESOURCES, uri) or self._producing(uri)
            if found:
                return found
        return self._using(origin, uri) or self._using(scheme, uri)

    def _listing(self, kind: ListKind, identity: str) -> list[str]:
        """Return those that list exactly this; a slash at the end is often a client's, not the server's."""
        for wanted in ({identity}, {identity, identity.rstrip("/"), f"{identity}/"}):
            every = [(server, self._kept.get((kind, server), ())) for server in self._servers(kind)]
            found = [server for server, known in every if any(entry[kind.identity] in wanted for entry in known)]
            if found:
                return found
        return []

    def _producing(self, uri: str) -> list[str]:
        every = [(server, self._kept.get((TEMPLATES, server), ())) for server in self._servers(TEMPLATES)]
        return [server for server, known in every if any(matches(entry["uriTemplate"], uri) for entry in known)]

    def _using(self, part: Callable[[str], str], uri: str) -> list[str]:
        """Return the servers that list anything with the same beginning: an unlisted URI is shown to no others."""
        wanted = part(uri)
        return [
            server
            for server in self._servers(RESOURCES)
            if any(
                part(entry[kind.identity]) == wanted
                for kind in (RESOURCES, TEMPLATES)
                for entry in self._kept.get((kind, server), ())
            )
        ]


def _rule_id(kind: ListKind, server: str, identity: str) -> str:
    """Return the name by which rules on callers know it."""
    return upstream_tool_id(server, identity) if kind is PROMPTS else qualified(server, identity)


def _usable(kind: ListKind, server: str, found: list[Definition]) -> list[Definition]:
    """Return what of a server's list can be passed on; what cannot is left out, and said."""
    usable = [entry for entry in found[: kind.most] if _is_usable(kind, entry)]
    if len(usable) < len(found):
        _logger.warning(
            "%d of the %s of %r are left out: too many, too long, or without %s",
            len(found) - len(usable),
            kind.member,
            server,
            kind.identity,
        )
    return usable


def _is_usable(kind: ListKind, definition: Definition) -> bool:
    identity = definition.get(kind.identity)
    return isinstance(identity, str) and bool(identity) and len(canonical_json(definition)) <= _LONGEST_DEFINITION
