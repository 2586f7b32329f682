"""Rules: what is decided once for a tool, a tenant and a caller holds for these alone."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from twinraven.calls import CallContext, RulesGate, SkillInvocationRequest, read_rules
from twinraven.catalog import Effect, Sensitivity, ToolEntry

_RULES = (
    {"tool": "pay*", "effect": "write", "then": "ask"},
    {"caller": "intern", "sensitivity": "high", "then": "deny"},
    {"tenant": "other", "tool": "*_all", "then": "deny"},
)
_ENTRY = ToolEntry("pay", "Pays.", {})
_entries = st.builds(
    ToolEntry,
    tool_id=st.sampled_from(["pay", "pay_all", "look", "look_all"]),
    description=st.just("Does something."),
    input_schema=st.just({}),
    output_schema=st.none(),
    effect=st.sampled_from(Effect),
    sensitivity=st.sampled_from(Sensitivity),
)
_askers = st.tuples(st.sampled_from(["default", "other"]), st.sampled_from([None, "intern", "ada"]))


@given(st.lists(st.tuples(_entries, _askers), max_size=30))
async def test_what_was_said_before_changes_nothing(asked: list[tuple[ToolEntry, tuple[str, str | None]]]) -> None:
    """A gate that was asked much says the same as one that was never asked, also of a tool that is another by now."""
    gate = RulesGate(read_rules(_RULES))
    for entry, (tenant_id, caller) in [*asked, *asked]:
        request = SkillInvocationRequest(entry.tool_id, {}, tenant_id=tenant_id)
        context = CallContext("s", caller=caller)
        fresh = await RulesGate(read_rules(_RULES)).decide(entry, request, context)
        assert await gate.decide(entry, request, context) == fresh


async def test_what_was_said_is_not_kept_without_end() -> None:
    """However many callers ask, each is told what the rules say."""
    gate = RulesGate(read_rules(_RULES))
    entry = replace(_ENTRY, tool_id="look", effect=Effect.READ, sensitivity=Sensitivity.HIGH)
    request = SkillInvocationRequest("look", {})
    for number in range(5000):
        assert (await gate.decide(entry, request, CallContext("s", caller=f"caller-{number}"))).verdict == "allow"
    assert (await gate.decide(entry, request, CallContext("s", caller="intern"))).verdict == "deny"
