"""Offers the tools of upstream servers as a tool source, each pinned to the definition that was accepted.

A tool is accepted with the first words it uses. From then on no others are passed on: a description is what a model
acts on, so a server that changes one behind everybody's back could tell models what to do. Changed words are held back,
and a changed schema puts the tool into quarantine, until somebody has read them. What a tool says about its own
harmlessness is a suggestion; it counts as one that may change anything until its owner says otherwise.

Looking a tool up happens on every call, so it touches no database: a snapshot per tenant is read once, and again when
the catalogue's version has changed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.catalog import Effect, Sensitivity, ToolEntry, next_version
from twinraven.connectors.mcp import sql
from twinraven.connectors.mcp.errors import ToolQuarantined
from twinraven.connectors.mcp.model import Classification, Definition, PinnedTool, ToolChanges, definition_hash
from twinraven.connectors.mcp.observation import differences, is_same, name_tools, sort_out
from twinraven.connectors.mcp.rewording import is_rewording
from twinraven.connectors.mcp.suggestions import Suggestion, suggest
from twinraven.foundation.actors import Actor
from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.errors import InvalidInput, NotFound, StaleState, TwinRavenError
from twinraven.storage import Database, Transaction, forget_after_fork
from twinraven.tenancy import actor_of

CONNECTOR: Final = "mcp"
_ANYTHING: Final = {"type": "object"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Known:
    """One tool of the snapshot; the entry is made once, so that whoever compiled its schema need not do it again."""

    tool: PinnedTool
    entry: ToolEntry


class UpstreamTools:
    """The source of upstream tools, and the use cases of their owner."""

    def __init__(
        self,
        database: Database,
        *,
        audit: AuditLog | None = None,
        is_taken: Callable[[str, str], bool] | None = None,
        quarantines_words: bool = False,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        """`is_taken` says whether a tenant has a tool of this name from elsewhere; it may wait.

        `quarantines_words` puts a tool into quarantine for any other word, not only for what changes the tool.
        """
        self._database = database
        self._quarantines_words = quarantines_words
        self._is_taken = is_taken or _is_free
        self._audit = audit
        self._micros = micros
        self._timeouts: dict[str, int] = {}
        self._snapshots: dict[str, dict[str, _Known]] = {}
        self.after_fork()
        forget_after_fork(self)

    def after_fork(self) -> None:
        self._swap = threading.Lock()

    def set_timeout(self, server: str, timeout_ms: int) -> None:
        """Set the timeout of calls to this server's tools."""
        self._timeouts[server] = timeout_ms
        for tenant_id, snapshot in list(self._snapshots.items()):
            self._take(tenant_id, [known.tool for known in snapshot.values()])

    # What the catalogue asks.

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        known = self._snapshot(tenant_id).get(tool_id)
        return None if known is None or not known.tool.is_offered else known.entry

    def find_pinned(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """Find the same, also of a tool that is gone or in quarantine: it may be back, and then needs its name."""
        known = self._snapshot(tenant_id).get(tool_id)
        return None if known is None else known.entry

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        return [known.entry for known in self._snapshot(tenant_id).values() if known.tool.is_offered]

    def pinned(self, tenant_id: str, tool_id: str) -> PinnedTool | None:
        """Return the pinned definition of a tool, as it was accepted."""
        known = self._snapshot(tenant_id).get(tool_id)
        return None if known is None else known.tool

    def servers(self, tenant_id: str) -> set[str]:
        """Return the servers of which tools are known."""
        return {known.tool.server for known in self._snapshot(tenant_id).values()}

    def refuse_quarantined(self, tenant_id: str, tool_id: str) -> None:
        """Say of a tool that is there and cannot be called why that is so."""
        tool = self.pinned(tenant_id, tool_id)
        if tool is not None and tool.is_quarantined:
            raise ToolQuarantined(
                f"{tool_id!r} describes itself differently from what was accepted; somebody must look at it first",
                tool_id=tool_id,
                fix=f"twinraven tools accept {tool_id}",
            )

    # What its owner does.

    async def listed(self, tenant_id: str) -> list[PinnedTool]:
        """Return every tool there is, quarantined ones too."""
        return await self._database.read(tenant_id, lambda tx: self._all(tx, tenant_id))

    async def suggestions(self, tenant_id: str) -> list[Suggestion]:
        """Return suggested effects of the unclassified tools."""
        return [suggest(tool) for tool in await self.listed(tenant_id) if tool.classification is None]

    async def classify(
        self, tenant_id: str, tool_ids: Iterable[str], effect: Effect, *, sensitivity: Sensitivity | None, by: str
    ) -> list[PinnedTool]:
        """Say what tools do to the world; without a new sensitivity they keep the one they have."""
        wanted = list(tool_ids)
        if effect is Effect.UNKNOWN:
            raise InvalidInput("a tool is classified as read or write", field="effect")

        def work(tx: Transaction) -> list[PinnedTool]:
            return [
                self._classify(tx, tenant_id, tool_id, effect, sensitivity=sensitivity, by=by) for tool_id in wanted
            ]

        return await self._change(tenant_id, work)

    async def accept_suggestions(
        self, tenant_id: str, suggestions: Iterable[Suggestion], *, sensitivity: Sensitivity | None = None, by: str
    ) -> list[PinnedTool]:
        """Classify tools as was suggested, all at once; what is suggested otherwise by now, or classified, stays."""
        wanted = list(suggestions)

        def work(tx: Transaction) -> list[PinnedTool]:
            return [
                self._classify(tx, tenant_id, one.tool_id, one.effect, sensitivity=sensitivity, by=by, why=one.because)
                for one in wanted
                if self._still_holds(tx, tenant_id, one)
            ]

        return await self._change(tenant_id, work)

    async def accept(self, tenant_id: str, tool_ids: Iterable[str], *, by: str) -> list[PinnedTool]:
        """Take tools over with the definitions they have now; what their owner said of them stays said."""
        wanted = list(tool_ids)

        def work(tx: Transaction) -> list[PinnedTool]:
            return [self._accept(tx, tenant_id, tool_id, by=by) for tool_id in wanted]

        return await self._change(tenant_id, work)

    async def accept_seen(self, tenant_id: str, tool_id: str, *, seen: str, by: str) -> PinnedTool:
        """Take one tool over with the changed definition of this hash; another one by now is refused."""

        def work(tx: Transaction) -> PinnedTool:
            changed = self._one(tx, tenant_id, tool_id).changed
            if changed is None or definition_hash(changed) != seen:
                raise StaleState(f"{tool_id!r} describes itself otherwise than was shown", tool_id=tool_id)
            return self._accept(tx, tenant_id, tool_id, by=by)

        return await self._change(tenant_id, work)

    # What a server says.

    async def observe(self, tenant_id: str, server: str, definitions: Iterable[Definition]) -> ToolChanges:
        """Compare a server's list with what is pinned: the new is accepted, the changed held or quarantined."""
        listed, left_out = sort_out(definitions)
        every = await self._database.read(tenant_id, lambda tx: self._all(tx, tenant_id))
        # Other sources may have to look into their stores.
        names = await asyncio.to_thread(name_tools, server, listed, every, partial(self._is_taken, tenant_id))
        seen = {name: listed[name] for name in names.ids}
        left_out += names.left_out
        if not differences([tool for tool in every if tool.server == server], seen, is_held=self._is_held):
            return ToolChanges(left_out=left_out)

        def work(tx: Transaction) -> ToolChanges:
            found = self._all(tx, tenant_id, server=server)
            changes, at = differences(found, seen, is_held=self._is_held), self._micros()
            for tool in found:
                _note(tx, tenant_id, tool, seen.get(tool.name), at)
            for name in changes.added:
                by = f"first sight of {server}"
                sql.pin(tx, tenant_id, server, seen[name], tool_id=names.ids[name], by=by, at=at)
            apart = tuple((name, names.ids[name]) for name in names.apart)
            return replace(changes, named_apart=apart, left_out=left_out)

        return await self._change(tenant_id, work)

    def reload(self, tenant_id: str) -> None:
        """Read the snapshot anew, if there is one; for threads that may wait."""
        if tenant_id in self._snapshots:
            self._load(tenant_id)

    # Inside.

    def _all(self, tx: Transaction, tenant_id: str, *, server: str | None = None) -> list[PinnedTool]:
        return [self._judged(tool) for tool in sql.pinned_tools(tx, tenant_id, server=server)]

    def _one(self, tx: Transaction, tenant_id: str, tool_id: str) -> PinnedTool:
        return self._judged(_present(sql.pinned_tool(tx, tenant_id, tool_id), tool_id))

    def _judged(self, tool: PinnedTool) -> PinnedTool:
        is_held = tool.changed is not None and self._is_held(tool.definition, tool.changed)
        return replace(tool, is_held=True) if is_held else tool

    def _is_held(self, before: Definition, after: Definition) -> bool:
        return not self._quarantines_words and is_rewording(before, after)

    def _classify(
        self,
        tx: Transaction,
        tenant_id: str,
        tool_id: str,
        effect: Effect,
        *,
        sensitivity: Sensitivity | None,
        by: str,
        why: str | None = None,
    ) -> PinnedTool:
        known = self._one(tx, tenant_id, tool_id).classification
        kept = Sensitivity.LOW if known is None else known.sensitivity
        said = Classification(effect, sensitivity or kept, by, from_micros(self._micros()))
        sql.classify(tx, tenant_id, tool_id, said)
        data = {"effect": effect.value, "sensitivity": said.sensitivity.value}
        if why is not None:
            data["suggested_because"] = why
        self._witness(tx, _decision(tenant_id, "tool.classified", tool_id, actor_of(tx, tenant_id, by), data=data))
        return self._one(tx, tenant_id, tool_id)

    def _still_holds(self, tx: Transaction, tenant_id: str, suggestion: Suggestion) -> bool:
        tool = self._one(tx, tenant_id, suggestion.tool_id)
        return tool.classification is None and suggest(tool) == suggestion

    def _accept(self, tx: Transaction, tenant_id: str, tool_id: str, *, by: str) -> PinnedTool:
        tool = self._one(tx, tenant_id, tool_id)
        if tool.changed is not None:
            sql.pin(tx, tenant_id, tool.server, tool.changed, tool_id=tool_id, by=by, at=self._micros())
            hashes = {"before": definition_hash(tool.definition), "after": definition_hash(tool.changed)}
            actor = actor_of(tx, tenant_id, by)
            self._witness(tx, _decision(tenant_id, "tool.definition_accepted", tool_id, actor, data=hashes))
        return self._one(tx, tenant_id, tool_id)

    async def _change(self, tenant_id: str, work: Callable[[Transaction], T]) -> T:
        def changing(tx: Transaction) -> tuple[T, list[PinnedTool]]:
            done = work(tx)
            next_version(tx, tenant_id)
            return done, self._all(tx, tenant_id)

        done, tools = await self._database.write(tenant_id, changing)
        self._take(tenant_id, tools)
        return done

    def _witness(self, tx: Transaction, entry: NewAuditEntry) -> None:
        """What an owner decides is evidence, stored with the decision itself."""
        if self._audit is not None:
            self._audit.append(tx, entry)

    def _snapshot(self, tenant_id: str) -> dict[str, _Known]:
        found = self._snapshots.get(tenant_id)
        return self._load(tenant_id) if found is None else found

    def _load(self, tenant_id: str) -> dict[str, _Known]:
        return self._take(tenant_id, self._database.read_here(tenant_id, lambda tx: self._all(tx, tenant_id)))

    def _take(self, tenant_id: str, tools: list[PinnedTool]) -> dict[str, _Known]:
        with self._swap:
            before = self._snapshots.get(tenant_id, {})
            found = {tool.tool_id: self._known(tool, before.get(tool.tool_id)) for tool in tools}
            self._snapshots[tenant_id] = found
            return found

    def _known(self, tool: PinnedTool, before: _Known | None) -> _Known:
        timeout = self._timeouts.get(tool.server)
        if before is not None and before.tool == tool and before.entry.timeout_ms == timeout:
            return before
        return _Known(tool, to_entry(tool, timeout_ms=timeout))


def to_entry(tool: PinnedTool, *, timeout_ms: int | None = None) -> ToolEntry:
    """Return the catalogue entry of an upstream tool."""
    said = tool.classification
    return ToolEntry(
        tool_id=tool.tool_id,
        description=_description(tool),
        input_schema=_usable_schema(tool.definition.get("inputSchema")) or _ANYTHING,
        output_schema=_usable_schema(tool.definition.get("outputSchema")),
        effect=Effect.UNKNOWN if said is None else said.effect,
        effect_origin="none" if said is None else "declared",
        sensitivity=Sensitivity.LOW if said is None else said.sensitivity,
        connector=CONNECTOR,
        timeout_ms=timeout_ms,
        tags=("upstream",),
        definition=definition_hash(tool.definition),
        target=tool,
    )


def _description(tool: PinnedTool) -> str:
    for field in ("description", "title"):
        text = tool.definition.get(field)
        if isinstance(text, str) and text.strip():
            return text
    return f"{tool.name} of {tool.server}"


def _usable_schema(schema: Any) -> dict[str, Any] | None:
    """Return the tool's own schema; one that we cannot check is left to the server, which checks for itself."""
    from twinraven.foundation.json_schema import compile_schema

    if not isinstance(schema, dict):
        return None
    try:
        compile_schema(cast("dict[str, Any]", schema))
    except TwinRavenError:
        return None
    return cast("dict[str, Any]", schema)


def _note(tx: Transaction, tenant_id: str, tool: PinnedTool, now: Definition | None, at: int) -> None:
    """Write down what a server says of a known tool; one that is gone keeps the quarantine it was in."""
    is_restored = now is not None and is_same(now, tool.definition)
    changed = None if is_restored else now or tool.changed
    sql.note_seen(tx, tenant_id, tool, changed=changed, present=now is not None, at=at)


def _decision(tenant_id: str, event_type: str, tool_id: str, actor: Actor, *, data: dict[str, str]) -> NewAuditEntry:
    return NewAuditEntry(tenant_id, event_type, "upstream_tool", tool_id, actor, data=data)


def _is_free(tenant_id: str, tool_id: str) -> bool:
    del tenant_id, tool_id
    return False


def _present(found: PinnedTool | None, tool_id: str) -> PinnedTool:
    if found is None:
        raise NotFound(f"no upstream tool {tool_id!r}", tool_id=tool_id, fix="twinraven tools list")
    return found
