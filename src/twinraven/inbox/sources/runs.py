"""Shows what durable runs ask people as inbox items: manual steps, and steps whose effect is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

from twinraven.engine import Run, Runs, Wait
from twinraven.foundation.errors import NotFound
from twinraven.inbox.model import InboxAnswer, InboxChoice, InboxItem, ItemState
from twinraven.tenancy import Principal

_EFFECT_CHOICES: Final = (
    InboxChoice("happened", "it happened; the run goes on with the output that you state", needs="answer"),
    InboxChoice("did_not_happen", "it did not happen; the step is made again"),
    InboxChoice("give_up", "nobody can tell; the step fails"),
)


class _RunWaits:
    """Finds waits of one kind among all runs."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def _open(self, tenant_id: str, kind: str) -> list[tuple[Run, Wait]]:
        return [(run, wait) for run, wait in await self._runs.waiting(tenant_id) if wait.kind == kind]

    async def _one(self, tenant_id: str, ref: str, kind: str) -> tuple[Run, Wait]:
        place, _, run_id = ref.partition("@")
        found = await self._runs.get(tenant_id, run_id)
        wait = next((each for each in found.waits if each.place == unquote(place) and each.kind == kind), None)
        if wait is None:
            raise NotFound(f"run {run_id!r} asks nobody at {place!r}", run_id=run_id, place=place)
        return found.run, wait

    async def _answer(self, item: InboxItem, answer: Any, *, by: Principal) -> None:
        place, _, run_id = item.ref.partition("@")
        await self._runs.answer(run_id, unquote(place), answer, by=by, expected=item.asked_at)


class RunQuestions(_RunWaits):
    """Manual steps: questions that a run puts to a person."""

    kind: Literal["question"] = "question"

    async def open_items(self, tenant_id: str) -> Sequence[InboxItem]:
        return [_question(run, wait) for run, wait in await self._open(tenant_id, "person")]

    async def find(self, tenant_id: str, ref: str) -> InboxItem:
        return _question(*await self._one(tenant_id, ref, "person"))

    async def decide(self, item: InboxItem, said: InboxAnswer, *, by: Principal) -> None:
        await self._answer(item, said.answer, by=by)


class UnknownStepEffects(_RunWaits):
    """Steps that may or may not have happened, and that nothing repeats before a person has looked."""

    kind: Literal["unknown_step"] = "unknown_step"

    async def open_items(self, tenant_id: str) -> Sequence[InboxItem]:
        return [_unknown(run, wait) for run, wait in await self._open(tenant_id, "effect")]

    async def find(self, tenant_id: str, ref: str) -> InboxItem:
        return _unknown(*await self._one(tenant_id, ref, "effect"))

    async def decide(self, item: InboxItem, said: InboxAnswer, *, by: Principal) -> None:
        output = {"output": said.answer} if said.choice == "happened" else {}
        await self._answer(item, {"effect": said.choice, **output}, by=by)


def _ref(run: Run, wait: Wait) -> str:
    """Return the place and the run; a run's id may hold any character, a place is quoted."""
    return f"{quote(wait.place, safe='')}@{run.run_id}"


def _state(run: Run, wait: Wait) -> ItemState:
    if wait.answered_at is not None:
        return "decided"
    return "open" if run.finished_at is None else "expired"


def _question(run: Run, wait: Wait) -> InboxItem:
    asked = dict(wait.question)
    schema = asked.get("answer_schema")
    choice = InboxChoice("answer", "the run goes on with your answer", needs="answer", answer_schema=schema or {})
    return InboxItem(
        tenant_id=run.tenant_id,
        kind="question",
        ref=_ref(run, wait),
        what=f"go on with {run.target} as you answer",
        target=run.target,
        why=str(asked.get("question") or f"a step of {run.target} waits for {wait.subject}"),
        choices=(choice,),
        asked_at=wait.asked_at,
        evidence={"run_id": run.run_id, "place": wait.place, "asked": wait.subject, "question": asked},
        requested_by=run.caller,
        expires_at=wait.until,
        state=_state(run, wait),
        decision=None if wait.answered_at is None else "answer",
        decided_by=wait.answered_by,
        decided_at=wait.answered_at,
        addressees=frozenset(who for who in (run.caller, wait.subject) if who is not None),
    )


def _unknown(run: Run, wait: Wait) -> InboxItem:
    error: dict[str, Any] = wait.question.get("error") or {}
    details: dict[str, Any] = error.get("details") or {}
    tool_id = str(details.get("tool_id") or wait.question.get("tool_id", run.target))
    return InboxItem(
        tenant_id=run.tenant_id,
        kind="unknown_step",
        ref=_ref(run, wait),
        what=f"settle whether {tool_id} happened; nothing repeats it until then",
        target=tool_id,
        why=str(error.get("message") or "its answer was lost"),
        choices=_EFFECT_CHOICES,
        asked_at=wait.asked_at,
        evidence={"run_id": run.run_id, "place": wait.place, "idempotency_key": wait.subject, "error": error},
        requested_by=run.caller,
        expires_at=wait.until,
        state=_state(run, wait),
        decided_by=wait.answered_by,
        decided_at=wait.answered_at,
        addressees=frozenset() if run.caller is None else frozenset({run.caller}),
    )
