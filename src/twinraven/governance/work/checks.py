"""Evaluates a result: the checks that every result must pass, those of the settings, and Python functions.

Every check is recorded with what it said. One that is mandatory and has not passed stands in the way of an approval;
what follows, another attempt or a look by a person, is the check's own consequence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from twinraven.foundation.canonical import to_json_value
from twinraven.foundation.errors import InvalidInput
from twinraven.governance.model import ActionWord, PolicyCheck, Verdict
from twinraven.governance.work.check_functions import CheckFunctions, denied
from twinraven.governance.work.check_rules import CheckRule, Consequence
from twinraven.governance.work.check_subject import CheckSubject


class CheckFinding(NamedTuple):
    """The outcome of a check, and the consequence if it did not pass."""

    check: PolicyCheck
    then: Consequence = "reject"
    action: ActionWord = "rework"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcome of all checks of a result."""

    findings: tuple[CheckFinding, ...]

    @property
    def checks(self) -> tuple[PolicyCheck, ...]:
        return tuple(finding.check for finding in self.findings)

    @property
    def open(self) -> tuple[CheckFinding, ...]:
        """Mandatory checks that have not passed."""
        return tuple(finding for finding in self.findings if finding.check.is_open)

    @property
    def verdict(self) -> Verdict:
        if not self.open:
            return "approve"
        return "escalate" if any(finding.then == "escalate" for finding in self.open) else "reject"

    @property
    def reason(self) -> str:
        if not self.open:
            return f"all {len(self.findings)} checks passed"
        return "; ".join(f"{each.check.name}: {each.check.details or each.check.result}" for each in self.open)[:2_000]

    @property
    def actions(self) -> tuple[dict[str, Any], ...]:
        """Return the actions required before the result can be approved."""
        return tuple(
            {"action": each.action, "target_artifact_id": None, "notes": each.check.details or each.check.name}
            for each in self.open
        )


Check = Callable[[CheckSubject], CheckFinding]


class PolicyChecks:
    """Every check of a home."""

    def __init__(self, rules: Sequence[CheckRule], functions: CheckFunctions) -> None:
        self._rules = tuple(rules)
        self._functions = functions
        self._names = frozenset(
            {*_STANDING, *(rule.check_id for rule in self._rules), *(name for name in functions.names)}
        )

    def refuse_unknown(self, names: Sequence[str]) -> None:
        """Refuse the name of a safety policy that no check has: it would check nothing."""
        unknown = [name for name in names if name not in self._names]
        if unknown:
            raise InvalidInput(
                f"there is no policy check {unknown[0]!r}; there are {', '.join(sorted(self._names))}",
                field="payload.constraints.safety_policies",
            )

    async def evaluate(self, subject: CheckSubject) -> Evaluation:
        """Run all checks; what a task names as safety policies is mandatory for it."""
        wanted = frozenset(subject.spec.constraints.safety_policies)
        found = [check(subject) for check in _STANDING.values()]
        found += [_of_rule(rule, subject, is_wanted=rule.check_id in wanted) for rule in self._rules]
        if self._functions.names:
            found += await asyncio.to_thread(lambda: list(self._asked(subject)))
        return Evaluation(tuple(found))

    def forbids(self, subject: CheckSubject, overridden: Collection[str]) -> str | None:
        """Return why an effect is forbidden, by the rules that were not overridden; None where it is allowed."""
        wanted = subject.spec.constraints.safety_policies
        for rule in self._rules:
            is_mandatory = rule.then != "warn" or rule.check_id in wanted
            if is_mandatory and rule.looks_at_leaving and rule.check_id not in overridden and rule.fires(subject):
                return f"check {rule.check_id!r} forbids it{rule.reason and f': {rule.reason}'}"
        return None

    def close(self) -> None:
        """End the process that functions run in."""
        self._functions.close()

    def _asked(self, subject: CheckSubject) -> Iterator[CheckFinding]:
        text = orjson.dumps(to_json_value(subject.as_json()))
        for name in self._functions.names:
            try:
                said = self._functions.ask(name, text)
            except OSError as error:
                said = denied(f"the check could not be run: {error}")
            mandatory = said.result != "warning"
            check = PolicyCheck(name, name, said.result, said.details, mandatory)
            yield CheckFinding(check, "escalate" if said.then == "escalate" else "reject")


def _of_rule(rule: CheckRule, subject: CheckSubject, *, is_wanted: bool) -> CheckFinding:
    mandatory = rule.then != "warn" or is_wanted
    fired = rule.fires(subject)
    result = "pass" if not fired else ("warning" if rule.then == "warn" else "fail")
    details = (rule.reason or f"its rule says to {rule.then}") if fired else ""
    return CheckFinding(PolicyCheck(rule.check_id, rule.name, result, details, mandatory), rule.then, rule.action)


def _found(check_id: str, name: str, why: str | None, then: Consequence = "reject") -> CheckFinding:
    return CheckFinding(PolicyCheck(check_id, name, "pass" if why is None else "fail", why or ""), then)


def _acceptance(subject: CheckSubject) -> CheckFinding:
    """Check that every mandatory criterion has evidence; without any evidence a person has to look."""
    said = {str(each.get("criterion_id")): bool(each.get("satisfied")) for each in subject.evidence}
    wanted = [each.criterion_id for each in subject.spec.criteria if each.mandatory]
    unmet = [each for each in wanted if said.get(each) is False]
    silent = [each for each in wanted if each not in said]
    if unmet:
        return _found("acceptance", "Acceptance criteria", f"not satisfied: {', '.join(unmet)}")
    why = f"no evidence for: {', '.join(silent)}" if silent else None
    return _found("acceptance", "Acceptance criteria", why, "escalate")


def _budget(subject: CheckSubject) -> CheckFinding:
    limits, why = subject.spec.constraints, None
    if limits.max_budget is not None:
        if subject.has_foreign_cost:
            why = f"a cost was stated that is no amount in {limits.currency}"
        elif subject.spent > limits.max_budget:
            why = "the attempts have cost more than max_budget"
    return _found("budget", "Budget", why, "escalate")


def _window(subject: CheckSubject) -> CheckFinding:
    return _found(
        "time-window",
        "Time window",
        None if subject.is_in_window else "it is outside the task's time_window",
        "escalate",
    )


def _channels(subject: CheckSubject) -> CheckFinding:
    allowed = subject.spec.constraints.channels
    foreign = [each for each in subject.channels if allowed and each not in allowed]
    why = f"not among the task's channels: {', '.join(foreign)}" if foreign else None
    return _found("channels", "Channels", why)


def _personas(subject: CheckSubject) -> CheckFinding:
    allowed = subject.spec.constraints.persona_ids
    foreign = [each for each in subject.personas if allowed and each not in allowed]
    why = f"not among the task's personas: {', '.join(foreign)}" if foreign else None
    return _found("personas", "Personas", why)


_STANDING: Final[dict[str, Check]] = {
    "acceptance": _acceptance,
    "budget": _budget,
    "time-window": _window,
    "channels": _channels,
    "personas": _personas,
}
"""What every result must pass, whatever the settings say."""
