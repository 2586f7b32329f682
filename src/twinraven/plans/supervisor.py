"""Supervises what a model says: reads its JSON, checks it, and repairs it at most twice for each kind of repair.

A rule is tried first, because it costs nothing and asks nobody. Then the model is told what is wrong with its answer.
Every attempt is recorded with what it began with and what it gave. What cannot be repaired ends the plan in order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from twinraven.foundation.canonical import JsonObject, canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput, InvalidOutput, TwinRavenError
from twinraven.models import ModelAnswer, ModelQuestion, mend_json, problems_of
from twinraven.plans.errors import PlanUnrecoverable
from twinraven.plans.state import MAX_ATTEMPTS, ActionType, SupervisorAction

T = TypeVar("T")

MAX_KEPT_CHARS: Final = 20_000
_SHOWN_OF_CUT: Final = 200

Ask = Callable[[str, ModelQuestion], Awaitable[ModelAnswer]]
"""Asks the model at a place of the cycle; raises where it says nothing."""


class Supervisor:
    """Repairs the answers of one cycle, and remembers every attempt."""

    def __init__(self, ask: Ask, now: Callable[[], str]) -> None:
        self._ask = ask
        self._now = now
        self.actions: list[SupervisorAction] = []

    async def read(self, answer: ModelAnswer, question: ModelQuestion, shorter: ModelQuestion | None = None) -> Any:
        """Read the JSON of an answer, repaired where need be; `shorter` asks for less where an answer was cut off."""
        if answer.value is not None:
            return answer.value
        try:
            return parse_json(answer.text.strip(), field="answer")
        except InvalidInput as error:
            problem, said = _fault(answer, f"the answer is not JSON: {error.message}")
        original = {"text": answer.text[:MAX_KEPT_CHARS]}
        # What the provider cut off may lack more than its last brackets.
        by_rule = None if answer.stop == "length" else _mended(answer.text)
        if by_rule is not None:
            self._note("json_repair", original, 1, repaired=by_rule, by="rule")
            return by_rule
        for attempt in range(1, MAX_ATTEMPTS + 1):
            if answer.stop == "length" and shorter is not None:
                question = shorter
            again = question.continued(said, f"{problem}. Answer again, with JSON alone.")
            answer = await self._ask(f"json_repair:{attempt}", again)
            value = answer.value if answer.value is not None else _mended(answer.text)
            if value is not None:
                self._note("json_repair", original, attempt, repaired=value)
                return value
            problem, said = _fault(answer, "the answer is not JSON")
            self._note("json_repair", original, attempt, error=InvalidOutput(problem))
        raise self._unrecoverable("json_repair", problem)

    async def check(
        self,
        kind: ActionType,
        value: Any,
        question: ModelQuestion,
        *,
        check: Callable[[Any], T],
        mend: Callable[[Any], Any],
    ) -> T:
        """Return what `check` makes of a value, repaired where it raises InvalidInput."""
        try:
            return check(value)
        except InvalidInput as error:
            problem = error
        original = as_object(value)
        mended = mend(value)
        try:
            checked = check(mended)
        except InvalidInput as error:
            problem = error if mended != value else problem
        else:
            self._note(kind, original, 1, repaired=mended, by="rule")
            return checked
        for attempt in range(1, MAX_ATTEMPTS + 1):
            said = canonical_json(value).decode()[:MAX_KEPT_CHARS]
            again = question.continued(said, f"{problems_of(problem)}. Answer again, with JSON alone.")
            answer = await self._ask(f"{kind}:{attempt}", again)
            try:
                value = answer.value if answer.value is not None else _strictly_mended(answer.text)
                checked = _first_fit(check, value, mend)
            except (InvalidInput, InvalidOutput) as error:
                problem = error
                self._note(kind, original, attempt, error=error)
                continue
            self._note(kind, original, attempt, repaired=value)
            return checked
        raise self._unrecoverable(kind, problem.message)

    def _note(
        self,
        kind: ActionType,
        original: JsonObject,
        attempt: int,
        *,
        repaired: Any = None,
        error: TwinRavenError | None = None,
        by: str = "model",
    ) -> None:
        self.actions.append(
            SupervisorAction(
                kind,
                original,
                attempt,
                self._now(),
                repaired_output=None if error is not None else as_object(repaired),
                error=None if error is None else error.as_json(),
                by="rule" if by == "rule" else "model",
            )
        )

    @staticmethod
    def _unrecoverable(kind: ActionType, problem: str) -> PlanUnrecoverable:
        return PlanUnrecoverable(
            f"the model's answer could not be repaired in {MAX_ATTEMPTS} attempts: {problem}", action_type=kind
        )


def as_object(value: Any) -> JsonObject:
    """Return a value as the object that records hold; what is too long is cut."""
    if isinstance(value, dict) and len(canonical_json(value)) <= MAX_KEPT_CHARS:
        return cast("JsonObject", value)
    if isinstance(value, dict):
        return {"text": canonical_json(value).decode()[:MAX_KEPT_CHARS], "is_cut": True}
    return {"value": value}


def _fault(answer: ModelAnswer, otherwise: str) -> tuple[str, str]:
    """Return what is wrong with an answer that is no JSON, and how much of it the model is shown again.

    One that was cut off is too long for its limit of tokens: saying so is worth more than the bracket that is missing,
    and the whole of it would leave even less room for the next.
    """
    if answer.stop != "length":
        return otherwise, answer.text[:MAX_KEPT_CHARS]
    problem = f"the answer was cut off at {answer.output_tokens} tokens (model.max_tokens limits them); say less"
    return problem, answer.text[:_SHOWN_OF_CUT]


def _mended(text: str) -> Any:
    try:
        return _strictly_mended(text)
    except InvalidOutput:
        return None


def _strictly_mended(text: str) -> Any:
    found = mend_json(text)
    if found.is_cut:
        raise InvalidOutput("the answer breaks off in the middle of a value")
    return found.value


def _first_fit(check: Callable[[Any], T], value: Any, mend: Callable[[Any], Any]) -> T:
    """Return what the check makes of the value as it is, else as the rules mend it."""
    try:
        return check(value)
    except InvalidInput:
        mended = mend(value)
        if mended == value:
            raise
        return check(mended)
