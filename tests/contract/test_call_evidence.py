"""Calls and their evidence on both stores: what is audited, what is refused, and what happens once."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from twinraven.audit import AuditFilter, AuditLog, AuditRecord, KeyRing, Signer
from twinraven.calls import (
    CallContext,
    CallEvidence,
    CallFailed,
    Calls,
    Claims,
    RulesGate,
    SkillInvocationRequest,
    read_rules,
)
from twinraven.catalog import Catalog, FunctionTools, tool
from twinraven.connectors import PythonConnector
from twinraven.foundation.correlation import note_correlation
from twinraven.foundation.errors import InvalidSetting, PolicyViolation, StorageError, ToolUnavailable
from twinraven.muninn import Collector, EventFilter, SqlEventStore
from twinraven.storage import Database, Transaction, Work

HERE = CallContext("session-1", caller="ada")


@dataclass
class Bank:
    """Tools with effects that can be counted."""

    paid: list[str] = field(default_factory=list[str])
    is_down: bool = False
    forbids: bool = False

    @tool(effect="write", sensitivity="high")
    async def pay(self, to: str, amount: int = 1) -> dict[str, Any]:
        """Send money."""
        if self.is_down:
            raise ToolUnavailable("the bank is away")
        self.paid.append(to)
        logging.getLogger("bank").info("paid")
        return {"paid": to, "amount": amount, "number": len(self.paid)}

    @tool(effect="write", idempotent_by=("invoice",))
    async def settle(self, invoice: str, note: str = "") -> dict[str, Any]:
        """Settle an invoice, once per session."""
        self.paid.append(invoice)
        return {"settled": invoice, "note": note}

    @tool(effect="write", idempotent_by=("invoice",), within=60)
    async def remind(self, invoice: str) -> str:
        """Send a reminder, at most one a minute."""
        self.paid.append(invoice)
        return invoice

    @tool(effect="read", sensitivity="high")
    async def read_file(self, person: str) -> str:
        """A person's file."""
        return f"all about {person}"

    @tool(effect="write")
    async def nest(self, depth: int) -> Any:
        """Pay, and answer with a very deep receipt."""
        self.paid.append("nested")
        receipt: Any = 1
        for _ in range(depth):
            receipt = [receipt]
        return receipt

    @tool(effect="read")
    async def balance(self) -> int:
        """The balance."""
        if self.forbids:
            raise PolicyViolation("the bank shows it to nobody")
        return 7


@dataclass
class House:
    """A call path with evidence."""

    database: Database
    bank: Bank
    audit: AuditLog
    collector: Collector
    rules: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    now: int = 1_000_000_000_000_000

    def calls(self) -> Calls:
        functions = FunctionTools(
            [self.bank.pay, self.bank.settle, self.bank.remind, self.bank.read_file, self.bank.balance, self.bank.nest]
        )
        return Calls(
            Catalog(functions),
            self.collector,
            Claims(self.database),
            [PythonConnector(functions)],
            gate=RulesGate(read_rules(self.rules)),
            evidence=CallEvidence(self.audit),
            micros=lambda: self.now,
        )

    async def entries(self, *event_types: str) -> list[AuditRecord]:
        found = await self.audit.entries("default", AuditFilter())
        return [entry for entry in found if not event_types or entry.event_type in event_types]


@pytest.fixture
async def house(database: Database, tmp_path: Path) -> AsyncIterator[House]:
    collector = Collector(database)
    yield House(database, Bank(), AuditLog(database, Signer(KeyRing(tmp_path / "keys" / "audit"))), collector)
    collector.close()


class Listening(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record)


def request(tool_name: str, key: str | None = None, **params: Any) -> SkillInvocationRequest:
    return SkillInvocationRequest(tool_name, params, idempotency_key=key, correlation_id="ticket-9")


@pytest.mark.req("CH-10", "CH-15")
async def test_a_write_leaves_intent_and_result_that_reconstruct_it(house: House) -> None:
    """Who, what, under which key and with what result can be read from the audit log, joined with Muninn's event."""
    response = await house.calls().invoke(request("pay", "k1", to="bob", amount=5), HERE)
    intent, result = await house.entries()
    assert (intent.event_type, result.event_type) == ("call.intended", "call.succeeded")
    for entry in (intent, result):
        assert entry.actor_id == "ada"
        assert entry.correlation_id == "ticket-9"
        assert entry.data["idempotency_key"] == "k1"
        assert entry.data["event_id"] == str(response.event_id)
    assert (await house.audit.entry("default", intent.id)).body == {"params": {"to": "bob", "amount": 5}}
    assert (await house.audit.entry("default", result.id)).body == {"output": response.output}
    event = (await SqlEventStore(house.database).events("default", EventFilter()))[0]
    assert event.correlation_id == "ticket-9"
    await house.calls().invoke(replace(request("pay", "k2", to="bob"), extra={"invoice": "2026-7"}), HERE)
    more = (await house.entries("call.intended"))[-1]
    told = (await house.audit.entry("default", more.id)).body
    assert (told["params"]["to"], told["extra"]) == ("bob", {"invoice": "2026-7"})
    assert (await house.audit.verify("default")).ok


@pytest.mark.req("CH-23")
@pytest.mark.parametrize("given", ["ticket-9", None])
async def test_one_id_runs_through_events_evidence_and_logs(house: House, given: str | None) -> None:
    """A request's correlation id, given or minted, is in its event, its audit entries and all that is logged for it."""
    handler = Listening()
    handler.addFilter(note_correlation)
    loggers = [logging.getLogger(name) for name in ("twinraven.calls", "bank")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    asked = SkillInvocationRequest("pay", {"to": "bob"}, idempotency_key="k", correlation_id=given)
    try:
        await house.calls().invoke(asked, HERE)
        logging.getLogger("bank").info("closed")
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
    wanted = given or asked.id
    logged = {(line.name, vars(line)["correlation_id"]) for line in handler.heard}
    assert logged == {("bank", wanted), ("twinraven.calls", wanted), ("bank", "-")}
    assert {entry.correlation_id for entry in await house.entries()} == {wanted}
    (event,) = await SqlEventStore(house.database).events("default", EventFilter())
    assert event.correlation_id == wanted


@pytest.mark.req("CH-10")
async def test_a_sensitive_read_is_audited_and_a_plain_one_is_not(house: House) -> None:
    """Reading a person's file leaves an entry; reading a balance does not."""
    await house.calls().call("balance", {}, HERE)
    assert await house.entries() == []
    await house.calls().call("read_file", {"person": "eve"}, HERE)
    (entry,) = await house.entries()
    assert (entry.event_type, entry.data["sensitivity"]) == ("call.read", "high")


@pytest.mark.req("CH-22", "CH-21")
async def test_a_policy_violation_is_audited_and_nothing_happens(house: House) -> None:
    """A denied call is refused for good, with its rule, and leaves an entry with ids, code and message."""
    house.rules = [{"tool": "pay", "caller": "ada", "then": "deny", "reason": "ada may not pay"}]
    response = await house.calls().invoke(request("pay", "k2", to="bob"), HERE)
    assert response.error is not None
    assert (response.error["code"], response.error["retryable"]) == ("POLICY_VIOLATION", False)
    assert house.bank.paid == []
    (entry,) = await house.entries("policy.refused")
    assert (entry.code, entry.data["tool_id"]) == ("POLICY_VIOLATION", "pay")
    assert "ada may not pay" in (entry.message or "")


@pytest.mark.req("CH-21", "CH-22")
async def test_a_failed_effect_is_audited_with_its_code(house: House) -> None:
    """What failed leaves its code, its message and whether it may be tried again, which a violation never may; a retry
    under the same key runs."""
    house.bank.is_down = True
    calls = house.calls()
    assert (await calls.invoke(request("pay", "k3", to="bob"), HERE)).status == "failed"
    (failed,) = await house.entries("call.failed")
    assert (failed.code, failed.data["retryable"]) == ("TOOL_UNAVAILABLE", True)
    house.bank.is_down = False
    assert (await calls.invoke(request("pay", "k3", to="bob"), HERE)).status == "success"
    assert house.bank.paid == ["bob"]
    house.bank.forbids = True
    assert (await calls.invoke(request("balance"), HERE)).status == "failed"
    (refused,) = await house.entries("policy.refused")
    assert (refused.code, refused.message) == ("POLICY_VIOLATION", "the bank shows it to nobody")
    assert refused.data["retryable"] is False


@pytest.mark.req("CH-10", "CH-16")
async def test_an_answer_as_deep_as_json_goes_is_settled_with_its_evidence(house: House) -> None:
    """Wrapping an answer for the record never costs the record of an effect that has happened."""
    for depth in (253, 254):
        calls = house.calls()
        first = await calls.invoke(request("nest", f"deep-{depth}", depth=depth), HERE)
        again = await calls.invoke(request("nest", f"deep-{depth}", depth=depth), HERE)
        assert (first.status, again.replayed, again.output) == ("success", True, first.output)
    assert house.bank.paid == ["nested", "nested"]
    assert len(await house.entries("call.succeeded")) == 2
    assert (await house.audit.verify("default")).ok


async def test_a_call_makes_as_many_commits_as_the_documentation_says(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two around a write, one before a sensitive read or for a refusal, none of its own for a plain read."""
    commits: list[str] = []
    write = house.database.write

    async def counted(tenant_id: str, work: Work[Any]) -> Any:
        commits.append(tenant_id)
        return await write(tenant_id, work)

    monkeypatch.setattr(house.database, "write", counted)
    house.rules = [{"tool": "settle", "then": "deny"}]
    wanted = {"pay": ({"to": "bob"}, 2), "read_file": ({"person": "x"}, 1), "settle": ({"invoice": "x"}, 1)}
    for name, (params, count) in {**wanted, "balance": ({}, 0)}.items():
        commits.clear()
        key = f"key-{name}" if name in ("pay", "settle") else None
        await house.calls().invoke(request(name, key, **params), HERE)
        assert (name, len(commits)) == (name, count)


@pytest.mark.req("CH-10")
async def test_without_evidence_no_effect(house: House) -> None:
    """If the intent cannot be written down, the tool is not called and the key stays free."""

    def refuse(tx: Transaction, entry: object) -> AuditRecord:
        del tx, entry
        raise StorageError("the audit log cannot be written")

    calls = house.calls()
    house.audit.append = refuse  # pyright: ignore[reportAttributeAccessIssue]
    assert (await calls.invoke(request("pay", "k4", to="bob"), HERE)).status == "failed"
    assert house.bank.paid == []
    del house.audit.append
    assert (await calls.invoke(request("pay", "k4", to="bob"), HERE)).status == "success"


@pytest.mark.req("CH-16")
async def test_a_key_derived_from_arguments_makes_repetition_harmless(house: House) -> None:
    """Equal values in the named arguments are one effect within a session; another session is another effect."""
    calls = house.calls()
    first = await calls.call("settle", {"invoice": "I-1", "note": "now"}, HERE)
    with pytest.raises(CallFailed) as caught:
        await calls.call("settle", {"invoice": "I-1", "note": "again"}, HERE)
    assert caught.value.code == "IDEMPOTENCY_CONFLICT"
    assert await calls.call("settle", {"invoice": "I-1", "note": "now"}, HERE) == first
    await calls.call("settle", {"invoice": "I-1"}, CallContext("session-2"))
    await calls.call("settle", {"invoice": "I-2"}, HERE)
    assert house.bank.paid == ["I-1", "I-1", "I-2"]


@pytest.mark.req("CH-16")
async def test_a_key_derived_for_a_time_span_ends_with_it(house: House) -> None:
    """Within a minute the reminder goes out once, whoever asks; in the next minute again."""
    calls = house.calls()
    for session in ("a", "b"):
        await calls.call("remind", {"invoice": "I-1"}, CallContext(session))
    house.now += 61_000_000
    await calls.call("remind", {"invoice": "I-1"}, HERE)
    assert house.bank.paid == ["I-1", "I-1"]


@pytest.mark.req("CH-15")
@pytest.mark.parametrize(
    ("rules", "tool_name", "verdict"),
    [
        ([{"effect": "write", "then": "deny"}], "settle", "deny"),
        ([{"tool": "set*", "then": "allow"}, {"effect": "write", "then": "deny"}], "settle", "success"),
        ([{"sensitivity": "high", "then": "ask"}], "read_file", "ask"),
        ([{"caller": "bob", "then": "deny"}], "settle", "success"),
        ([{"tenant": "default", "effect": "write", "then": "ask"}], "pay", "ask"),
        ([{"tool": "bal*", "caller": "ada", "then": "deny"}], "balance", "deny"),
        ([{"effect": "read", "then": "deny"}], "balance", "deny"),
        ([{"effect": "read", "sensitivity": "high", "then": "deny"}], "balance", "success"),
    ],
)
async def test_the_first_rule_that_fits_decides(
    house: House, rules: list[dict[str, str]], tool_name: str, verdict: str
) -> None:
    """Rules match by tool, effect, sensitivity, caller and tenant, in order."""
    house.rules = rules
    params: dict[str, Any] = {
        "settle": {"invoice": "x"},
        "pay": {"to": "x"},
        "read_file": {"person": "x"},
        "balance": {},
    }
    key = None if tool_name == "balance" else "key"
    response = await house.calls().invoke(request(tool_name, key, **params[tool_name]), HERE)
    said = response.status if response.error is None else response.error["details"]["verdict"]
    assert said == verdict


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"then": "perhaps"}, "then"),
        ({"then": "deny", "effect": "destroy"}, "effect"),
        ({"then": "deny", "tols": "x"}, "tols"),
        ({"then": "deny", "tool": 7}, "tool"),
    ],
)
def test_a_rule_that_cannot_be_understood_is_refused(rule: dict[str, Any], field: str) -> None:
    """A misspelled rule stops the home from opening, because skipping it would allow what it forbids."""
    with pytest.raises(InvalidSetting) as caught:
        read_rules([rule])
    assert field in caught.value.message


def test_rules_are_read_from_the_settings(tmp_path: Path) -> None:
    """Policy is written in twinraven.yaml."""
    from twinraven.app import load_settings

    home = tmp_path / ".twinraven"
    home.mkdir()
    (tmp_path / "twinraven.yaml").write_text("policy:\n  rules:\n    - {effect: write, then: deny}\n")
    load: Callable[..., Any] = load_settings
    assert load(home, {}).policy.rules == ({"effect": "write", "then": "deny"},)
