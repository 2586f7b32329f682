"""Walks from one record to everything before and after it, in one read transaction.

Upwards the walk follows only what something comes from, so that the siblings of a task do not come along; downwards it
follows everything that came of the record it began at. Audit entries about each record found are added as leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.storage import Database, Transaction
from twinraven.tracing.model import Trace, TraceKey, TraceLink, TraceNode

MOST_NODES: Final = 1_000
_LONGEST_ID: Final = 700


class TraceSource(Protocol):
    """Knows records of some kinds and what links them."""

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds that it knows, the likeliest first."""
        ...

    def load(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        """Load a record, or None."""
        ...

    def identify(self, tx: Transaction, tenant_id: str, id: str) -> Iterable[TraceKey]:
        """Return the records that are called so in other words: an id outside, a key."""
        ...

    def before(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Iterable[tuple[TraceKey | TraceNode, str]]:
        """Return the predecessors of a record, each with the link's name; the record itself where it was read on the
        way.
        """
        ...

    def explains(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Iterable[tuple[TraceKey | TraceNode, str]]:
        """Return successors that explain a record; they are followed on the way up as well."""
        ...

    def after(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Iterable[tuple[TraceKey | TraceNode, str]]:
        """Return the successors of a record, each with the link's name."""
        ...


class Tracer:
    """Makes traces."""

    def __init__(self, database: Database, sources: Iterable[TraceSource]) -> None:
        self._database = database
        self._sources = tuple(sources)
        self._of_kind = {kind: source for source in self._sources for kind in source.kinds}

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._of_kind)

    async def trace(self, tenant_id: str, id: str) -> Trace:
        """The trace of whatever has this id, or NotFound; `kind:id` says which where several have."""
        if not id or len(id) > _LONGEST_ID or "\0" in id:
            raise InvalidInput(f"an id has 1 to {_LONGEST_ID} characters", field="id")

        def work(tx: Transaction) -> Trace:
            return _Walk(tx, tenant_id, self._of_kind).run(self._start(tx, tenant_id, id))

        return await self._database.read(tenant_id, work)

    def _start(self, tx: Transaction, tenant_id: str, id: str) -> TraceNode:
        for key in self._candidates(tx, tenant_id, id):
            found = self._of_kind[key.kind].load(tx, tenant_id, key)
            if found is not None:
                return found
        raise NotFound(f"nothing is called {id!r}", id=id)

    def _candidates(self, tx: Transaction, tenant_id: str, id: str) -> Iterator[TraceKey]:
        kind, separator, rest = id.partition(":")
        if separator and kind in self._of_kind:
            yield TraceKey(kind, rest)
        yield from (TraceKey(each, id) for each in self._of_kind)
        for source in self._sources:
            yield from source.identify(tx, tenant_id, id)


class _Walk:
    """One walk, and what it has found."""

    def __init__(self, tx: Transaction, tenant_id: str, of_kind: dict[str, TraceSource]) -> None:
        self._tx = tx
        self._tenant_id = tenant_id
        self._of_kind = of_kind
        self._nodes: dict[TraceKey, TraceNode] = {}
        self._links: dict[TraceLink, None] = {}
        self._is_cut = False

    def run(self, start: TraceNode) -> Trace:
        self._nodes[start.key] = start
        self._follow(start, up=True)
        self._follow(start, up=False)
        for node in [*self._nodes.values()]:
            if node.key.kind != "audit_entry":
                self._take_entries(node)
        return Trace(self._tenant_id, start.key, self._nodes, tuple(self._links), self._is_cut)

    def _follow(self, start: TraceNode, *, up: bool) -> None:
        pending, seen = deque([start]), {start.key}
        while pending:
            node = pending.popleft()
            source = self._of_kind[node.key.kind]
            above = source.before(self._tx, self._tenant_id, node) if up else ()
            below = (source.explains if up else source.after)(self._tx, self._tenant_id, node)
            for linked, word, is_above in (*((*each, True) for each in above), *((*each, False) for each in below)):
                found = self._node(linked)
                if found is None:
                    continue
                pair = (found.key, node.key) if is_above else (node.key, found.key)
                self._links[TraceLink(*pair, word)] = None
                if found.key not in seen:
                    seen.add(found.key)
                    pending.append(found)

    def _take_entries(self, node: TraceNode) -> None:
        entries = self._of_kind.get("audit_entry")
        if entries is not None:
            for linked, word in entries.after(self._tx, self._tenant_id, node):
                found = self._node(linked)
                if found is not None:
                    self._links[TraceLink(node.key, found.key, word)] = None

    def _node(self, linked: TraceKey | TraceNode) -> TraceNode | None:
        """Return the record behind a link, looked up unless the link brought it along."""
        key = linked.key if isinstance(linked, TraceNode) else linked
        known = self._nodes.get(key)
        if known is not None:
            return known
        if len(self._nodes) >= MOST_NODES:
            self._is_cut = True
            return None
        if isinstance(linked, TraceNode):
            found = linked
        else:
            source = self._of_kind.get(key.kind)
            found = None if source is None else source.load(self._tx, self._tenant_id, key)
        if found is not None:
            self._nodes[key] = found
        return found
