"""Evaluates policy rules by effect, sensitivity, tool and caller. The first rule that matches decides.

    policy:
      rules:
        - {tool: "refund_*", sensitivity: high, then: ask, reason: refunds need a person}
        - {effect: write, caller: intern, then: deny}

`judge` lets a call pass only for a task whose result a judge approved; the call names the task in `task_id`. A rule
that says nothing of a field fits any value of it; names take `*` and `?`. Without a rule that fits, a call is allowed.
A rule that cannot be understood is refused when the home is opened, because skipping it would allow what it forbids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, cast, get_args

from twinraven.calls.model import CallContext, SkillInvocationRequest
from twinraven.calls.ports import ALLOWED, PolicyDecision
from twinraven.catalog import Effect, Sensitivity, ToolEntry
from twinraven.foundation.errors import InvalidSetting

Verdict = Literal["allow", "deny", "ask", "judge"]
_MOST_DECIDED = 4096
_FIELDS = ("tool", "effect", "sensitivity", "caller", "tenant", "then", "reason")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of policy."""

    then: Verdict
    tool: str = "*"
    effect: Effect | None = None
    sensitivity: Sensitivity | None = None
    caller: str = "*"
    tenant: str = "*"
    reason: str = ""

    def fits(self, entry: ToolEntry, request: SkillInvocationRequest, context: CallContext) -> bool:
        return (
            fnmatchcase(entry.tool_id, self.tool)
            and (self.effect is None or _as_strict(entry.effect, self.effect))
            and (self.sensitivity is None or entry.sensitivity is self.sensitivity)
            and fnmatchcase(context.caller or "", self.caller)
            and fnmatchcase(request.tenant_id, self.tenant)
        )

    @property
    def forbids_reads(self) -> bool:
        """Whether it can say no to a plain read; what is highly sensitive is judged in any case."""
        return self.then != "allow" and self.effect in (None, Effect.READ) and self.sensitivity is not Sensitivity.HIGH


class RulesGate:
    """A gate that follows rules in order."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self.judges_reads = any(rule.forbids_reads for rule in self._rules)
        self._decided: dict[tuple[str, str, str | None], tuple[ToolEntry, PolicyDecision]] = {}

    async def decide(self, entry: ToolEntry, request: SkillInvocationRequest, context: CallContext) -> PolicyDecision:
        """Return the decision of the rules, cached per tool, tenant and caller: they look at nothing else."""
        key = (entry.tool_id, request.tenant_id, context.caller)
        decided = self._decided.get(key)
        if decided is not None and decided[0] is entry:
            return decided[1]
        if len(self._decided) >= _MOST_DECIDED:
            self._decided.clear()
        decision = self._follow(entry, request, context)
        self._decided[key] = (entry, decision)
        return decision

    def _follow(self, entry: ToolEntry, request: SkillInvocationRequest, context: CallContext) -> PolicyDecision:
        for number, rule in enumerate(self._rules, start=1):
            if rule.fits(entry, request, context):
                reason = rule.reason or f"rule {number} says {rule.then}"
                return PolicyDecision(rule.then, f"{entry.tool_id!r}: {reason}", rule=f"rules[{number}]")
        return ALLOWED


def read_rules(rules: Iterable[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Read the policy rules of the settings; a wrong one is named by its place, counted from 1 as in the audit log."""
    return tuple(_read_rule(f"policy.rules[{number}]", rule) for number, rule in enumerate(rules, start=1))


def _read_rule(where: str, body: Mapping[str, Any]) -> Rule:
    unknown = [name for name in body if name not in _FIELDS]
    if unknown:
        raise InvalidSetting(f"{where} has no field {unknown[0]!r}; use {', '.join(_FIELDS)}", field=where)
    for name, value in body.items():
        if not isinstance(value, str) or not value:
            raise InvalidSetting(f"{where}.{name} must be text", field=f"{where}.{name}")
    then = body.get("then")
    if then not in get_args(Verdict):
        raise InvalidSetting(f"{where}.then must be one of {', '.join(get_args(Verdict))}", field=f"{where}.then")
    return Rule(
        then=cast("Verdict", then),
        tool=body.get("tool", "*"),
        effect=_member(where, "effect", body, Effect),
        sensitivity=_member(where, "sensitivity", body, Sensitivity),
        caller=body.get("caller", "*"),
        tenant=body.get("tenant", "*"),
        reason=body.get("reason", ""),
    )


def _member(where: str, name: str, body: Mapping[str, Any], kind: Any) -> Any:
    if name not in body:
        return None
    try:
        return kind(body[name])
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise InvalidSetting(f"{where}.{name} must be one of {known}", field=f"{where}.{name}") from None


def _as_strict(actual: Effect, ruled: Effect) -> bool:
    """Treat unknown as write: a rule about writes holds for unclassified tools."""
    return actual is ruled or (ruled is Effect.WRITE and actual is Effect.UNKNOWN)
