"""What the call path needs from others: something that reaches a service, and something that may say no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from twinraven.calls.model import CallContext, SkillInvocationRequest
from twinraven.catalog import ToolEntry


class Connector(Protocol):
    """Reaches one kind of service. It raises what went wrong; a key lets a service recognise a repetition."""

    @property
    def name(self) -> str: ...

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, key: str | None) -> Any: ...


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """What policy says of a call, and why."""

    verdict: Literal["allow", "deny", "ask"]
    reason: str
    rule: str | None = None


ALLOWED = PolicyDecision("allow", "no rule forbids it")


class PolicyGate(Protocol):
    """Judges calls before they run."""

    async def decide(
        self, entry: ToolEntry, request: SkillInvocationRequest, context: CallContext
    ) -> PolicyDecision: ...


class OpenGate:
    """A gate that lets everything pass, for homes without rules."""

    async def decide(self, entry: ToolEntry, request: SkillInvocationRequest, context: CallContext) -> PolicyDecision:
        del entry, request, context
        return ALLOWED
