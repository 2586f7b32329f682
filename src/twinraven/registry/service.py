"""Implements the use cases of the registry: from a draft to a tool in service, and to its retirement.

Every change is one act on files and rows (`RegistryTransactions`), decided by pure functions (`lifecycle`), told to the
witness inside its transaction, and announced when it is done. What is there is read as `RegistryRecords`; who comes in
is for `Admission` to say. The registry does not know how drafts are made or judged: it keeps the verdict as it was
given and asks of a chain only whether it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from twinraven.catalog import next_version
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.errors import InvalidInput, NotFound, StaleState, StorageError
from twinraven.muninn import clean_text
from twinraven.registry import lifecycle, sql, usage
from twinraven.registry.admission import Admission
from twinraven.registry.drafting import make_draft
from twinraven.registry.model import (
    SYSTEM,
    Draft,
    RegisteredTool,
    RegistryChange,
    Rejection,
    RetirementReason,
    ToolRecord,
    ToolVersion,
    check_slug,
)
from twinraven.registry.ports import Announce, AuditRegistryChange, ChainLookup, FindTool, HoldsSecret
from twinraven.registry.records import RegistryRecords
from twinraven.registry.registration import claim_version, new_record, refuse_circle, tested_version
from twinraven.registry.renaming import move_rows, under_name
from twinraven.registry.settings import RegistrySettings
from twinraven.registry.status import ToolStatus
from twinraven.registry.synthesized import SynthesizedTool
from twinraven.registry.tool_folders import ToolFolders
from twinraven.registry.transactions import RegistryTransactions
from twinraven.storage import Database, Transaction

Step = Callable[[RegisteredTool, datetime], RegisteredTool]


class Registry(RegistryRecords):
    """Learned tools and their lives."""

    def __init__(  # noqa: PLR0913 - everything it stands on, each by name
        self,
        database: Database,
        *,
        storage_dir: Path,
        settings: RegistrySettings,
        find_tool: FindTool,
        chains: ChainLookup,
        witness: AuditRegistryChange,
        announce: Announce | None = None,
        holds_secret: HoldsSecret | None = None,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        super().__init__(database)
        self._admission = Admission(
            database,
            find_tool=find_tool,
            chains=chains,
            holds_secret=holds_secret,
            needs_approval=settings.require_approval,
        )
        self._witness = witness
        self._announce = announce
        self._micros = micros
        self._acts = RegistryTransactions(database, ToolFolders(storage_dir))

    async def recover(self, tenant_id: str) -> list[str]:
        """Put right what a process left that died in the middle; every act does so before its first."""
        return await self._acts.recover(tenant_id)

    async def draft(self, tenant_id: str, definition: SynthesizedTool, *, evidence_hash: str) -> Draft:
        """Number a synthesis: it gets the name of its tool and the next version, or is the draft it was before."""
        await self._admission.require_chain(tenant_id, definition)

        def work(tx: Transaction) -> Draft:
            self._admission.refuse_secrets(tenant_id, definition)
            next_version(tx, tenant_id)
            now = from_micros(self._micros())
            return make_draft(
                tx,
                tenant_id,
                definition,
                evidence_hash=evidence_hash,
                is_taken=lambda name: self._admission.is_foreign(tenant_id, name),
                now=now,
            )

        return await self._database.write(tenant_id, work)

    def missing_tools(self, tenant_id: str, definition: SynthesizedTool) -> list[str]:
        """List the tools of a definition that this home's catalogue does not have; until then it cannot serve."""
        return self._admission.missing_tools(tenant_id, definition)

    async def register(
        self,
        tenant_id: str,
        definition: SynthesizedTool,
        validation: JsonObject,
        *,
        by: str = SYSTEM,
        savings: JsonObject | None = None,
    ) -> ToolRecord:
        """Take in a version that passed; it waits for approval, or is promoted at once where none is required."""
        version = tested_version(definition, validation, savings)
        await self._admission.check(tenant_id, definition)
        at_once = self._admission.is_promoted_at_once(tenant_id, definition)

        def work(tx: Transaction) -> ToolRecord:
            revision = next_version(tx, tenant_id)
            now = from_micros(self._micros())
            claim_version(tx, tenant_id, definition, now)
            refuse_circle(tx, tenant_id, definition)
            before = sql.tool(tx, tenant_id, definition.tool_id)
            if before is None:
                usage.begin(tx, tenant_id)
            fresh = new_record(tenant_id, definition, now)
            after = _stored(tx, before, lifecycle.admit(before, version, fresh=fresh), revision)
            self._tell(tx, "tool.registered", after, version.version, by, validation=validation.get("result_id"))
            return self._put_in_service(tx, after, version.version, by, revision).record if at_once else after.record

        touched = _touched(definition) if at_once else [definition.tool_id]
        record = await self._acts.perform(tenant_id, touched, work, makes=[version])
        await self._told(tenant_id)
        return record

    async def promote(
        self,
        tenant_id: str,
        tool_id: str,
        *,
        version: int | None = None,
        new_id: str | None = None,
        by: str,
        expected_revision: int | None = None,
    ) -> ToolRecord:
        """Put a tested version into service; the one before it is superseded, and the tool it replaces retired.

        `new_id` is the name it is to be known by, given before its first promotion: both happen, or neither does.
        """
        tool = await self.tool(tenant_id, tool_id)
        _refuse_stale(tool, expected_revision)
        number = lifecycle.awaiting(tool) if version is None else version
        name = tool_id if new_id is None else new_id
        renamed = [] if name == tool_id else self._under_name(tenant_id, tool, name)
        chosen = next((each for each in renamed or tool.versions if each.version == number), None)
        if chosen is None:
            raise NotFound(f"{tool_id!r} has no version {number}", tool_id=tool_id, version=number)
        definition = chosen.definition
        self._admission.check_service(tenant_id, definition)

        def work(tx: Transaction) -> ToolRecord:
            revision = next_version(tx, tenant_id)
            refuse_circle(tx, tenant_id, definition)
            before = _present(tx, tenant_id, tool_id, expected_revision)
            named = self._give_name(tx, before, name, by, revision) if renamed else before
            return self._put_in_service(tx, named, number, by, revision).record

        touched = _touched(definition)
        if renamed:
            record = await self._acts.perform(tenant_id, [tool_id, *touched], work, makes=renamed, vanishes=tool_id)
        else:
            record = await self._acts.perform(tenant_id, touched, work)
        await self._told(tenant_id)
        return record

    async def reject(
        self,
        tenant_id: str,
        tool_id: str,
        *,
        reason: str,
        by: str,
        version: int | None = None,
        expected_revision: int | None = None,
    ) -> Rejection:
        """Say no to a version that waits: it is a draft again, and not proposed again on the same evidence."""
        why = _reason(reason)

        def work(tx: Transaction) -> Rejection:
            revision = next_version(tx, tenant_id)
            tool = _present(tx, tenant_id, tool_id, expected_revision)
            number = lifecycle.awaiting(tool) if version is None else version
            after = _stored(tx, tool, lifecycle.send_back(tool, number), revision)
            evidence = _evidence_of(tx, tenant_id, tool_id, number)
            said = Rejection(tool_id, number, after.record.chain_key, evidence, why, by, from_micros(self._micros()))
            sql.insert_rejection(tx, tenant_id, said)
            self._tell(tx, "tool.rejected", after, number, by, reason=why)
            return said

        said = await self._acts.perform(tenant_id, [tool_id], work)
        await self._told(tenant_id)
        return said

    async def rollback(
        self, tenant_id: str, tool_id: str, *, to_version: int, by: str, expected_revision: int | None = None
    ) -> ToolRecord:
        """Put a version back into service that was there before."""
        return await self._change(
            tenant_id,
            tool_id,
            lambda tool, now: lifecycle.roll_back(tool, to_version, now=now),
            "tool.rolled_back",
            by,
            expected_revision=expected_revision,
        )

    async def retire(
        self,
        tenant_id: str,
        tool_id: str,
        reason: RetirementReason,
        *,
        by: str,
        note: str | None = None,
        expected_revision: int | None = None,
    ) -> ToolRecord:
        """Remove a tool from service for good."""
        return await self._change(
            tenant_id,
            tool_id,
            lambda tool, now: lifecycle.retire(tool, reason, now=now),
            "tool.retired",
            by,
            expected_revision=expected_revision,
            reason=reason.value,
            note=note,
        )

    async def quarantine(
        self, tenant_id: str, tool_id: str, *, reason: str, by: str, expected_revision: int | None = None
    ) -> ToolRecord:
        """Take a tool out of service at once, until it is reviewed."""
        why = _reason(reason)
        return await self._change(
            tenant_id,
            tool_id,
            lambda tool, now: lifecycle.quarantine(tool, why, by=by, now=now),
            "tool.quarantined",
            by,
            expected_revision=expected_revision,
            reason=why,
        )

    async def release(
        self, tenant_id: str, tool_id: str, *, by: str, expected_revision: int | None = None
    ) -> ToolRecord:
        """End a quarantine."""
        return await self._change(
            tenant_id,
            tool_id,
            lambda tool, now: lifecycle.release(tool, now=now),
            "tool.released",
            by,
            expected_revision=expected_revision,
        )

    async def flag(self, tenant_id: str, tool_id: str, name: str, detail: JsonObject | None, *, by: str) -> ToolRecord:
        """Mark a tool for people to look at; no detail takes the mark away."""
        return await self._change(
            tenant_id,
            tool_id,
            lambda tool, _: lifecycle.set_flag(tool, name, detail),
            "tool.flagged" if detail is not None else "tool.unflagged",
            by,
            flag=name,
            detail=detail,
        )

    async def _change(
        self,
        tenant_id: str,
        tool_id: str,
        step: Step,
        event_type: str,
        by: str,
        *,
        expected_revision: int | None = None,
        **data: object,
    ) -> ToolRecord:
        """Return one step in the life of one tool that leaves its version files alone."""

        def work(tx: Transaction) -> ToolRecord:
            revision = next_version(tx, tenant_id)
            tool = _present(tx, tenant_id, tool_id, expected_revision)
            after = _stored(tx, tool, step(tool, from_micros(self._micros())), revision)
            self._tell(tx, event_type, after, after.record.current_version, by, **data)
            return after.record

        record = await self._acts.perform(tenant_id, [tool_id], work)
        await self._told(tenant_id)
        return record

    def _under_name(self, tenant_id: str, tool: RegisteredTool, new_id: str) -> list[ToolVersion]:
        """Return the versions of a tool as they would be under a name that is free."""
        check_slug(new_id)
        self._admission.refuse_taken(tenant_id, new_id)
        return [under_name(version, new_id) for version in tool.versions]

    def _give_name(self, tx: Transaction, tool: RegisteredTool, new_id: str, by: str, revision: int) -> RegisteredTool:
        after = move_rows(tx, tool, new_id, revision)
        self._tell(tx, "tool.renamed", after, after.record.current_version, by, renamed_from=tool.record.tool_id)
        return after

    def _put_in_service(
        self, tx: Transaction, tool: RegisteredTool, number: int, by: str, revision: int
    ) -> RegisteredTool:
        now = from_micros(self._micros())
        after = _stored(tx, tool, lifecycle.promote(tool, number, now=now), revision)
        replaced = after.current.definition.replaces
        self._tell(tx, "tool.promoted", after, number, by, replaces=replaced)
        old = None if replaced is None else sql.tool(tx, tool.record.tenant_id, replaced)
        if old is not None and not old.record.is_retired and old.current.status is ToolStatus.PROMOTED:
            gone = _stored(tx, old, lifecycle.retire(old, RetirementReason.SUPERSEDED, now=now), revision)
            reason = RetirementReason.SUPERSEDED.value
            self._tell(
                tx, "tool.retired", gone, gone.record.current_version, by, reason=reason, by_tool=tool.record.tool_id
            )
        return after

    def _tell(
        self, tx: Transaction, event_type: str, tool: RegisteredTool, version: int, by: str, **data: object
    ) -> None:
        said = {name: value for name, value in data.items() if value is not None}
        record = tool.record
        self._witness(tx, RegistryChange(record.tenant_id, event_type, record.tool_id, version, by, said))

    async def _told(self, tenant_id: str) -> None:
        if self._announce is not None:
            # What is done is done; whoever could not be told now finds out by looking.
            with suppress(StorageError):
                await self._announce(tenant_id)


def _stored(tx: Transaction, before: RegisteredTool | None, after: RegisteredTool, revision: int) -> RegisteredTool:
    numbered = replace(after, record=replace(after.record, revision=revision))
    sql.save(tx, before, numbered)
    return numbered


def _present(tx: Transaction, tenant_id: str, tool_id: str, expected_revision: int | None = None) -> RegisteredTool:
    found = sql.tool(tx, tenant_id, tool_id)
    if found is None:
        raise NotFound(f"no learned tool {tool_id!r}", tool_id=tool_id, fix="twinraven registry list")
    _refuse_stale(found, expected_revision)
    return found


def _refuse_stale(tool: RegisteredTool, expected_revision: int | None) -> None:
    revision = tool.record.revision
    if expected_revision not in (None, revision):
        raise StaleState(
            f"{tool.record.tool_id!r} was changed meanwhile: it is at revision {revision}, not {expected_revision}",
            expected=expected_revision,
            current=revision,
        )


def _touched(definition: SynthesizedTool) -> list[str]:
    """Return the tools whose files change when this one goes into service."""
    replaced = [] if definition.replaces is None else [check_slug(definition.replaces, field="replaces")]
    return [definition.tool_id, *replaced]


def _evidence_of(tx: Transaction, tenant_id: str, tool_id: str, version: int) -> str:
    found = sql.drafts(tx, tenant_id, tool_id=tool_id, version=version)
    return found[0].evidence_hash if found else ""


def _reason(text: str) -> str:
    cleaned = clean_text(text).strip()
    if not cleaned:
        raise InvalidInput("say why: the reason is what others will read", field="reason")
    return cleaned[:2000]
