"""The two clients. `AsyncClient` is the operations themselves; `Client` runs each of them to its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from twinraven.foundation.errors import InvalidInput
from twinraven.sdk.exchange import Exchange
from twinraven.sdk.model import (
    ApprovalInfo,
    ApprovalState,
    AuditEntry,
    AuditReport,
    CallResult,
    Chain,
    Event,
    JsonObject,
    KeyInfo,
    LearnedTool,
    Me,
    ObservedCall,
    Outcome,
    Role,
    SecretInfo,
    SessionInfo,
    ToolInfo,
    UserInfo,
)
from twinraven.sdk.observing import AsyncSessionRecorder, SessionRecorder
from twinraven.sdk.operations import Operations
from twinraven.sdk.wire import BlockingWire, LoopWire, Wire, check_url, each, finish

TIMEOUT_S: Final = 60.0
"""How long an answer may take; a tool may take half of it by default."""


class AsyncClient(Operations):
    """A server's API, on an event loop: `async with AsyncClient(url, key) as client:`."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        super().__init__(_exchange(LoopWire(timeout), url, key))

    def observe(self, session_id: str, *, task_id: str | None = None) -> AsyncSessionRecorder:
        """Records the calls of one session, made elsewhere; sends them at the latest when its block ends."""
        return AsyncSessionRecorder(self.record, session_id, task_id=task_id)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._exchange.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Client:
    """A server's API, for programs without an event loop; several threads may share one."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        self._exchange = _exchange(BlockingWire(timeout), url, key)
        self._operations = Operations(self._exchange)

    def me(self) -> Me:
        """Whom the key stands for."""
        return finish(self._operations.me())

    def call(
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
        return self.invoke(
            tool,
            arguments,
            session_id=session_id,
            turn=turn,
            outside_input=outside_input,
            idempotency_key=idempotency_key,
            tags=tags,
            task_id=task_id,
        ).unwrap()

    def invoke(
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
        return finish(
            self._operations.invoke(
                tool,
                arguments,
                session_id=session_id,
                turn=turn,
                outside_input=outside_input,
                idempotency_key=idempotency_key,
                tags=tags,
                task_id=task_id,
            )
        )

    def tools(self) -> Iterator[ToolInfo]:
        """Everything the caller may call."""
        return each(self._operations.tools())

    def tool(self, tool_id: str) -> ToolInfo:
        """One tool."""
        return finish(self._operations.tool(tool_id))

    def record(self, calls: Iterable[ObservedCall]) -> list[UUID]:
        """Remember calls that were made elsewhere; they are on disk when this returns."""
        return finish(self._operations.record(calls))

    def observe(self, session_id: str, *, task_id: str | None = None) -> SessionRecorder:
        """Records the calls of one session, made elsewhere; sends them at the latest when its block ends."""
        return SessionRecorder(self._operations.record, session_id, task_id=task_id)

    def events(
        self,
        *,
        session_id: str | None = None,
        tool_id: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        newest: bool = False,
    ) -> Iterator[Event]:
        """Calls, oldest first unless the newest are wanted first."""
        return each(
            self._operations.events(
                session_id=session_id, tool_id=tool_id, tag=tag, since=since, until=until, newest=newest
            )
        )

    def event(self, event_id: UUID | str) -> Event:
        """One call, with its output where it is kept."""
        return finish(self._operations.event(event_id))

    def follow(
        self, *, session_id: str | None = None, tool_id: str | None = None, after: int | None = None
    ) -> Iterator[Event]:
        """Calls as they are recorded, from now on or from behind an arrival number; a broken connection is resumed."""
        return each(self._operations.follow(session_id=session_id, tool_id=tool_id, after=after))

    def sessions(self, *, outcome: Outcome | None = None) -> Iterator[SessionInfo]:
        """Sessions with their size, time and outcome."""
        return each(self._operations.sessions(outcome=outcome))

    def session(self, session_id: str) -> SessionInfo:
        """One session and its calls, in order."""
        return finish(self._operations.session(session_id))

    def state_verdict(self, session_id: str, outcome: Outcome) -> None:
        """Say how a session's task went."""
        finish(self._operations.state_verdict(session_id, outcome))

    def chains(self) -> Iterator[Chain]:
        """Chains that mining found, the latest run first."""
        return each(self._operations.chains())

    def chain(self, chain_id: UUID | str) -> Chain:
        """One chain."""
        return finish(self._operations.chain(chain_id))

    def learned_tools(self) -> Iterator[LearnedTool]:
        """Every learned tool, its state and its use."""
        return each(self._operations.learned_tools())

    def learned_tool(self, tool_id: str) -> LearnedTool:
        """One learned tool and its versions."""
        return finish(self._operations.learned_tool(tool_id))

    def definition(self, tool_id: str, version: int) -> JsonObject:
        """The definition of one version."""
        return finish(self._operations.definition(tool_id, version))

    def review(self, tool_id: str, version: int) -> JsonObject:
        """All that a decision about a version needs."""
        return finish(self._operations.review(tool_id, version))

    def promote(
        self, tool_id: str, *, version: int | None = None, rename_to: str | None = None, revision: int | None = None
    ) -> LearnedTool:
        """Put a version that passed into service."""
        return finish(self._operations.promote(tool_id, version=version, rename_to=rename_to, revision=revision))

    def reject(
        self, tool_id: str, reason: str, *, version: int | None = None, revision: int | None = None
    ) -> LearnedTool:
        """Say no to a version that waits."""
        return finish(self._operations.reject(tool_id, reason, version=version, revision=revision))

    def roll_back(self, tool_id: str, to_version: int, *, revision: int | None = None) -> LearnedTool:
        """Put an earlier version back into service."""
        return finish(self._operations.roll_back(tool_id, to_version, revision=revision))

    def retire(self, tool_id: str, *, note: str | None = None, revision: int | None = None) -> LearnedTool:
        """End a tool for good."""
        return finish(self._operations.retire(tool_id, note=note, revision=revision))

    def quarantine(self, tool_id: str, reason: str, *, revision: int | None = None) -> LearnedTool:
        """Take a tool out of service at once, whatever its revision."""
        return finish(self._operations.quarantine(tool_id, reason, revision=revision))

    def release(self, tool_id: str, *, revision: int | None = None) -> LearnedTool:
        """End a quarantine."""
        return finish(self._operations.release(tool_id, revision=revision))

    def approvals(self, *, state: ApprovalState | None = None) -> Iterator[ApprovalInfo]:
        """Calls that waited or wait for somebody's word, newest first."""
        return each(self._operations.approvals(state=state))

    def approval(self, approval_id: str) -> ApprovalInfo:
        """One of them."""
        return finish(self._operations.approval(approval_id))

    def grant(self, approval_id: str, *, note: str | None = None) -> ApprovalInfo:
        """Let the call run, once; whoever makes it again gets its answer."""
        return finish(self._operations.grant(approval_id, note=note))

    def deny(self, approval_id: str, *, note: str | None = None) -> ApprovalInfo:
        """Refuse the call; whoever makes it again reads the note."""
        return finish(self._operations.deny(approval_id, note=note))

    def secrets(self) -> Iterator[SecretInfo]:
        """One's own secrets, without their values."""
        return each(self._operations.secrets())

    def secret(self, secret_id: str) -> SecretInfo:
        """What is known about a secret."""
        return finish(self._operations.secret(secret_id))

    def add_secret(self, name: str, type: str, value: str, *, shared: bool = False) -> SecretInfo:
        """Keep a secret."""
        return finish(self._operations.add_secret(name, type, value, shared=shared))

    def rotate_secret(self, secret_id: str, value: str, *, version: int | None = None) -> SecretInfo:
        """Replace a secret's value; its id stays."""
        return finish(self._operations.rotate_secret(secret_id, value, version=version))

    def change_secret(self, secret_id: str, *, name: str | None = None, shared: bool | None = None) -> SecretInfo:
        """Rename a secret, or share it."""
        return finish(self._operations.change_secret(secret_id, name=name, shared=shared))

    def delete_secret(self, secret_id: str) -> None:
        """Delete a secret that no tool uses."""
        finish(self._operations.delete_secret(secret_id))

    def audit(
        self,
        *,
        subject_type: str | None = None,
        subject_id: str | None = None,
        event_type: str | None = None,
        actor_id: str | None = None,
        correlation_id: str | None = None,
        newest: bool = False,
    ) -> Iterator[AuditEntry]:
        """Entries of the audit log, oldest first unless the newest are wanted first."""
        return each(
            self._operations.audit(
                subject_type=subject_type,
                subject_id=subject_id,
                event_type=event_type,
                actor_id=actor_id,
                correlation_id=correlation_id,
                newest=newest,
            )
        )

    def verify_audit(self) -> AuditReport:
        """Whether the audit log is whole."""
        return finish(self._operations.verify_audit())

    def users(self) -> Iterator[UserInfo]:
        """The users of the tenant."""
        return each(self._operations.users())

    def add_user(self, name: str, *, role: Role = "member") -> UserInfo:
        """Add a user to the tenant."""
        return finish(self._operations.add_user(name, role=role))

    def keys(self) -> Iterator[KeyInfo]:
        """One's own API keys; for administrators, everybody's."""
        return each(self._operations.keys())

    def issue_key(self, *, user_id: str | None = None, label: str = "", expires_in_days: int | None = None) -> KeyInfo:
        """Make an API key; `clear` is the key itself, here and nowhere else."""
        return finish(self._operations.issue_key(user_id=user_id, label=label, expires_in_days=expires_in_days))

    def revoke_key(self, key_id: str) -> None:
        """Revoke an API key."""
        finish(self._operations.revoke_key(key_id))

    def close(self) -> None:
        """Close the connections."""
        finish(self._exchange.close())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _exchange(wire: Wire, url: str, key: str | None) -> Exchange:
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key and key):
        raise InvalidInput("the key holds characters that no key has", field="key")
    return Exchange(wire, check_url(url), key)
