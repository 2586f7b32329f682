"""A call path on which policy asks about some tools, and people who can answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinraven.audit import AuditFilter, AuditLog, AuditRecord, KeyRing, Signer
from twinraven.calls import (
    Approval,
    Approvals,
    CallContext,
    CallEvidence,
    Calls,
    Claims,
    RulesGate,
    SkillInvocationRequest,
    SkillInvocationResponse,
    read_rules,
)
from twinraven.catalog import Catalog, FunctionTools, tool
from twinraven.connectors import PythonConnector
from twinraven.flow import FlowConnector, LocalDefinitions
from twinraven.foundation.errors import ToolUnavailable
from twinraven.muninn import Collector
from twinraven.registry import SynthesizedTool
from twinraven.storage import Database
from twinraven.tenancy import Principal

TTL_S = 600
ADA = Principal("default", "ada", "member")
BOB = Principal("default", "bob", "member")
ROOT = Principal("default", "root", "admin")
ASKING = [
    {"tool": "refund", "then": "ask", "reason": "refunds need a person"},
    {"tool": "read_file", "then": "ask", "reason": "files are private"},
    {"tool": "wipe", "then": "deny", "reason": "never"},
]


@dataclass
class Desk:
    """Tools whose effects can be counted."""

    refunded: list[int] = field(default_factory=list[int])
    is_down: bool = False

    @tool(effect="write")
    async def refund(self, order: int, amount: int = 1) -> dict[str, int]:
        """Give money back."""
        if self.is_down:
            raise ToolUnavailable("the bank is away")
        self.refunded.append(order)
        return {"order": order, "amount": amount, "number": len(self.refunded)}

    @tool(effect="read")
    async def read_file(self, person: str) -> str:
        """A person's file."""
        return f"all about {person}"

    @tool(effect="read")
    async def look_up(self, order: int) -> dict[str, int]:
        """An order."""
        return {"order": order}

    @tool(effect="write")
    async def wipe(self) -> None:
        """Forget everything."""
        self.refunded.clear()


class House:
    """Everything between a caller and the database, with a clock that is told to go on."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.now = 1_700_000_000_000_000
        self.desk = Desk()
        self.audit = AuditLog(database, Signer(KeyRing(folder / "keys" / "audit")))
        self.approvals = Approvals(database, audit=self.audit, ttl_s=TTL_S, micros=lambda: self.now)
        self.collector = Collector(database)
        functions = FunctionTools([self.desk.refund, self.desk.read_file, self.desk.look_up, self.desk.wipe])
        self.shelf = LocalDefinitions()
        self.catalog = Catalog(functions, self.shelf)
        self.calls = Calls(
            self.catalog,
            self.collector,
            Claims(database, micros=lambda: self.now),
            [PythonConnector(functions)],
            gate=RulesGate(read_rules(ASKING)),
            approver=self.approvals,
            evidence=CallEvidence(self.audit),
            micros=lambda: self.now,
        )
        self.calls.add_connector(FlowConnector(self.calls, self.catalog, self.shelf))

    def pass_s(self, seconds: int) -> None:
        self.now += seconds * 1_000_000

    async def ask(
        self,
        tool_name: str = "refund",
        key: str | None = "k",
        *,
        caller: str = "ada",
        tenant: str = "default",
        spare: str | None = None,
        **params: Any,
    ) -> SkillInvocationResponse:
        request = SkillInvocationRequest(
            tool_name, params or {"order": 7}, tenant_id=tenant, idempotency_key=key, correlation_id="ticket-9"
        )
        return await self.calls.invoke(request, CallContext("session-1", caller=caller, spare_key=spare))

    async def pending(self, *args: Any, **kwargs: Any) -> Approval:
        """The request that a call which must wait leaves behind."""
        response = await self.ask(*args, **kwargs)
        assert code(response) == "APPROVAL_PENDING", response.error
        assert response.error is not None
        return await self.approvals.get(kwargs.get("tenant", "default"), response.error["details"]["approval_id"])

    async def entries(self, *event_types: str) -> list[AuditRecord]:
        found = await self.audit.entries("default", AuditFilter())
        return [entry for entry in found if not event_types or entry.event_type in event_types]

    def offer(self, *tool_ids: str, tool_id: str = "composite", **inputs: dict[str, Any]) -> None:
        """Offer a composite of these tools."""
        steps = [
            {"step_index": number, "tool_id": name, "input_mapping": inputs.get(name, {})}
            for number, name in enumerate(tool_ids)
        ]
        body = {
            "tool_id": tool_id,
            "description": "What a test composes.",
            "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}},
            "steps": steps,
            "source_chain_id": "0b0e7a3c-7a9c-4f0e-8a66-6d4ad0a1f0aa",
            "created_at": "2026-01-15T10:30:00Z",
        }
        self.shelf.offer([SynthesizedTool.from_json(body)], self.catalog, tenant_id="default")


def code(response: SkillInvocationResponse) -> str | None:
    """The error's code, where there is one."""
    return None if response.error is None else response.error["code"]
