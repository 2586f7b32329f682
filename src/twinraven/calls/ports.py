"""Declares the ports of the call path: connectors, policy gate, approver, health check and secret redaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable
from uuid import UUID

from twinraven.calls.approval import ApprovalRequest
from twinraven.calls.model import CallContext, CallerChannel, Grant, SkillInvocationRequest
from twinraven.catalog import ToolEntry
from twinraven.foundation.actors import Actor


# Made for every call: not frozen, because that would take three times as long.
@dataclass(slots=True)
class CallFrame:
    """The call that a connector serves, as seen from inside: whose it is, and what inner calls must name."""

    tenant_id: str
    session_id: str
    event_id: UUID
    turn: int | None = None
    key: str | None = None
    """Lets a service recognise a repetition."""
    correlation_id: str | None = None
    task_id: str | None = None
    caller: str | None = None
    actor: Actor | None = None
    durable: bool = True
    grant: Grant | None = None
    """The grant; inner calls run under it."""
    spare_key: str | None = None
    """What stands for this request where it has no key; the keys of inner writes can be made of it."""
    epoch: int | None = None
    """How often the durable run around this call was taken up; inner calls name it too."""
    channel: CallerChannel | None = None
    """The client that waits for this call, where a tool may reach it."""
    keep_alive: Callable[[], None] | None = None
    """Begins the call's time anew, for a tool that shows that it is at work."""
    is_unsent: bool = False
    """Whether the connector is still finding out where to send the call, so that nothing was sent."""


class Connector(Protocol):
    """Reaches one kind of service, and raises what went wrong."""

    @property
    def name(self) -> str: ...

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> Any: ...


@runtime_checkable
class CompositeConnector(Protocol):
    """A connector whose tools call other tools, and which can say beforehand which ones."""

    def tools_inside(self, tenant_id: str, entry: ToolEntry) -> Iterable[ToolEntry]: ...


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The decision of the policy on a call, and its reason."""

    verdict: Literal["allow", "deny", "ask", "judge"]
    reason: str
    rule: str | None = None
    decision_id: str | None = None
    """The judge's decision in force that lets it pass, where policy wants one."""

    def as_json(self) -> dict[str, str | None]:
        told = {"verdict": self.verdict, "rule": self.rule}
        return told if self.decision_id is None else {**told, "decision_id": self.decision_id}


ALLOWED = PolicyDecision("allow", "no rule forbids it")


class PolicyGate(Protocol):
    """Judges calls before they run."""

    @property
    def judges_reads(self) -> bool:
        """Whether plain reads are shown to it too; most policies are about effects, and reads are many."""
        ...

    async def decide(
        self, entry: ToolEntry, request: SkillInvocationRequest, context: CallContext
    ) -> PolicyDecision: ...


class Approver(Protocol):
    """Approves calls that the policy leaves open: a person by stored requests, or a judge in their place."""

    async def seek(self, wish: ApprovalRequest) -> Grant:
        """Return the grant of the call; raise ApprovalPending while it is undecided, ApprovalDenied after a no."""
        ...


class TaskDecision(NamedTuple):
    """A judge's approval in force, and where the task that it is about belongs."""

    decision_id: str
    campaign_id: str
    goal_id: str | None


class DecisionSource(Protocol):
    """Knows which judges' approvals are in force."""

    async def require(self, tenant_id: str, task_id: str | None) -> TaskDecision:
        """Return the decision in force that approves a task; raises PolicyViolation where there is none."""
        ...


class FirstHealthCheck(Protocol):
    """Checks the health of what was never checked, before the first call is sent to it."""

    def needs_check(self, tenant_id: str, entry: ToolEntry) -> bool:
        """Return whether a tool's service may be unchecked; asked on every call, so it costs nothing."""
        ...

    async def check_first(self, tenant_id: str, entry: ToolEntry, *, caller: str | None) -> None:
        """Check it now and keep what was found, which its connector then goes by."""
        ...


class OpenGate:
    """A gate that lets everything pass, for homes without rules."""

    judges_reads = False

    async def decide(self, entry: ToolEntry, request: SkillInvocationRequest, context: CallContext) -> PolicyDecision:
        del entry, request, context
        return ALLOWED


class SecretRedaction(Protocol):
    """Knows what is secret, and what stands in its place."""

    def prepare(self, tenant_id: str) -> None:
        """Learn a tenant's secrets; asks the store."""
        ...

    def redact(self, tenant_id: str, text: bytes) -> bytes:
        """Return a JSON text without the tenant's secrets; may ask the store."""
        ...

    def has_marks(self, schema: Any) -> bool:
        """Return whether a JSON Schema marks anything as secret."""
        ...

    def redact_marked(self, tenant_id: str, schema: Any, value: Any) -> Any:
        """Return a value without what its schema marks."""
        ...

    def echoes(self, tenant_id: str, schema: Any, value: Any) -> Callable[[bytes], bytes]:
        """Takes out of a JSON text whatever stands in a marked field of `value`."""
        ...
