"""Models a trace: records as nodes, and links that lead from what came before to what came of it. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

MOST_LINKS: Final = 200
"""How many records of one kind are followed from one record."""


class TraceKey(NamedTuple):
    """The kind and the id of a record."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One record, in a line: what it is, how it stands, and who and when."""

    key: TraceKey
    title: str
    at: str | None = None
    status: str | None = None
    actor: str | None = None
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    def as_json(self) -> dict[str, Any]:
        return {
            "key": str(self.key),
            "kind": self.key.kind,
            "id": self.key.id,
            "title": self.title,
            "at": self.at,
            "status": self.status,
            "actor": self.actor,
            "facts": self.facts,
        }


Links = Iterator[tuple[TraceKey | TraceNode, str]]
"""Records that a record leads to, each looked up or to be looked up, and a word for how."""


class TraceLink(NamedTuple):
    """From what came before to what came of it."""

    before: TraceKey
    after: TraceKey
    word: str

    def as_json(self) -> dict[str, Any]:
        return {"before": str(self.before), "after": str(self.after), "word": self.word}


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything before and after one record."""

    tenant_id: str
    start: TraceKey
    nodes: dict[TraceKey, TraceNode]
    links: tuple[TraceLink, ...]
    is_cut: bool
    """Whether there is more than was followed."""

    def below(self, key: TraceKey) -> list[TraceLink]:
        """Return the successors of a record."""
        return [link for link in self.links if link.before == key]

    def roots(self) -> list[TraceKey]:
        """Return the records that nothing came before, the oldest first."""
        led_to = {link.after for link in self.links}
        found = [key for key in self.nodes if key not in led_to] or [self.start]
        return sorted(found, key=lambda key: (self.nodes[key].at or "", key))

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "start": str(self.start),
            "nodes": [node.as_json() for node in self.nodes.values()],
            "links": [link.as_json() for link in self.links],
            "is_cut": self.is_cut,
        }
