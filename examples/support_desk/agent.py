"""The scripted agent: it solves tickets by rules, in turns, as a model would with the same tools.

A rule-bound agent makes the demo honest and repeatable: what it saves with learned tools is saved turns, not luck,
since its luck and its habits are the same with and without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from examples.support_desk.facts import Facts, read_facts
from examples.support_desk.playbooks import WISHES, Case, GaveUp, Result, work
from examples.support_desk.tickets import Change, Conversation, Ticket
from examples.support_desk.worker import Habits, LearnedTool, Setting, Tally, ToolDoor, Worker
from twinraven.foundation.errors import TwinRavenError


@dataclass(frozen=True, slots=True)
class Resolution:
    """How a ticket ended and what it took. `outcome` speaks Muninn's words."""

    ticket_id: str
    outcome: Result
    answer: str
    user_id: str | None
    order_id: str | None
    changes: tuple[Change, ...]
    turns: int
    calls: int
    failures: int
    learned_calls: int


async def solve(
    ticket: Ticket,
    door: ToolDoor,
    *,
    learned: Sequence[LearnedTool] = (),
    habits: Habits | None = None,
    seed: int = 0,
    turn_s: float = 0.0,
) -> Resolution:
    """Work one ticket through the door; `turn_s` is how long the model thinks before each turn."""
    setting = Setting(door, tuple(learned), habits or Habits(), seed, turn_s)
    worker = Worker(setting, ticket.ticket_id, Conversation(ticket))
    case = Case(ticket.opening, read_facts(ticket.opening, Facts()))
    try:
        await work(worker, case, ticket.kind)
        for wish in ticket.follow_ups:
            await worker.say()
            worker.conversation.hear(wish.text)
            case.met -= WISHES
            case.text = wish.text
            case.facts = read_facts(wish.text, case.facts)
            await work(worker, case, wish.kind)
    except (GaveUp, TwinRavenError) as reason:
        case.answers.append(str(reason))
        case.result = "failure"
    await worker.say()
    return _resolve(ticket, case, worker.tally)


def _resolve(ticket: Ticket, case: Case, tally: Tally) -> Resolution:
    return Resolution(
        ticket_id=ticket.ticket_id,
        outcome=case.result,
        answer="; ".join(case.answers),
        user_id=case.user_id or None,
        order_id=case.order.get("order_id"),
        changes=tuple(case.changes),
        turns=tally.turns,
        calls=tally.calls,
        failures=tally.failures,
        learned_calls=tally.learned_calls,
    )
