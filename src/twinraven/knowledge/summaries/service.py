"""Implements the use cases of summaries: compress, read, write by hand, repair, backfill coverage, delete, redo.

A compression is one row and one run of the process that compresses, started in one transaction; its summary, the
summary's episode and the run's end are one transaction too. So a compression ends once, whatever is killed, and nobody
who talks waits for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.engine import RunEnd, RunRequest, Runs
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.knowledge.model import NewEpisode
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.knowledge.service import Knowledge
from twinraven.knowledge.sql import open_group
from twinraven.knowledge.summaries.model import (
    MANUAL,
    SUMMARY_SOURCE,
    Compression,
    CompressionRequest,
    Summary,
    check_summary,
)
from twinraven.knowledge.summaries.sql import (
    SourceEpisode,
    bind_content,
    compression_row,
    delete_summary,
    end_compression,
    find_summary,
    insert_compression,
    insert_summary,
    list_summaries,
    set_coverage,
    source_episodes,
    to_compression,
)
from twinraven.knowledge.thinking import CountTokens, ThinkingProcesses, estimate_tokens, member_of
from twinraven.muninn import check_name
from twinraven.storage import Database, Row, Transaction
from twinraven.tenancy import Principal

COMPRESS_PROCESS: Final = "compress_memory"
RUN_PREFIX: Final = "compress-"
_LEAST_CHARACTERS: Final = 400
_MOST_CHARACTERS: Final = 4_000
_SHARE: Final = 4
"""A summary has at most a fourth of the characters of its sources."""

Compressed = Callable[[Transaction, str, Compression, str], None]
"""Told, in its transaction, of a compression that was done, and of whose dialogue it is."""


class Summaries:
    """Summaries of all tenants."""

    def __init__(
        self,
        database: Database,
        knowledge: Knowledge,
        *,
        processes: ThinkingProcesses,
        runs: Callable[[], Runs],
        audit: AuditLog,
        process_id: str = COMPRESS_PROCESS,
        count_tokens: CountTokens = estimate_tokens,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._database = database
        self._knowledge = knowledge
        self._processes = processes
        self._runs = runs
        self._audit = audit
        self._process_id = process_id
        self._count_tokens = count_tokens
        self._micros = micros
        self._listeners: list[Compressed] = []

    def register(self, listener: Compressed) -> None:
        """Register a callback for the transaction that completes a compression."""
        self._listeners.append(listener)

    async def compress(self, wish: CompressionRequest, *, by: Principal) -> Compression:
        """Start to sum up some episodes; a worker does it."""
        prepared = await self._processes.prepare(by.tenant_id, self._process_id)

        def work(tx: Transaction) -> Compression:
            sources = self._sources(tx, by.tenant_id, wish)
            open_group(tx, by.tenant_id, wish.group_id, at=self._micros())  # one number after the other
            compression_id = new_id()
            process = {"process_id": prepared.process_id, "process_version": prepared.version}
            made = insert_compression(
                tx, by.tenant_id, compression_id, wish, process, user_id=by.user_id, at=self._micros()
            )
            parameters = prepared.inputs(_parameters(sources))
            run = RunRequest(parameters, definition=prepared.flow, run_id=f"{RUN_PREFIX}{compression_id}")
            self._runs().start_in(tx, run, by=by)
            return made

        made = await self._database.write(by.tenant_id, work)
        self._runs().announce()
        return made

    async def compression(self, tenant_id: str, compression_id: str) -> Compression:
        row = await self._database.read(tenant_id, lambda tx: compression_row(tx, tenant_id, compression_id))
        if row is None:
            raise NotFound(f"no compression {compression_id!r}", field="compression_id")
        return to_compression(row)

    def on_end(self, tx: Transaction, end: RunEnd) -> None:
        """Store the summary of a compression whose run ended, or say why there is none."""
        if not end.run_id.startswith(RUN_PREFIX):
            return
        row = compression_row(tx, end.tenant_id, end.run_id.removeprefix(RUN_PREFIX))
        if row is None or row["state"] != "running":
            return
        summary_id, problem = None, None
        try:
            content = _text_of(end)
            summary_id = self._settle(tx, end.tenant_id, row, content)
        except TwinRavenError as error:
            problem = error.message
        self._end(tx, end.tenant_id, row, summary_id, problem)

    async def write(self, wish: CompressionRequest, content: str, *, by: Principal) -> Summary:
        """Write a summary by hand, where coverage is missing; for administrators."""
        check_summary(content)

        def work(tx: Transaction) -> str:
            made = {"process_id": MANUAL, "process_version": 0, "run_id": None, "created_by": by.user_id}
            summary_id = self._store(tx, by.tenant_id, wish, content, made)
            self._tell(tx, "summary.written", summary_id, by)
            return summary_id

        return await self.summary(by.tenant_id, await self._database.write(by.tenant_id, work))

    async def repair(self, summary_id: str, content: str, *, by: Principal) -> Summary:
        """Bind a corrected content; the one before stays. For administrators."""
        check_summary(content)
        at = self._micros()

        def work(tx: Transaction) -> None:
            found = self._present(tx, by.tenant_id, summary_id)
            self._bind(tx, by.tenant_id, found.group_id, summary_id, content, by=by.user_id, at=at)
            self._tell(tx, "summary.repaired", summary_id, by)

        await self._database.write(by.tenant_id, work)
        return await self.summary(by.tenant_id, summary_id)

    async def backfill(self, summary_id: str, turn_id: str, alternative_id: str | None, *, by: Principal) -> Summary:
        """State how far a summary covers, where that is missing; it is stated once. For administrators."""
        check_name(turn_id, field="covers_up_to_turn", limit=300)

        def work(tx: Transaction) -> None:
            self._present(tx, by.tenant_id, summary_id)
            if not set_coverage(tx, by.tenant_id, summary_id, turn_id, alternative_id):
                raise Conflict("how far this summary covers is stated already", field="covers_up_to_turn")
            self._tell(tx, "summary.coverage_stated", summary_id, by)

        await self._database.write(by.tenant_id, work)
        return await self.summary(by.tenant_id, summary_id)

    async def delete(self, summary_id: str, *, by: Principal, recompress: bool = False) -> Compression | None:
        """Take a summary out of its dialogue; on request its sources are summed up again. For administrators."""

        def work(tx: Transaction) -> Summary:
            found = self._present(tx, by.tenant_id, summary_id)
            if not delete_summary(tx, by.tenant_id, summary_id, by=by.user_id, at=self._micros()):
                raise Conflict(f"summary {summary_id} is deleted already", field="summary_id")
            self._tell(tx, "summary.deleted", summary_id, by)
            return found

        found = await self._database.write(by.tenant_id, work)
        if not recompress:
            return None
        wish = CompressionRequest(
            found.group_id, found.sources, found.covers_up_to_turn, found.covers_up_to_alternative
        )
        return await self.compress(wish, by=by)

    async def summary(self, tenant_id: str, summary_id: str) -> Summary:
        return await self._database.read(tenant_id, lambda tx: self._present(tx, tenant_id, summary_id))

    async def summaries(
        self,
        tenant_id: str,
        *,
        group_id: str | None = None,
        with_deleted: bool = False,
        limit: int = 50,
        after: str | None = None,
        hidden: HiddenGroups | None = None,
    ) -> list[Summary]:
        """Summaries in the order in which they were made."""
        return await self._database.read(
            tenant_id,
            lambda tx: list_summaries(
                tx, tenant_id, group_id=group_id, with_deleted=with_deleted, limit=limit, after=after, hidden=hidden
            ),
        )

    def _present(self, tx: Transaction, tenant_id: str, summary_id: str) -> Summary:
        found = find_summary(tx, tenant_id, summary_id)
        if found is None:
            raise NotFound(f"no summary {summary_id!r}", field="summary_id")
        return found

    def _sources(self, tx: Transaction, tenant_id: str, wish: CompressionRequest) -> list[SourceEpisode]:
        found = source_episodes(tx, tenant_id, wish.episode_ids)
        for episode_id in wish.episode_ids:
            if episode_id not in found:
                raise NotFound(f"no episode {episode_id!r}", field="episode_ids")
            if found[episode_id].group_id != wish.group_id:
                raise InvalidInput(f"episode {episode_id!r} is of another group", field="episode_ids")
        return [found[episode_id] for episode_id in wish.episode_ids]

    def _settle(self, tx: Transaction, tenant_id: str, row: Row, content: str) -> str:
        asked: dict[str, Any] = json.loads(row["wish"])
        process = {name: asked.pop(name) for name in ("process_id", "process_version")}
        wish = CompressionRequest(
            asked["group_id"],
            tuple(asked["episode_ids"]),
            asked["covers_up_to_turn"],
            asked["covers_up_to_alternative"],
        )
        made = {**process, "run_id": f"{RUN_PREFIX}{row['compression_id']}", "created_by": row["user_id"]}
        return self._store(tx, tenant_id, wish, check_summary(content), made)

    def _store(self, tx: Transaction, tenant_id: str, wish: CompressionRequest, content: str, made: Row) -> str:
        at = self._micros()
        sources = self._sources(tx, tenant_id, wish)
        summary_id = new_id()
        values = {
            **made,
            "summary_id": summary_id,
            "group_id": wish.group_id,
            "level": max(each.level for each in sources) + 1,
            "covers": list(dict.fromkeys(name for each in sources for name in each.covers)),
            "covers_up_to_turn": wish.covers_up_to_turn,
            "covers_up_to_alternative": wish.covers_up_to_alternative,
            "token_count": 0,
            "created_at": at,
        }
        insert_summary(tx, tenant_id, values, wish.episode_ids)
        self._bind(tx, tenant_id, wish.group_id, summary_id, content, by=made["created_by"], at=at)
        return summary_id

    def _bind(
        self, tx: Transaction, tenant_id: str, group_id: str, summary_id: str, content: str, *, by: str | None, at: int
    ) -> None:
        episode = NewEpisode(group_id, f"Summary:{summary_id}/{new_id()[:8]}", content, source=SUMMARY_SOURCE)
        episode_id = self._knowledge.store_in(tx, tenant_id, episode, at=at)
        tokens = self._count_tokens(content)
        bind_content(tx, tenant_id, summary_id, episode_id, by=by, at=at, tokens=tokens)

    def _end(self, tx: Transaction, tenant_id: str, row: Row, summary_id: str | None, problem: str | None) -> None:
        at = self._micros()
        state = "failed" if summary_id is None else "done"
        end_compression(tx, tenant_id, row["compression_id"], state, summary_id=summary_id, error=problem, at=at)
        if summary_id is not None:
            ended = to_compression({**row, "state": state, "summary_id": summary_id, "ended_at": at})
            for listener in self._listeners:
                listener(tx, tenant_id, ended, row["user_id"])

    def _tell(self, tx: Transaction, event: str, summary_id: str, by: Principal) -> None:
        entry = NewAuditEntry(
            tenant_id=by.tenant_id,
            event_type=event,
            subject_type="summary",
            subject_id=summary_id,
            actor=by.actor,
            data={},
        )
        self._audit.append(tx, entry)


def _parameters(sources: Sequence[SourceEpisode]) -> dict[str, Any]:
    size = sum(len(each.content) for each in sources)
    return {
        "sources": [each.as_json() for each in sources],
        "text": "\n".join(
            each.content if each.speaker is None else f"{each.speaker}: {each.content}" for each in sources
        ),
        "level": max(each.level for each in sources) + 1,
        "most_characters": max(_LEAST_CHARACTERS, min(_MOST_CHARACTERS, size // _SHARE)),
    }


def _text_of(end: RunEnd) -> str:
    """Return the summary in a run's output: the text itself, or its member `summary`."""
    if end.state != "succeeded":
        raise InvalidInput(str((end.error or {}).get("message") or f"the run {end.state}"), field="run")
    output = end.output if isinstance(end.output, str) else member_of(end.output, "summary")
    if not isinstance(output, str):
        raise InvalidInput("the process that compresses must end with a text, or {summary: text}", field="output")
    return output
