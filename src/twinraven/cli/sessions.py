"""`twinraven sessions`: the log seen task by task."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count, moment
from twinraven.cli.output import TableColumn, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.people import user_name
from twinraven.cli.times import short_span, short_time

if TYPE_CHECKING:
    from twinraven.muninn import MuninnEvent, RecentSession, Session
    from twinraven.storage import Database

_GUESSED = "session-guessed"
"""The tag of events whose session the gateway had to guess."""

_SHOWN_ALIKE = 3
_OUTCOMES = ("success", "failure", "partial")


def _in_order(tools: list[str]) -> str:
    return " → ".join(tools)


_SUMMARY = (
    TableColumn("session_id", "SESSION", shrinks=True, least=16),
    TableColumn("ended_at", "LAST CALL", text=short_time),
    TableColumn("event_count", "CALLS", right=True),
    TableColumn("failed", "FAILED", right=True),
    TableColumn("outcome", "OUTCOME", tinted=True),
    TableColumn("tools", "TOOLS", shrinks=True, text=_in_order),
)
_TIMELINE = (
    TableColumn("number", "#", right=True),
    TableColumn("after", "AFTER", right=True),
    TableColumn("tool", "TOOL"),
    TableColumn("took", "TOOK", right=True),
    TableColumn("went", "WENT", tinted=True),
    TableColumn("input_params", "PARAMS", shrinks=True),
    TableColumn("output_summary", "OUTPUT", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven sessions list --outcome failure")
    _register_list(parser.command("list", "sessions with their size, time and outcome, the newest first"))
    _register_show(parser.command("show", "the calls of one session, in order"))
    _register_verdict(parser.command("verdict", "say afterwards how a session's task went"))


def _register_list(parser: CommandParser) -> None:
    parser.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    parser.add_argument("--after", metavar="ID", help="go on behind this session, with older ones")
    parser.add_argument("--outcome", choices=_OUTCOMES, help="only sessions that went so")
    parser.add_argument("--since", type=moment, metavar="TIME", help="last call from then on (yesterday, 12h)")
    parser.add_argument("--until", type=moment, metavar="TIME", help="last call before this time")
    parser.add_argument("--tool", metavar="ID", help="only sessions that called this tool")
    parser.add_argument("--failed", action="store_true", help="only sessions with a call that failed")
    parser.takes_output("table", "json", "csv")
    parser.runs(list_sessions, example="twinraven sessions list --limit 20 --output json")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("session_id", metavar="ID", help="the session's id, or the beginning of it")
    parser.takes_output("table", "json", "csv")
    parser.runs(show_session, example="twinraven sessions show ticket-17")


def _register_verdict(parser: CommandParser) -> None:
    parser.add_argument("session_id", metavar="ID", help="the session's id, or the beginning of it")
    parser.add_argument("outcome", choices=_OUTCOMES, help="how its task went")
    parser.add_argument("--by", metavar="NAME", help="who says so (default: your user name)")
    parser.takes_output("table", "json")
    parser.runs(state_verdict, example="twinraven sessions verdict ticket-17 success")


def list_sessions(options: Namespace) -> None:
    from twinraven.cli.home import ask_database
    from twinraven.muninn import Outcome, SessionFilter, SqlActivity

    where = SessionFilter(
        since=options.since,
        until=options.until,
        tool_id=options.tool,
        failed=True if options.failed else None,
        outcome=None if options.outcome is None else Outcome(options.outcome),
        older_than=options.after,
        limit=options.limit,
    )
    found = ask_database(options, lambda database: SqlActivity(database).recent_sessions(options.tenant, where))
    rows = [_row(session) if options.output == "table" else session.as_json() for session in found]
    show_rows(options.output, rows, _SUMMARY, empty="no sessions")
    if options.output == "table" and len(found) == options.limit:
        _hint(f"there may be more: --after {found[-1].session_id}")


def _row(session: RecentSession) -> dict[str, Any]:
    """Return a session for people: without times that an import made up, and without outcomes that were not stated."""
    body: dict[str, Any] = session.as_json()
    if not session.time_known:
        body["ended_at"] = None
    if not session.is_judged:
        body["outcome"] = None
    return body


def show_session(options: Namespace) -> None:
    from twinraven.cli.home import ask

    summary = _named_session(options)
    session = ask(options, lambda store: store.session(options.tenant, summary.session_id))
    events = [event.as_json() for event in session.events]
    if options.output == "json":
        show_json(events)
    elif options.output == "csv":
        show_rows("csv", events, ())
    else:
        _show_timeline(session, is_judged=summary.is_judged)


def state_verdict(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.muninn import Outcome

    session_id = _named_session(options).session_id
    with opened(options) as raven:
        stated_by: str = options.by or user_name()
        verdict = Outcome(options.outcome)
        asyncio.run(raven.events.state_verdict(options.tenant, session_id, verdict, stated_by=stated_by))
    show_fields(
        options.output,
        {"session_id": session_id, "outcome": options.outcome, "stated_by": stated_by},
        tinted=True,
    )


def _named_session(options: Namespace) -> RecentSession:
    """Find the session with this id, else the only one whose id begins so, also as a table cut it."""
    from twinraven.cli.home import ask_database
    from twinraven.cli.short_ids import complete_id
    from twinraven.foundation.errors import NotFound
    from twinraven.muninn import SessionFilter, SqlActivity

    beginning: str = options.session_id.removesuffix("…")

    async def look(database: Database) -> list[RecentSession]:
        activity = SqlActivity(database)
        exact = await activity.recent_sessions(options.tenant, SessionFilter(session_id=options.session_id, limit=1))
        return exact or await activity.recent_sessions(
            options.tenant, SessionFilter(starts_with=beginning, limit=_SHOWN_ALIKE)
        )

    found = {session.session_id: session for session in ask_database(options, look)}
    whole = options.session_id if options.session_id in found else complete_id(beginning, found, what="session")
    if whole not in found:
        raise NotFound(f"no session {whole!r}", fix="twinraven sessions list", session_id=whole)
    return found[whole]


def _show_timeline(session: Session, *, is_judged: bool) -> None:
    known = all(event.time_known for event in session.events)
    span = session.ended_at - session.started_at
    is_guessed = any(_GUESSED in event.tags for event in session.events)
    summary: dict[str, Any] = {
        "session": session.session_id,
        "outcome": session.outcome.value if is_judged else None,
        "events": session.event_count,
        "actor": _actors(session),
        "started": short_time(session.started_at) if known else "not known",
        "lasted": short_span(span.total_seconds()) if known else "not known",
    }
    if is_guessed:
        summary["told apart by"] = "a guess: the client named no session"
    show_fields("table", summary, tinted=True)
    print(flush=True)
    rows = [_step(number, event, session.started_at) for number, event in enumerate(session.events, start=1)]
    show_rows("table", rows, _TIMELINE)


def _actors(session: Session) -> str:
    """On whose behalf the session's calls ran, in the order in which each comes first."""
    return ", ".join(dict.fromkeys(str(event.actor) for event in session.events if event.actor)) or "not known"


def _step(number: int, event: MuninnEvent, start: datetime) -> dict[str, Any]:
    after = (event.timestamp - start).total_seconds()
    return {
        "number": number,
        "after": short_span(after) if event.time_known else None,
        "tool": event.tool_id if event.parent_event_id is None else f"↳ {event.tool_id}",
        "took": short_span(event.latency_ms / 1000) if event.time_known else None,
        "went": event.error_code or "raised" if event.raised else "ok" if event.corrects is None else "correction",
        "input_params": event.input_params,
        "output_summary": event.output_summary,
    }


def _hint(text: str) -> None:
    import sys

    if sys.stderr.isatty():
        print(text, file=sys.stderr)
