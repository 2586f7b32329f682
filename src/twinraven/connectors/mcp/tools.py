"""The tools of upstream servers as the catalogue sees them, each held to the words with which it was accepted.

A tool is accepted with the first words it uses. From then on it must use the same: a description is what a model acts
on, so a server that changes one behind everybody's back could tell models what to do. Changed words put the tool into
quarantine until somebody has read them. What a tool says about its own harmlessness is a suggestion; it counts as one
that may change anything until its owner says otherwise.

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

from twinraven.audit import AuditEntry, AuditLog
from twinraven.catalog import Effect, Sensitivity, ToolEntry, infer_effect
from twinraven.connectors.mcp import sql
from twinraven.connectors.mcp.errors import ToolQuarantined
from twinraven.connectors.mcp.model import Classification, Definition, PinnedTool, ToolChanges, definition_hash
from twinraven.connectors.mcp.observation import differences, is_same, name_tools, sort_out
from twinraven.foundation.actors import Actor
from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.errors import InvalidInput, NotFound, TwinRavenError
from twinraven.storage import Database, Transaction, forget_after_fork
from twinraven.tenancy import actor_of

CONNECTOR: Final = "mcp"
_ANYTHING: Final = {"type": "object"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a tool probably does, and why one would think so."""

    tool_id: str
    effect: Effect
    because: str


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
        micros: Callable[[], int] = now_micros,
    ) -> None:
        """`is_taken` says whether a tenant has a tool of this name from elsewhere; it may wait."""
        self._database = database
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
        """How long a call to this server's tools may take."""
        self._timeouts[server] = timeout_ms
        for tenant_id, snapshot in list(self._snapshots.items()):
            self._take(tenant_id, [known.tool for known in snapshot.values()])

    # What the catalogue asks.

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        known = self._snapshot(tenant_id).get(tool_id)
        return None if known is None or not known.tool.is_offered else known.entry

    def find_pinned(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """The same, also of a tool that is gone or in quarantine: it may be back, and then needs its name."""
        known = self._snapshot(tenant_id).get(tool_id)
        return None if known is None else known.entry

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        return [known.entry for known in self._snapshot(tenant_id).values() if known.tool.is_offered]

    def pinned(self, tenant_id: str, tool_id: str) -> PinnedTool | None:
        """What is known of a tool, in the words with which it was accepted."""
        known = self._snapshot(tenant_id).get(tool_id)
        return None if known is None else known.tool

    def servers(self, tenant_id: str) -> set[str]:
        """The servers of which tools are known."""
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
        """Every tool there is, quarantined ones too."""
        return await self._database.read(tenant_id, lambda tx: sql.pinned_tools(tx, tenant_id))

    async def suggestions(self, tenant_id: str) -> list[Suggestion]:
        """What the tools that nobody classified probably do."""
        return [suggest(tool) for tool in await self.listed(tenant_id) if tool.classification is None]

    async def classify(
        self, tenant_id: str, tool_ids: Iterable[str], effect: Effect, *, sensitivity: Sensitivity | None, by: str
    ) -> list[PinnedTool]:
        """Say what tools do to the world; without a new sensitivity they keep the one they have."""
        wanted = list(tool_ids)
        if effect is Effect.UNKNOWN:
            raise InvalidInput("a tool is classified as read or write", field="effect")

        def work(tx: Transaction) -> list[PinnedTool]:
            for tool_id in wanted:
                known = _present(sql.pinned_tool(tx, tenant_id, tool_id), tool_id).classification
                kept = Sensitivity.LOW if known is None else known.sensitivity
                said = Classification(effect, sensitivity or kept, by, from_micros(self._micros()))
                sql.classify(tx, tenant_id, tool_id, said)
                data = {"effect": effect.value, "sensitivity": said.sensitivity.value}
                actor = actor_of(tx, tenant_id, by)
                self._witness(tx, _decision(tenant_id, "tool.classified", tool_id, actor, data=data))
            return [_present(sql.pinned_tool(tx, tenant_id, tool_id), tool_id) for tool_id in wanted]

        return await self._change(tenant_id, work)

    async def accept(self, tenant_id: str, tool_id: str, *, by: str) -> PinnedTool:
        """Take a tool out of quarantine with the words it uses now; what its owner said of it stays said."""

        def work(tx: Transaction) -> PinnedTool:
            tool = _present(sql.pinned_tool(tx, tenant_id, tool_id), tool_id)
            if tool.changed is not None:
                sql.pin(tx, tenant_id, tool.server, tool.changed, tool_id=tool_id, by=by, at=self._micros())
                hashes = {"before": definition_hash(tool.definition), "after": definition_hash(tool.changed)}
                actor = actor_of(tx, tenant_id, by)
                self._witness(tx, _decision(tenant_id, "tool.definition_accepted", tool_id, actor, data=hashes))
            return _present(sql.pinned_tool(tx, tenant_id, tool_id), tool_id)

        return await self._change(tenant_id, work)

    # What a server says.

    async def observe(self, tenant_id: str, server: str, definitions: Iterable[Definition]) -> ToolChanges:
        """Compare a server's list with what is pinned: the new is accepted, the changed put into quarantine."""
        listed, left_out = sort_out(definitions)
        every = await self._database.read(tenant_id, lambda tx: sql.pinned_tools(tx, tenant_id))
        # Other sources may have to look into their stores.
        names = await asyncio.to_thread(name_tools, server, listed, every, partial(self._is_taken, tenant_id))
        seen = {name: listed[name] for name in names.ids}
        left_out += names.left_out
        if not differences([tool for tool in every if tool.server == server], seen):
            return ToolChanges(left_out=left_out)

        def work(tx: Transaction) -> ToolChanges:
            found = sql.pinned_tools(tx, tenant_id, server=server)
            changes, at = differences(found, seen), self._micros()
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

    async def _change(self, tenant_id: str, work: Callable[[Transaction], T]) -> T:
        def changing(tx: Transaction) -> tuple[T, list[PinnedTool]]:
            done = work(tx)
            sql.raise_catalog_version(tx, tenant_id)
            return done, sql.pinned_tools(tx, tenant_id)

        done, tools = await self._database.write(tenant_id, changing)
        self._take(tenant_id, tools)
        return done

    def _witness(self, tx: Transaction, entry: AuditEntry) -> None:
        """What an owner decides is evidence, stored with the decision itself."""
        if self._audit is not None:
            self._audit.append(tx, entry)

    def _snapshot(self, tenant_id: str) -> dict[str, _Known]:
        found = self._snapshots.get(tenant_id)
        return self._load(tenant_id) if found is None else found

    def _load(self, tenant_id: str) -> dict[str, _Known]:
        connection = self._database.connect()
        try:
            with connection.transaction(tenant_id, write=False) as tx:
                tools = sql.pinned_tools(tx, tenant_id)
        finally:
            connection.close()
        return self._take(tenant_id, tools)

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
    """The catalogue entry of an upstream tool."""
    said = tool.classification
    return ToolEntry(
        tool_id=tool.tool_id,
        description=_description(tool),
        input_schema=_usable_schema(tool.definition.get("inputSchema")),
        effect=Effect.UNKNOWN if said is None else said.effect,
        effect_origin="none" if said is None else "declared",
        sensitivity=Sensitivity.LOW if said is None else said.sensitivity,
        connector=CONNECTOR,
        timeout_ms=timeout_ms,
        tags=("upstream",),
        definition=definition_hash(tool.definition),
    )


def suggest(tool: PinnedTool) -> Suggestion:
    """What a tool probably does, by what it says of itself and by its name."""
    annotations = tool.definition.get("annotations")
    hints = cast("dict[str, Any]", annotations) if isinstance(annotations, dict) else {}
    if hints.get("readOnlyHint") is True:
        return Suggestion(tool.tool_id, Effect.READ, "it says that it only reads")
    if hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True:
        return Suggestion(tool.tool_id, Effect.WRITE, "it says that it changes things")
    guess = infer_effect(tool.name)
    because = "nothing tells" if guess is Effect.UNKNOWN else f"its name sounds like a {guess.value}"
    return Suggestion(tool.tool_id, guess, because)


def _description(tool: PinnedTool) -> str:
    for field in ("description", "title"):
        text = tool.definition.get(field)
        if isinstance(text, str) and text.strip():
            return text
    return f"{tool.name} of {tool.server}"


def _usable_schema(schema: Any) -> dict[str, Any]:
    """The tool's own schema; one that we cannot check is left to the server, which checks for itself."""
    from twinraven.foundation.json_schema import compile_schema

    if not isinstance(schema, dict):
        return _ANYTHING
    try:
        compile_schema(cast("dict[str, Any]", schema))
    except TwinRavenError:
        return _ANYTHING
    return cast("dict[str, Any]", schema)


def _note(tx: Transaction, tenant_id: str, tool: PinnedTool, now: Definition | None, at: int) -> None:
    """Write down what a server says of a known tool; one that is gone keeps the quarantine it was in."""
    is_restored = now is not None and is_same(now, tool.definition)
    changed = None if is_restored else now or tool.changed
    sql.note_seen(tx, tenant_id, tool, changed=changed, present=now is not None, at=at)


def _decision(tenant_id: str, event_type: str, tool_id: str, actor: Actor, *, data: dict[str, str]) -> AuditEntry:
    return AuditEntry(tenant_id, event_type, "upstream_tool", tool_id, actor, data=data)


def _is_free(tenant_id: str, tool_id: str) -> bool:
    del tenant_id, tool_id
    return False


def _present(found: PinnedTool | None, tool_id: str) -> PinnedTool:
    if found is None:
        raise NotFound(f"no upstream tool {tool_id!r}", tool_id=tool_id, fix="twinraven tools list")
    return found
