"""Implements every operation of the server once: over an async wire it is `AsyncClient`, over a blocking one `Client`.

Lists are generators that fetch a page when it is needed. A step in a learned tool's life is taken on the revision that
was seen; whoever names none has it looked up, and is told if somebody else was faster.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, Final, TypedDict, Unpack
from uuid import UUID

import orjson

from twinraven.foundation.clock import iso
from twinraven.foundation.errors import ApprovalDenied, Conflict, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.foundation.server_events import ServerEventReader
from twinraven.sdk.administration import AdministrationOperations
from twinraven.sdk.catalogue import CatalogueOperations
from twinraven.sdk.conversing import ConversationOperations
from twinraven.sdk.deciding import InboxOperations
from twinraven.sdk.defining import ProcessOperations
from twinraven.sdk.delivery import MOST_AT_ONCE
from twinraven.sdk.effecting import EffectOperations
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.governing import GovernanceOperations
from twinraven.sdk.keys import ChosenKey
from twinraven.sdk.model import (
    ActivityInfo,
    CallResult,
    Chain,
    Event,
    JsonObject,
    LearnedTool,
    LearningRound,
    Me,
    ObservedCall,
    Outcome,
    SessionInfo,
    TransitionInfo,
)
from twinraven.sdk.overseeing import OversightOperations
from twinraven.sdk.planning import PlanOperations
from twinraven.sdk.reading import read
from twinraven.sdk.recalling import KnowledgeOperations
from twinraven.sdk.reflecting import ReflectionOperations
from twinraven.sdk.running import RunOperations
from twinraven.sdk.server_requests import stated, tag_of
from twinraven.sdk.templates import TemplateOperations

_RESUME_PAUSES_S: Final = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)


class EventQuery(TypedDict, total=False):
    """Filters events; fields that are left out do not restrict."""

    session_id: str | None
    tool_id: str | None
    tag: str | None
    raised: bool | None
    error_code: str | None
    correlation_id: str | None
    parent_event_id: UUID | str | None
    since: datetime | None
    until: datetime | None
    newest: bool


class Operations(
    AdministrationOperations,
    InboxOperations,
    ProcessOperations,
    RunOperations,
    TemplateOperations,
    CatalogueOperations,
    KnowledgeOperations,
    ConversationOperations,
    EffectOperations,
    PlanOperations,
    GovernanceOperations,
    ReflectionOperations,
    OversightOperations,
):
    """Implements all operations of a client, over any wire."""

    async def me(self) -> Me:
        """Return the user that the key stands for."""
        return read(Me, await self._get("me"))

    # Calling.

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        session_id: str,
        turn: int | None = None,
        outside_input: str | None = None,
        idempotency_key: str | None = None,
        tags: Iterable[str] = (),
        task_id: str | None = None,
    ) -> Any:
        """Call a tool: its output, or the error raised."""
        result = await self.invoke(
            tool,
            arguments,
            session_id=session_id,
            turn=turn,
            outside_input=outside_input,
            idempotency_key=idempotency_key,
            tags=tags,
            task_id=task_id,
        )
        return result.unwrap()

    async def invoke(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        session_id: str,
        turn: int | None = None,
        outside_input: str | None = None,
        idempotency_key: str | None = None,
        tags: Iterable[str] = (),
        task_id: str | None = None,
    ) -> CallResult:
        """Call a tool: the whole envelope. What kept the call from being made is raised."""
        given = dict(arguments or {})
        where = {"turn": turn, "outside_input": outside_input, "tags": list(tags) or None, "task_id": task_id}
        body: JsonObject = {"tool_name": tool, "payload": given, "session_id": session_id}
        body |= stated(where)
        if idempotency_key is None:
            chosen = self._keys.choose(await self._known(tool), given, session_id)
        else:
            chosen = ChosenKey(idempotency_key, is_repeatable=True)
        ask = RequestSpec("POST", path_of("calls"), body=body, key=chosen.key, is_safe=chosen.is_repeatable)
        try:
            result = read(CallResult, await self._exchange.json(ask))
        except ApprovalDenied:
            self._keys.settle(chosen, is_pending=False)
            raise
        self._keys.settle(chosen, is_pending=result.is_pending)
        return result

    # Memory.

    async def record(self, calls: Iterable[ObservedCall]) -> list[UUID]:
        """Remember calls that were made elsewhere; they are on disk when this returns.

        Conflict names those whose ids are taken; the others are on disk then, too.
        """
        ids: list[UUID] = []
        conflicts: list[Conflict] = []
        remaining = iter(calls)
        while batch := [call.as_json() for call in islice(remaining, MOST_AT_ONCE)]:
            try:
                found = await self._exchange.json(
                    RequestSpec("POST", path_of("events"), body={"events": batch}, key=new_id())
                )
            except Conflict as error:
                if error.code != Conflict.code:
                    raise
                conflicts.append(error)
            else:
                ids.extend(map(UUID, found["event_ids"]))
        if conflicts:
            taken = [event_id for error in conflicts for event_id in error.details.get("event_ids", ())]
            raise Conflict(conflicts[0].message, event_ids=taken)
        return ids

    def events(self, **where: Unpack[EventQuery]) -> AsyncGenerator[Event]:
        """Calls, oldest first unless the newest are wanted first."""
        query: JsonObject = {**where, **_span(where.get("since"), where.get("until"))}
        parent = where.get("parent_event_id")
        return self._list(Event, "events", **{**query, "parent_event_id": None if parent is None else str(parent)})

    async def event(self, event_id: UUID | str) -> Event:
        """Return one call, with its output where it is kept."""
        return read(Event, await self._get("events", str(event_id)))

    async def follow(
        self, *, session_id: str | None = None, tool_id: str | None = None, after: int | None = None
    ) -> AsyncGenerator[Event]:
        """Calls as they are recorded, from now on or from behind an arrival number.

        A connection that breaks is made again and goes on where it was, also before the first call. A server that is
        busy or away is waited for, though not for ever.
        """
        last_id = None if after is None else str(after)
        failures = 0
        while True:
            try:
                async with self._exchange.stream(_live(session_id, tool_id, last_id)) as stream:
                    messages = ServerEventReader(last_id=last_id)
                    async for part in stream.parts:
                        failures = 0
                        for message in messages.feed(part):
                            last_id = message.last_id
                            if message.data:
                                yield read(Event, orjson.loads(message.data))
            except TwinRavenError as error:
                if not error.retryable or failures == len(_RESUME_PAUSES_S):
                    raise
            await self._exchange.pause(_RESUME_PAUSES_S[min(failures, len(_RESUME_PAUSES_S) - 1)])
            failures += 1

    def sessions(self, *, outcome: Outcome | None = None) -> AsyncGenerator[SessionInfo]:
        """Sessions with their size, time and outcome, by id."""
        return self._list(SessionInfo, "sessions", outcome=outcome)

    def newest_sessions(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tool_id: str | None = None,
        failed: bool | None = None,
        starts_with: str | None = None,
    ) -> AsyncGenerator[SessionInfo]:
        """Sessions by their last call, the newest first, with failures, turns, tools and first words."""
        chosen = {"tool_id": tool_id, "failed": failed, "starts_with": starts_with}
        return self._list(SessionInfo, "sessions", order="newest", **_span(since, until), **chosen)

    async def activity(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        bucket_s: int | None = None,
        tool_id: str | None = None,
    ) -> ActivityInfo:
        """Calls per stretch of time, and the tools that were called most; by default of the last day by the hour."""
        query: JsonObject = {**_span(since, until), "bucket_s": bucket_s, "tool_id": tool_id}
        return read(ActivityInfo, await self._exchange.json(RequestSpec("GET", path_of("activity"), query)))

    async def transitions(
        self, *, since: datetime | None = None, until: datetime | None = None, limit: int | None = None
    ) -> list[TransitionInfo]:
        """Return which tool directly followed which, the commonest first; by default of the last day."""
        query: JsonObject = {**_span(since, until), "limit": limit}
        found = await self._exchange.json(RequestSpec("GET", path_of("transitions"), query))
        return [read(TransitionInfo, each) for each in found["items"]]

    async def session(self, session_id: str) -> SessionInfo:
        """Return one session and its calls, in order."""
        found = read(SessionInfo, await self._get("sessions", session_id))
        if found.event_count <= len(found.events):
            return found
        # Of a long session one answer holds only the beginning.
        return replace(found, events=tuple([event async for event in self.events(session_id=session_id)]))

    async def state_verdict(self, session_id: str, outcome: Outcome) -> None:
        """Say how a session's task went."""
        path = path_of("sessions", session_id, "verdicts")
        await self._exchange.send(RequestSpec("POST", path, body={"outcome": outcome}, key=new_id()))

    # Learning.

    def chains(self) -> AsyncGenerator[Chain]:
        """Chains that mining found, the latest run first."""
        return self._list(Chain, "chains")

    async def chain(self, chain_id: UUID | str) -> Chain:
        """Return one chain."""
        return read(Chain, await self._get("chains", str(chain_id)))

    async def start_learning(self, *, with_model: bool = True, list_writes: bool = False) -> LearningRound:
        """Begin a round of learning on the server; ask `learning_round` until its state is not `running`."""
        # One round runs at a time, so a second request is refused without a key too.
        ask = RequestSpec("POST", path_of("learning"), body={"with_model": with_model, "list_writes": list_writes})
        return read(LearningRound, await self._exchange.json(ask))

    async def learning_round(self, round_id: UUID | str) -> LearningRound:
        """Return the progress and outcome of a learning round."""
        return read(LearningRound, await self._get("learning", str(round_id)))

    def learned_tools(self, *, adoption: bool = False) -> AsyncGenerator[LearnedTool]:
        """Return every learned tool, its state and its use; with `adoption`, how agents received those in service."""
        return self._list(LearnedTool, "learned-tools", adoption=adoption or None)

    async def learned_tool(self, tool_id: str) -> LearnedTool:
        """Return one learned tool, its versions and how agents received it."""
        return read(LearnedTool, await self._get("learned-tools", tool_id))

    async def definition(self, tool_id: str, version: int) -> JsonObject:
        """Return the definition of one version."""
        return await self._get("learned-tools", tool_id, "versions", str(version))

    async def review(self, tool_id: str, version: int) -> JsonObject:
        """Return all that a decision about a version needs."""
        return await self._get("learned-tools", tool_id, "versions", str(version), "review")

    async def promote(
        self, tool_id: str, *, version: int | None = None, rename_to: str | None = None, revision: int | None = None
    ) -> LearnedTool:
        """Put a version that passed into service."""
        return await self._step(tool_id, "promote", {"version": version, "as": rename_to}, revision)

    async def reject(
        self, tool_id: str, reason: str, *, version: int | None = None, revision: int | None = None
    ) -> LearnedTool:
        """Say no to a version that waits."""
        return await self._step(tool_id, "reject", {"reason": reason, "version": version}, revision)

    async def roll_back(self, tool_id: str, to_version: int, *, revision: int | None = None) -> LearnedTool:
        """Put an earlier version back into service."""
        return await self._step(tool_id, "rollback", {"to_version": to_version}, revision)

    async def retire(self, tool_id: str, *, note: str | None = None, revision: int | None = None) -> LearnedTool:
        """End a tool for good."""
        return await self._step(tool_id, "retire", {"note": note}, revision)

    async def quarantine(self, tool_id: str, reason: str, *, revision: int | None = None) -> LearnedTool:
        """Take a tool out of service at once, whatever its revision."""
        return await self._take_step(tool_id, "quarantine", {"reason": reason}, tag_of(revision))

    async def release(self, tool_id: str, *, revision: int | None = None) -> LearnedTool:
        """End a quarantine."""
        return await self._step(tool_id, "release", None, revision)

    async def _step(self, tool_id: str, word: str, body: Mapping[str, Any] | None, revision: int | None) -> LearnedTool:
        if revision is None:
            seen = await self._exchange.send(RequestSpec("GET", path_of("learned-tools", tool_id), {"adoption": False}))
            return await self._take_step(tool_id, word, body, seen.headers.get("etag", "*"))
        return await self._take_step(tool_id, word, body, tag_of(revision))

    async def _take_step(self, tool_id: str, word: str, body: Mapping[str, Any] | None, tag: str) -> LearnedTool:
        said = None if body is None else stated(body)
        ask = RequestSpec("POST", path_of("learned-tools", tool_id, word), body=said, if_match=tag)
        return read(LearnedTool, await self._exchange.json(ask))


def _live(session_id: str | None, tool_id: str | None, last_id: str | None) -> RequestSpec:
    headers = {"Accept": "text/event-stream"} | ({} if last_id is None else {"Last-Event-ID": last_id})
    query = {"session_id": session_id, "tool_id": tool_id}
    return RequestSpec("GET", path_of("events", "live"), query, headers=headers)


def _span(since: datetime | None, until: datetime | None) -> JsonObject:
    """Two times as they stand in a query."""
    return {"since": None if since is None else iso(since), "until": None if until is None else iso(until)}
