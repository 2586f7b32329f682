"""The demo as a person sees it: a day at the desk, what was remembered, what was learned, and what that changed."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from examples.support_desk.charts import Canvas, canvas_for, heading, table
from examples.support_desk.desk import SupportDesk, create_desk
from examples.support_desk.drawings import ChainStep, Wire, chain_svg, transition_svg
from examples.support_desk.learned import OfferedTool
from examples.support_desk.report import (
    SessionLine,
    count_transitions,
    render_latencies,
    render_saving,
    render_sessions,
    render_transitions,
)
from examples.support_desk.shift import CallDoor, Shift, work_shift
from examples.support_desk.tickets import Ticket, generate_tickets
from examples.support_desk.tools import EFFECTS, desk_tools
from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallFailed
from twinraven.foundation.clock import now_micros
from twinraven.foundation.references import is_reference, parse_reference
from twinraven.huginn import JudgedDraft, draw_chain
from twinraven.muninn import MuninnEvent
from twinraven.registry import Measures, SynthesizedTool, ToolRecord

TICKETS = 400
NEW_TICKETS = 120
LATER_TICKETS = 160
TURN_S = 0.02
SEED = 11
DAY_US = 86_400 * 1_000_000
DAYS_AGO = 33
"""When the story begins. It ends now, so that nothing it leaves behind lies in the future."""
WHO = "demo"
_ROOT = Path(__file__).resolve().parents[2]
_DESK_TOOLS = '''"""The tools of the demo's support desk; the home's settings name this module."""

import sys
from pathlib import Path

sys.path.append({root!r})

from examples.support_desk.desk import open_desk
from examples.support_desk.tools import desk_tools

_DESK = open_desk(Path(__file__).resolve().parents[1] / "desk.db", {seed})
globals().update({{function.__name__: function for function in desk_tools(_DESK)}})
'''


class Show:
    """One run of the demo in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._canvas: Canvas = canvas_for(sys.stdout)
        self._ago_us = DAYS_AGO * DAY_US

    async def run(self) -> None:
        if self._folder.exists():
            shutil.rmtree(self._folder)
        self._folder.mkdir(parents=True)
        desk = create_desk(self._folder / "desk.db", SEED)
        tickets = generate_tickets(desk, TICKETS + NEW_TICKETS + LATER_TICKETS, seed=SEED)
        first, new, later = _cut(tickets, TICKETS, NEW_TICKETS)
        with self._open(desk) as raven:
            await self._first_day(raven, first)
            offered = await self._learn(raven)
            if offered:
                await self._compare(new, offered)
                await self._next_day(raven, later, offered)
                await self._month_later(raven, generate_tickets(desk, 40, seed=SEED + 1), offered)
        self._leave_tools()
        print(f"\nPictures, databases and the learned tools are in {self._folder}.")
        print(f"Look around in it: .venv/bin/twinraven --home {self._folder / 'home'} sessions list")
        print("In a browser, after .venv/bin/python -m pip install -e '.[server]':")
        print(f"  .venv/bin/twinraven --home {self._folder / 'home'} up, then http://127.0.0.1:8765/console/")
        print("What waits for your yes is under Review there.")

    def _open(self, desk: SupportDesk, name: str = "home") -> TwinRaven:
        home = self._folder / name / ".twinraven"
        home.mkdir(parents=True, mode=0o700)
        return open_home(home, functions=desk_tools(desk), micros=lambda: now_micros() - self._ago_us)

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

    async def _learn(self, raven: TwinRaven) -> list[SynthesizedTool]:
        """One round of learning; a person's yes is played by the demo."""
        self._say("What Huginn learned from it")
        outcome = await raven.huginn.learn("default", by=WHO)
        report = outcome.report
        passed = sum(draft.verdict.passed for draft in report.drafts)
        print(
            f"{len(report.chains)} chains occur often enough, {len(report.drafts)} could be wired from recorded data, "
            f"and {passed} passed\nreplay on tickets they were not learned from.\n"
        )
        rows = [_verdict_row(draft) for draft in report.drafts]
        print(table(("draft", "replayed", "agree", "similarity", "time", "verdict"), rows, canvas=self._canvas))
        if not outcome.proposals:
            print(f"\nnothing to learn, because {report.because}")
            return []
        print("\nWorth having, and approved:\n")
        for proposal in outcome.proposals:
            await raven.registry.promote("default", proposal.tool_id, by=WHO)
            print(f"  {draw_chain(proposal.picture)}")
        best = max(outcome.proposals, key=lambda item: item.chosen.alone.turns_saved).picture
        self._write("learned-tool.svg", chain_svg(_drawn(best), title=best.tool_id))
        return [proposal.picture for proposal in outcome.proposals]

    async def _compare(self, tickets: Sequence[Ticket], offered: Sequence[SynthesizedTool]) -> None:
        """The same new tickets twice, on twin desks: without the learned tools and with them."""
        self._say("New tickets, without and with the learned tools")
        shifts: list[Shift] = []
        none: Sequence[SynthesizedTool] = ()
        for name, tools in (("without", none), ("with", offered)):
            desk = create_desk(self._folder / f"desk-{name}.db", SEED)
            with self._open(desk, name) as raven:
                raven.offer(tools)
                shifts.append(await self._work(raven, tickets, name, [OfferedTool(each) for each in tools]))
        before, after = shifts
        print(render_saving(before.effort, after.effort, canvas=self._canvas))
        used = sum(resolution.learned_calls for resolution in after.resolutions)
        print(f"\nThe agent used a learned tool {used} times in {len(tickets)} tickets.")

    async def _next_day(self, raven: TwinRaven, tickets: Sequence[Ticket], offered: Sequence[SynthesizedTool]) -> None:
        """Half of the agents have the tools and half do not yet; the record grows, and so does the evidence."""
        self._say("The next day, and a second version")
        self._ago_us -= DAY_US
        middle = len(tickets) // 2
        await self._work(raven, tickets[:middle], "old")
        await self._work(raven, tickets[middle:], "new", [OfferedTool(each) for each in offered])
        again = await raven.huginn.learn("default", by=WHO)
        known = sum(proposal.novelty == "known" for proposal in again.proposals)
        print(f"Learning again: {known} of {len(again.proposals)} tools are what the registry already has.")
        best = max(offered, key=lambda tool: len(tool.steps))
        tool_id = await self._register_again(raven, best)
        record = await raven.registry.promote("default", tool_id, by=WHO)
        print(f"\n{tool_id}: v{record.current_version} from more evidence is in service, v1 is superseded.")
        record = await raven.registry.rollback("default", tool_id, to_version=1, by=WHO)
        print(f"Rolled back: v{record.current_version} serves again, both versions stay on disk.")
        for other in [each for each in offered if each is not best][:1]:
            print(f"\n{await self._register_again(raven, other)}: v2 is validated and waits for a person's yes.")

    async def _register_again(self, raven: TwinRaven, known: SynthesizedTool) -> str:
        """Register a further version of a tool, from all that was recorded since."""
        draft = await raven.huginn.synthesize("default", known.source_chain_id)
        draft, verdict = await raven.huginn.validate("default", draft.tool_id)
        await raven.huginn.register("default", draft, verdict, by=WHO)
        return draft.tool_id

    def _leave_tools(self) -> None:
        """Give the home the desk's tools by its settings, so that commands and the console can call them."""
        home = self._folder / "home"
        (home / "desk_tools.py").write_text(_DESK_TOOLS.format(root=str(_ROOT), seed=SEED), encoding="utf-8")
        (home / ".twinraven" / "twinraven.yaml").write_text("tools: {modules: [desk_tools]}\n", encoding="utf-8")

    async def _month_later(
        self, raven: TwinRaven, tickets: Sequence[Ticket], offered: Sequence[SynthesizedTool]
    ) -> None:
        """Most questions are answered from the handbook now, and few customers are looked up; the registry notices."""
        self._say("A month later, customers ask other things")
        self._ago_us = 0
        for number in range(LATER_TICKETS):
            door = CallDoor(raven.calls, f"later-{number}")
            with suppress(CallFailed):
                await door.call("search_kb", {"query": "how to return a gift"}, turn=1, outside_input="a question")
        # Some agents go on by hand, so that there is something to compare with.
        by_hand = len(tickets) // 4
        await self._work(raven, tickets[:by_hand], "later")
        await self._work(raven, tickets[by_hand:], "later", [OfferedTool(each) for each in offered])
        report = await raven.maintenance.run("default", by=WHO)
        for action in report.actions:
            print(f"  {action.verb} {action.tool_id}: {action.why}")
        self._say("The registry's own view")
        measured = {item.record.tool_id: item for item in report.measures}
        rows = [_registry_row(record, measured.get(record.tool_id)) for record in await raven.registry.tools("default")]
        headers = ("tool", "status", "version", "used", "turns saved", "flags")
        print(table(headers, rows, canvas=self._canvas))
        audited = await raven.audit.verify("default")
        state = "verifies" if audited.ok else "does not verify"
        print(f"\nThe audit log holds {audited.entries} entries about all this, and it {state}.")

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


def _cut(tickets: Sequence[Ticket], *sizes: int) -> list[Sequence[Ticket]]:
    parts: list[Sequence[Ticket]] = []
    for size in sizes:
        parts.append(tickets[:size])
        tickets = tickets[size:]
    return [*parts, tickets]


def _registry_row(record: ToolRecord, measured: Measures | None) -> tuple[str | int, ...]:
    saved = "-" if measured is None else str(measured.turns.turns)
    flags = ", ".join(record.flags) or "-"
    return (record.tool_id, record.status.value, record.current_version, record.invocation_count, saved, flags)


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


def _verdict_row(draft: JudgedDraft) -> tuple[str | float, ...]:
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
