"""Reads policy checks of results from the settings: rules as data, each of which lets a result pass or not.

    policy:
      checks:
        - {check: no-promises, text: "guaranteed (profit|returns)", then: reject, action: edit}
        - {check: sure-enough, confidence_below: 0.6, then: escalate, reason: the worker is not sure}
        - {check: costly, cost_above: "50.00 EUR", then: escalate}
        - {check: disclosed, channel: "social*", disclosure: missing, then: reject, action: add_disclosure}

A rule fires where all that it says holds of a result; names take `*` and `?`. A rule that cannot be understood is
refused when the home is opened, because skipping it would approve what it forbids. Patterns are matched in linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, get_args

from twinraven.foundation.errors import InvalidInput, InvalidSchema, InvalidSetting
from twinraven.foundation.json_schema import Schema, compile_schema
from twinraven.governance.model import ActionWord
from twinraven.governance.money import Money, check_currency, parse_minor
from twinraven.governance.work.check_subject import CheckSubject

Consequence = Literal["reject", "escalate", "warn"]

_GLOBS: Final = ("tenant", "campaign", "task_type", "channel", "persona", "risk_tag", "artifact")
_SAID: Final = ("channel", "persona")
_FIELDS: Final = (
    "check",
    "name",
    *_GLOBS,
    "text",
    "confidence_below",
    "cost_above",
    "budget_left_below",
    "disclosure",
    "window",
    "then",
    "action",
    "reason",
)


@dataclass(frozen=True, slots=True)
class CheckRule:
    """One policy check as data."""

    check_id: str
    name: str
    then: Consequence
    globs: Mapping[str, str]
    pattern: Schema | None = None
    confidence_below: float | None = None
    cost_above: Money | None = None
    budget_left_below: Money | None = None
    is_undisclosed: bool = False
    is_outside_window: bool = False
    action: ActionWord = "rework"
    reason: str = ""

    @property
    def looks_at_leaving(self) -> bool:
        """Whether the rule is about what is said, where or in whose voice: it holds for what leaves the house too."""
        return self.pattern is not None or self.is_undisclosed or not self.globs.keys().isdisjoint(_SAID)

    def fires(self, subject: CheckSubject) -> bool:
        """Return whether all that the rule says holds of a result."""
        return (
            all(_fits(glob, subject.words[name]) for name, glob in self.globs.items())
            and (self.confidence_below is None or subject.confidence < self.confidence_below)
            and (self.cost_above is None or subject.has_foreign_cost or _is_more(subject.cost, self.cost_above))
            and (self.budget_left_below is None or _is_less(subject.budget_left, self.budget_left_below))
            and (not self.is_undisclosed or not subject.is_disclosed)
            and (not self.is_outside_window or not subject.is_in_window)
            and (self.pattern is None or any(_matches(self.pattern, text) for text in subject.texts))
        )


def _fits(glob: str, words: Iterable[str]) -> bool:
    return any(fnmatchcase(word, glob) for word in words)


def _is_more(cost: Money | None, limit: Money) -> bool:
    """Return whether a cost is above a limit; one in another currency cannot be compared, and counts as above."""
    return cost is not None and (cost.currency != limit.currency or cost.minor > limit.minor)


def _is_less(left: Money | None, limit: Money) -> bool:
    return left is not None and (left.currency != limit.currency or left.minor < limit.minor)


def _matches(pattern: Schema, text: str) -> bool:
    try:
        pattern.check(text, field="text")
    except InvalidInput:
        return False
    return True


def read_check_rules(rules: Iterable[Mapping[str, Any]]) -> tuple[CheckRule, ...]:
    """Read `policy.checks`; a wrong one is named by its place, counted from 1."""
    found: dict[str, CheckRule] = {}
    for number, body in enumerate(rules, start=1):
        where = f"policy.checks[{number}]"
        rule = _read(where, body)
        if rule.check_id in found:
            raise InvalidSetting(f"{where}.check {rule.check_id!r} is there twice", field=f"{where}.check")
        found[rule.check_id] = rule
    return tuple(found.values())


def _read(where: str, body: Mapping[str, Any]) -> CheckRule:
    unknown = [name for name in body if name not in _FIELDS]
    if unknown:
        raise InvalidSetting(f"{where} has no field {unknown[0]!r}; use {', '.join(_FIELDS)}", field=where)
    for name in ("check", *_GLOBS, "text", "name", "reason"):
        if name in body and (not isinstance(body[name], str) or not body[name]):
            raise InvalidSetting(f"{where}.{name} must be text", field=f"{where}.{name}")
    if "check" not in body:
        raise InvalidSetting(f"{where}.check must name the check", field=f"{where}.check")
    text = body.get("text")
    return CheckRule(
        check_id=body["check"],
        name=body.get("name", body["check"]),
        then=_word(where, "then", body, get_args(Consequence)),
        globs={name: body[name] for name in _GLOBS if name in body},
        pattern=None if text is None else _pattern(where, text),
        confidence_below=_share(where, body.get("confidence_below")),
        cost_above=_money(where, "cost_above", body.get("cost_above")),
        budget_left_below=_money(where, "budget_left_below", body.get("budget_left_below")),
        is_undisclosed="disclosure" in body and _word(where, "disclosure", body, ("missing",)) == "missing",
        is_outside_window="window" in body and _word(where, "window", body, ("outside",)) == "outside",
        action=_word(where, "action", {"action": "rework", **body}, get_args(ActionWord)),
        reason=body.get("reason", ""),
    )


def _word(where: str, name: str, body: Mapping[str, Any], words: tuple[str, ...]) -> Any:
    if body.get(name) not in words:
        raise InvalidSetting(f"{where}.{name} must be one of {', '.join(words)}", field=f"{where}.{name}")
    return body[name]


def _share(where: str, stated: Any) -> float | None:
    if stated is None:
        return None
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not 0 <= stated <= 1:
        raise InvalidSetting(
            f"{where}.confidence_below must be a number from 0 to 1", field=f"{where}.confidence_below"
        )
    return float(stated)


def _money(where: str, name: str, stated: Any) -> Money | None:
    if stated is None:
        return None
    amount, _, currency = stated.partition(" ") if isinstance(stated, str) else ("", "", "")
    try:
        return Money(parse_minor(amount, check_currency(currency)), currency)
    except InvalidInput as error:
        raise InvalidSetting(
            f'{where}.{name} must be an amount and a currency, such as "50.00 EUR": {error.message}',
            field=f"{where}.{name}",
        ) from None


def _pattern(where: str, text: str) -> Schema:
    try:
        return compile_schema({"type": "string", "pattern": text})
    except InvalidSchema:
        raise InvalidSetting(f"{where}.text is not a regular expression", field=f"{where}.text") from None
