"""The demo as a person sees it: a day at the desk, what was remembered, what was learned, and what that changed."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twinraven.app import TwinRaven, open_home
from twinraven.demo.charts import Canvas, canvas_for, heading, table
from twinraven.demo.desk import SupportDesk, create_desk
from twinraven.demo.drawings import ChainStep, Wire, chain_svg, transition_svg
from twinraven.demo.learned import OfferedTool
from twinraven.demo.report import (
    SessionLine,
    count_transitions,
    render_latencies,
    render_saving,
    render_sessions,
    render_transitions,
)
from twinraven.demo.shift import Shift, work_shift
from twinraven.demo.tickets import Ticket, generate_tickets
from twinraven.demo.tools import EFFECTS, desk_tools
from twinraven.flow import SynthesizedTool
from twinraven.foundation.clock import utc_now
from twinraven.foundation.references import is_reference, parse_reference
from twinraven.huginn import Draft, Learner, LearningConfig, LearningReport, ToolFacts, draw_chain, load_traces
from twinraven.muninn import MuninnEvent

TICKETS = 400
NEW_TICKETS = 120
TURN_S = 0.02
SEED = 11


class Show:
    """One run of the demo in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._canvas: Canvas = canvas_for(sys.stdout)

    async def run(self) -> None:
        if self._folder.exists():
            shutil.rmtree(self._folder)
        self._folder.mkdir(parents=True)
        desk = create_desk(self._folder / "desk.db", SEED)
        tickets = generate_tickets(desk, TICKETS + NEW_TICKETS, seed=SEED)
        with self._open(desk) as raven:
            await self._first_day(raven, tickets[:TICKETS])
            report = await self._learn(raven)
        await self._second_day(tickets[TICKETS:], report)

    def _open(self, desk: SupportDesk, name: str = "home") -> TwinRaven:
        home = self._folder / name / ".twinraven"
        home.mkdir(parents=True)
        return open_home(home, functions=desk_tools(desk))

    async def _first_day(self, raven: TwinRaven, tickets: Sequence[Ticket]) -> None:
        self._say("A day at the support desk")
        shift = await self._work(raven, tickets, "day1")
        events: list[MuninnEvent] = []
        await raven.events.scan("default", events.extend)
        print(f"{len(tickets)} tickets, {len(events)} calls, each of them on disk before the agent saw its answer.\n")
        print(render_sessions(_session_lines(tickets, shift, events)[:8], canvas=self._canvas))
        counts = _transitions(events)
        self._say("What follows what")
        print(render_transitions(counts, canvas=self._canvas))
        self._say("How long tools take")
        print(render_latencies(_latencies(events), _failures(events), canvas=self._canvas))
        self._write("transitions.svg", transition_svg(counts))

    async def _learn(self, raven: TwinRaven) -> LearningReport:
        self._say("What Huginn learned from it")
        log = await load_traces(raven.events, "default", idle_gap_s=raven.settings.muninn.session_idle_gap_s)
        learner = Learner(LearningConfig(), ToolFacts(raven.catalog.entries("default")), now=utc_now)
        report = await learner.learn(log.sessions)
        passed = sum(draft.verdict.passed for draft in report.drafts)
        print(
            f"{len(report.chains)} chains occur often enough, {len(report.drafts)} could be wired from recorded data, "
            f"and {passed} passed\nreplay on tickets they were not learned from.\n"
        )
        rows = [_verdict_row(draft) for draft in report.drafts]
        print(table(("draft", "replayed", "agree", "similarity", "time", "verdict"), rows, canvas=self._canvas))
        print()
        for chosen in report.chosen:
            print(f"  {draw_chain(chosen.tool.definition)}")
        if not report.chosen:
            print(f"nothing to learn, because {report.because}")
        else:
            best = max(report.chosen, key=lambda item: item.alone.turns_saved).tool.definition
            self._write("learned-tool.svg", chain_svg(_drawn(best), title=best.tool_id))
        return report

    async def _second_day(self, tickets: Sequence[Ticket], report: LearningReport) -> None:
        """The same new tickets twice, on twin desks: without the learned tools and with them."""
        self._say("New tickets, without and with the learned tools")
        definitions = [chosen.tool.definition for chosen in report.chosen]
        shifts: list[Shift] = []
        for name, offered in (("without", []), ("with", definitions)):
            desk = create_desk(self._folder / f"desk-{name}.db", SEED)
            with self._open(desk, name) as raven:
                raven.offer(offered)
                shifts.append(await self._work(raven, tickets, name, [OfferedTool(each) for each in offered]))
        before, after = shifts
        print(render_saving(before.effort, after.effort, canvas=self._canvas))
        used = sum(resolution.learned_calls for resolution in after.resolutions)
        print(f"\nThe agent used a learned tool {used} times in {len(tickets)} tickets.")
        print(f"Pictures and databases are in {self._folder}.")

    async def _work(
        self, raven: TwinRaven, tickets: Sequence[Ticket], name: str, learned: Sequence[OfferedTool] = ()
    ) -> Shift:
        shift = await work_shift(
            raven.calls,
            raven.events,
            tickets,
            name=name,
            turn_s=TURN_S,
            learned=learned,
            progress=_progress(len(tickets)),
        )
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        return shift

    def _say(self, text: str) -> None:
        print(f"\n{heading(text, canvas=self._canvas)}\n")

    def _write(self, name: str, body: str) -> None:
        (self._folder / name).write_text(body, encoding="utf-8")


def _progress(total: int) -> Callable[[int], None] | None:
    def show(done: int) -> None:
        print(f"\r{done} of {total} tickets", end="", file=sys.stderr, flush=True)

    return show if sys.stderr.isatty() else None


def _session_lines(tickets: Sequence[Ticket], shift: Shift, events: Sequence[MuninnEvent]) -> list[SessionLine]:
    ended: dict[str, float] = {}
    began: dict[str, float] = {}
    for event in events:
        start = event.timestamp.timestamp() * 1000
        began.setdefault(event.session_id, start)
        ended[event.session_id] = start + event.latency_ms
    lines: list[SessionLine] = []
    for ticket, resolution in zip(tickets, shift.resolutions, strict=True):
        session_id = f"day1-{ticket.ticket_id}"
        lasted = ended.get(session_id, 0.0) - began.get(session_id, 0.0)
        lines.append(
            SessionLine(
                session_id=session_id,
                about=ticket.kind,
                calls=resolution.calls,
                turns=resolution.turns,
                failures=resolution.failures,
                duration_ms=round(lasted),
                outcome=resolution.outcome,
            )
        )
    return lines


def _transitions(events: Sequence[MuninnEvent]) -> Counter[tuple[str, str]]:
    sessions: dict[str, list[str]] = {}
    for event in events:
        sessions.setdefault(event.session_id, []).append(event.tool_id)
    return count_transitions(sessions.values())


def _latencies(events: Sequence[MuninnEvent]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for event in events:
        found.setdefault(event.tool_id, []).append(float(event.latency_ms))
    return found


def _failures(events: Sequence[MuninnEvent]) -> Counter[str]:
    return Counter(event.tool_id for event in events if event.raised)


def _verdict_row(draft: Draft) -> tuple[str | float, ...]:
    verdict = draft.verdict
    ratio = "not measured" if verdict.latency_ratio is None else f"{verdict.latency_ratio:.2f}"
    score = f"{verdict.equivalence_score.mean_similarity:.3f}"
    said = "proven" if verdict.passed else verdict.failure_reasons[0]
    return (draft.tool.tool_id, verdict.uses, verdict.hits, score, ratio, said)


def _drawn(definition: SynthesizedTool) -> list[ChainStep]:
    return [
        ChainStep(
            step.tool_id,
            tuple(_wire(definition, name, source) for name, source in step.input_mapping.items()),
            each=step.for_each is not None,
            effect="read" if EFFECTS.get(step.tool_id) == "read" else "write",
        )
        for step in definition.steps
    ]


def _wire(definition: SynthesizedTool, name: str, source: Any) -> Wire:
    if not isinstance(source, str) or not is_reference(source):
        return Wire(name, None, str(source))
    segments = parse_reference(source).segments
    if segments[0] == "internal_wiring":
        return Wire(name, int(segments[1]), str(definition.internal_wiring[str(segments[1])][str(segments[2])]))
    return Wire(name, None, source)
