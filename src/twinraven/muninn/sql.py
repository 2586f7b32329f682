"""Stores the event log in SQL, the same for both databases.

Look-ups by session, tool, time, predecessor and successor each walk an index; the tests read the query plans. The
neighbours come from the view `muninn_events`, which derives them per row; scans compute them with a window instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from twinraven.foundation.clock import from_micros, now_micros, to_micros
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.foundation.loop_turn import loop_turn
from twinraven.muninn.columns import COLUMNS
from twinraven.muninn.model import MuninnEvent, Outcome, Session, Verdict, check_name
from twinraven.muninn.outcome_sql import TAGGED, is_rare, sessions_with
from twinraven.muninn.roll_up import roll_up
from twinraven.muninn.store import (
    MINING_COLUMNS,
    TRACE_COLUMNS,
    EventFilter,
    ReadColumns,
    ToolHour,
    ToolTransition,
    ToolUsage,
)
from twinraven.storage import Database, Row, Transaction, chunks, settled_arrival

T = TypeVar("T")

_LOG = "muninn_event_log"
_SLICE = 16
_EVENT = ", ".join(("arrival", *COLUMNS, "predecessor", "successor"))
_SESSION_SUMMARIES = """
SELECT s.session_id, s.event_count, s.started_at, s.ended_at, COALESCE(
    (SELECT v.outcome FROM session_verdicts v WHERE v.tenant_id = :tenant AND v.session_id = s.session_id
     ORDER BY v.arrival DESC LIMIT 1),
    CASE WHEN s.lowest = s.highest THEN s.lowest ELSE 'partial' END) AS outcome
FROM (SELECT session_id, count(*) AS event_count, min(timestamp) AS started_at, max(timestamp) AS ended_at,
             min(outcome) AS lowest, max(outcome) AS highest
      FROM muninn_event_log WHERE tenant_id = :tenant {condition} GROUP BY session_id {paging}) s
"""
_SCAN = """
SELECT arrival, {columns},
       lag(event_id) OVER session_order AS predecessor, lead(event_id) OVER session_order AS successor
FROM muninn_event_log WHERE tenant_id = :tenant
WINDOW session_order AS (PARTITION BY session_id ORDER BY timestamp, arrival)
ORDER BY session_id, timestamp, arrival
"""
_INSIDE = """e.parent_event_id IN (
    SELECT event_id FROM muninn_event_log WHERE tenant_id = :tenant AND tool_id = :asking)"""
# Of a few sessions each outer call is looked up, instead of all calls of the tool.
_INSIDE_ONE = """EXISTS (SELECT 1 FROM muninn_event_log o
    WHERE o.tenant_id = :tenant AND o.event_id = e.parent_event_id AND o.tool_id || '' = :asking)"""


# A stretch of arrivals is read along the primary key: an index of the tenant leads through all of its calls each time.
_BEYOND = """
SELECT arrival FROM muninn_event_log WHERE tenant_id || '' = :tenant AND arrival > :after AND arrival <= :through
ORDER BY arrival LIMIT 1 OFFSET :limit - 1
"""
_ADDED_UP = ("hour", "calls", "raised", "latency_ms", "answered")
_TOOL_HOURS = """
SELECT tool_id, timestamp / 3600000000 AS hour, count(*) AS calls, sum(raised) AS raised,
    sum(CASE WHEN time_known = 1 THEN latency_ms ELSE 0 END) AS latency_ms,
    sum(CASE WHEN parent_event_id IS NULL AND raised = 0 THEN 1 ELSE 0 END) AS answered
FROM muninn_event_log WHERE tenant_id || '' = :tenant AND arrival > :after AND arrival <= :through
GROUP BY tool_id, timestamp / 3600000000 ORDER BY hour, tool_id
"""


class SqlEventStore:
    """`EventStore` on a database of ours."""

    def __init__(self, database: Database, *, micros: Callable[[], int] = now_micros) -> None:
        self._database = database
        self._micros = micros

    async def event(self, tenant_id: str, event_id: UUID) -> MuninnEvent:
        row = await self._database.read(
            tenant_id,
            lambda tx: tx.fetch_one(
                f"SELECT {_EVENT} FROM muninn_events WHERE tenant_id = :tenant AND event_id = :event",
                tenant=tenant_id,
                event=str(event_id),
            ),
        )
        if row is None:
            raise NotFound(f"no event {event_id}", event_id=str(event_id))
        return _to_events([row])[0]

    async def session(self, tenant_id: str, session_id: str, *, most: int | None = None) -> Session:
        paging = "" if most is None else "LIMIT :most"
        limits = {} if most is None else {"most": most}

        def work(tx: Transaction) -> tuple[Row | None, list[Row]]:
            summary = tx.fetch_one(
                _SESSION_SUMMARIES.format(condition="AND session_id = :session", paging=""),
                tenant=tenant_id,
                session=session_id,
            )
            events = tx.fetch_all(
                f"SELECT {_EVENT} FROM muninn_events WHERE tenant_id = :tenant AND session_id = :session "
                f"ORDER BY timestamp, arrival {paging}",
                tenant=tenant_id,
                session=session_id,
                **limits,
            )
            return summary, events

        summary, events = await self._database.read(tenant_id, work)
        if summary is None:
            raise NotFound(f"no session {session_id!r}", session_id=session_id)
        return _to_session(summary, tuple(await _to_events_in_slices(events)))

    async def sessions(
        self, tenant_id: str, *, limit: int = 50, after: str | None = None, outcome: Outcome | None = None
    ) -> list[Session]:
        if limit < 1:
            raise InvalidInput(f"limit must be at least 1, it is {limit}", field="limit")
        if outcome is not None:
            return await self._database.read(tenant_id, lambda tx: _sessions_with(tx, tenant_id, outcome, after, limit))
        condition = "" if after is None else "AND session_id > :after"
        # Cut inside, so that a page of a long log reads a page of its index.
        summaries = _SESSION_SUMMARIES.format(condition=condition, paging="ORDER BY session_id LIMIT :limit")
        params: dict[str, Any] = {"tenant": tenant_id, "limit": limit} | ({} if after is None else {"after": after})
        sql = f"SELECT * FROM ({summaries}) summaries ORDER BY session_id"
        rows = await self._database.read(tenant_id, lambda tx: tx.fetch_all(sql, **params))
        return [_to_session(row) for row in rows]

    async def events(self, tenant_id: str, where: EventFilter) -> list[MuninnEvent]:
        def work(tx: Transaction) -> list[Row]:
            sql, params = _filtered(tx, tenant_id, where)
            return tx.fetch_all(sql, **params)

        return await _to_events_in_slices(await self._database.read(tenant_id, work))

    async def settled(self, tenant_id: str) -> int:
        return await settled_arrival(self._database, tenant_id, _LOG)

    async def arrived(
        self,
        tenant_id: str,
        *,
        after: int,
        through: int,
        limit: int,
        tool_id: str | None = None,
        starts_with: str | None = None,
    ) -> list[MuninnEvent]:
        # An index of the tenant or of what is asked for would lead through the whole log.
        narrowed = {
            "AND tool_id || '' = :tool ": {"tool": tool_id},
            "AND substr(session_id, 1, :length) = :beginning ": {
                "beginning": starts_with,
                "length": len(starts_with or ""),
            },
        }
        chosen = {sql: params for sql, params in narrowed.items() if None not in params.values()}
        params: dict[str, Any] = {name: value for each in chosen.values() for name, value in each.items()}
        sql = (
            f"SELECT {_EVENT} FROM muninn_events WHERE tenant_id || '' = :tenant AND arrival > :after "
            f"AND arrival <= :through {''.join(chosen)}ORDER BY arrival LIMIT :limit"
        )
        rows = await self._database.read(
            tenant_id,
            lambda tx: tx.fetch_all(sql, tenant=tenant_id, after=after, through=through, limit=limit, **params),
        )
        return await _to_events_in_slices(rows)

    async def tool_hours(self, tenant_id: str, *, after: int, through: int, limit: int) -> tuple[list[ToolHour], int]:
        def work(tx: Transaction) -> tuple[list[ToolHour], int]:
            beyond = tx.fetch_one(_BEYOND, tenant=tenant_id, after=after, through=through, limit=limit)
            up_to = through if beyond is None else beyond["arrival"]
            rows = tx.fetch_all(_TOOL_HOURS, tenant=tenant_id, after=after, through=up_to)
            return [ToolHour(row["tool_id"], *(int(row[name]) for name in _ADDED_UP)) for row in rows], up_to

        return await self._database.read(tenant_id, work)

    async def successor(self, tenant_id: str, event_id: UUID) -> MuninnEvent | None:
        return await self._neighbour(tenant_id, event_id, "successor")

    async def predecessor(self, tenant_id: str, event_id: UUID) -> MuninnEvent | None:
        return await self._neighbour(tenant_id, event_id, "predecessor")

    async def outputs(self, tenant_id: str, hashes: Sequence[str]) -> dict[str, Any]:
        from twinraven.foundation.canonical import parse_json

        def work(tx: Transaction) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for part in chunks(dict.fromkeys(hashes), 500):
                names = {f"h{_letters(number)}": value for number, value in enumerate(part)}
                marks = ", ".join(f":{name}" for name in names)
                rows = tx.fetch_all(
                    f"SELECT hash, body FROM blobs WHERE tenant_id = :tenant AND hash IN ({marks})",
                    tenant=tenant_id,
                    **names,
                )
                found.update({row["hash"]: parse_json(bytes(row["body"]), field="output") for row in rows})
            return found

        return await self._database.read(tenant_id, work)

    async def transitions(self, tenant_id: str, *, limit: int = 100) -> list[ToolTransition]:
        sql = (
            "SELECT from_tool, to_tool, count(*) AS count FROM ("
            "SELECT tool_id AS from_tool, lead(tool_id) OVER (PARTITION BY session_id ORDER BY timestamp, arrival) "
            "AS to_tool FROM muninn_event_log WHERE tenant_id = :tenant AND parent_event_id IS NULL) pairs "
            "WHERE to_tool IS NOT NULL GROUP BY from_tool, to_tool ORDER BY count(*) DESC, from_tool, to_tool "
            "LIMIT :limit"
        )
        rows = await self._database.read(tenant_id, lambda tx: tx.fetch_all(sql, tenant=tenant_id, limit=limit))
        return [ToolTransition(**row) for row in rows]

    async def tool_uses(self, tenant_id: str) -> list[ToolUsage]:
        sql = (
            "SELECT tool_id, count(*) AS calls, sum(raised) AS raised, "
            "avg(CASE WHEN time_known = 1 THEN latency_ms * 1.0 END) AS mean_latency_ms, "
            "max(CASE WHEN time_known = 1 THEN latency_ms END) AS max_latency_ms "
            "FROM muninn_event_log WHERE tenant_id = :tenant GROUP BY tool_id ORDER BY count(*) DESC, tool_id"
        )
        rows = await self._database.read(tenant_id, lambda tx: tx.fetch_all(sql, tenant=tenant_id))
        return [_to_use(row) for row in rows]

    async def counts(self, tenant_id: str) -> tuple[int, int]:
        row = await self._database.read(
            tenant_id,
            lambda tx: tx.fetch_one(
                "SELECT count(*) AS events, count(DISTINCT session_id) AS sessions FROM muninn_event_log "
                "WHERE tenant_id = :tenant",
                tenant=tenant_id,
            ),
        )
        return (0, 0) if row is None else (row["events"], row["sessions"])

    async def state_verdict(self, tenant_id: str, session_id: str, outcome: Outcome, *, stated_by: str) -> None:
        check_name(stated_by, field="stated_by")

        def work(tx: Transaction) -> int:
            return tx.execute(
                "INSERT INTO session_verdicts (tenant_id, session_id, outcome, stated_at, stated_by) "
                "SELECT :tenant, :session, :outcome, :stated_at, :stated_by WHERE EXISTS ("
                "SELECT 1 FROM muninn_event_log WHERE tenant_id = :tenant AND session_id = :session)",
                tenant=tenant_id,
                session=session_id,
                outcome=Outcome(outcome).value,
                stated_at=self._micros(),
                stated_by=stated_by,
            )

        if await self._database.write(tenant_id, work) == 0:
            raise NotFound(f"no session {session_id!r}", session_id=session_id)

    async def verdicts(self, tenant_id: str, *, sessions: Sequence[str] | None = None) -> dict[str, Outcome]:
        sql = "SELECT session_id, outcome FROM session_verdicts WHERE tenant_id = :tenant {some} ORDER BY arrival"

        def work(tx: Transaction) -> list[Row]:
            if sessions is None:
                return tx.fetch_all(sql.format(some=""), tenant=tenant_id)
            one = sql.format(some="AND session_id = :session")
            return [row for each in sessions for row in tx.fetch_all(one, tenant=tenant_id, session=each)]

        return {row["session_id"]: Outcome(row["outcome"]) for row in await self._database.read(tenant_id, work)}

    async def verdict(self, tenant_id: str, session_id: str) -> Verdict | None:
        row = await self._database.read(
            tenant_id,
            lambda tx: tx.fetch_one(
                "SELECT outcome, stated_by, stated_at FROM session_verdicts "
                "WHERE tenant_id = :tenant AND session_id = :session ORDER BY arrival DESC LIMIT 1",
                tenant=tenant_id,
                session=session_id,
            ),
        )
        return (
            None if row is None else Verdict(Outcome(row["outcome"]), row["stated_by"], from_micros(row["stated_at"]))
        )

    async def read_columns(self, tenant_id: str, read: ReadColumns[T], *, where: EventFilter | None = None) -> T:
        conditions, params = _conditions(tenant_id, where or EventFilter())
        sql = (
            f"SELECT {', '.join(MINING_COLUMNS)} FROM muninn_event_log "
            f"WHERE {' AND '.join([*conditions, 'parent_event_id IS NULL', _uncorrected(params)])} "
            "ORDER BY session_id, timestamp, arrival"
        )
        return await self._database.read(tenant_id, lambda tx: read(tx.stream(sql, batch=10_000, **params)))

    async def read_calls(
        self,
        tenant_id: str,
        read: ReadColumns[T],
        *,
        sessions: Sequence[str] | None = None,
        where: EventFilter | None = None,
        through: str | None = None,
        with_values: bool = True,
    ) -> T:
        conditions, params = _conditions(tenant_id, where or EventFilter())
        own = [f"e.{condition}" for condition in [*conditions, _uncorrected(params)]]
        if through is None:
            own.append("e.parent_event_id IS NULL")
        else:
            params["asking"] = through
            own.append(f"(e.parent_event_id IS NULL OR {_INSIDE if sessions is None else _INSIDE_ONE})")
        names = ", ".join(_trace_column(name, with_values=with_values) for name in TRACE_COLUMNS)
        blobs = "LEFT JOIN blobs b ON b.tenant_id = e.tenant_id AND b.hash = e.output_hash " if with_values else ""
        sql = (
            f"SELECT {names} FROM muninn_event_log e {blobs}"
            f"WHERE {' AND '.join(own)} {{some}} ORDER BY e.session_id, e.timestamp, e.arrival"
        )

        def batches(tx: Transaction) -> Iterator[list[tuple[Any, ...]]]:
            if sessions is None:
                yield from tx.stream(sql.format(some=""), batch=2_000, **params)
                return
            for part in chunks(sorted(set(sessions)), 500):
                named = {f"s{_letters(number)}": value for number, value in enumerate(part)}
                marks = ", ".join(f":{name}" for name in named)
                some = f"AND e.session_id IN ({marks})"
                yield from tx.stream(sql.format(some=some), batch=2_000, **params, **named)

        return await self._database.read(tenant_id, lambda tx: read(batches(tx)))

    async def event_ids(self, tenant_id: str, arrivals: Sequence[int]) -> dict[int, UUID]:
        def work(tx: Transaction) -> dict[int, UUID]:
            found: dict[int, UUID] = {}
            for part in chunks(dict.fromkeys(arrivals), 500):
                marks = ", ".join(str(int(arrival)) for arrival in part)
                rows = tx.fetch_all(
                    "SELECT arrival, event_id FROM muninn_event_log "
                    f"WHERE tenant_id = :tenant AND arrival IN ({marks})",
                    tenant=tenant_id,
                )
                found.update({row["arrival"]: UUID(row["event_id"]) for row in rows})
            return found

        return await self._database.read(tenant_id, work)

    async def scan(self, tenant_id: str, visit: Callable[[list[MuninnEvent]], None], *, batch: int = 2000) -> None:
        names = ("arrival", *COLUMNS, "predecessor", "successor")

        def work(tx: Transaction) -> None:
            for rows in tx.stream(_SCAN.format(columns=", ".join(COLUMNS)), batch=batch, tenant=tenant_id):
                visit(_to_events(dict(zip(names, row, strict=True)) for row in rows))

        await self._database.read(tenant_id, work)

    async def _neighbour(self, tenant_id: str, event_id: UUID, side: str) -> MuninnEvent | None:
        event = await self.event(tenant_id, event_id)
        other: UUID | None = getattr(event, side)
        return None if other is None else await self.event(tenant_id, other)


def _to_events(rows: Iterable[Row]) -> list[MuninnEvent]:
    # Listing sessions, the commonest question of the command line, reads no event and does without its decoders.
    from twinraven.muninn.event_row import to_event

    return [to_event(row) for row in rows]


async def _to_events_in_slices(rows: Sequence[Row]) -> list[MuninnEvent]:
    """Return events of rows; calls of agents that the same event loop serves go on between the slices."""
    found: list[MuninnEvent] = []
    for part in chunks(rows, _SLICE):
        if found:
            await loop_turn()
        found += _to_events(part)
    return found


def _trace_column(name: str, *, with_values: bool) -> str:
    """Return one of `TRACE_COLUMNS` as SQL; arguments without their values are an object that holds their hash."""
    if name == "body":
        return "b.body" if with_values else "NULL"
    if name == "input_params" and not with_values:
        # Braces are doubled because the statement is formatted once more.
        return """'{{"input_hash":"' || e.input_hash || '"}}'"""
    return f"e.{name}"


def _letters(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in str(number))


def _to_session(row: Row, events: tuple[MuninnEvent, ...] = ()) -> Session:
    return Session(
        session_id=row["session_id"],
        event_count=row["event_count"],
        started_at=from_micros(row["started_at"]),
        ended_at=from_micros(row["ended_at"]),
        outcome=Outcome(row["outcome"]),
        events=events,
    )


def _to_use(row: Row) -> ToolUsage:
    mean = row["mean_latency_ms"]
    return ToolUsage(
        tool_id=row["tool_id"],
        calls=row["calls"],
        raised=int(row["raised"]),
        mean_latency_ms=None if mean is None else float(mean),
        max_latency_ms=row["max_latency_ms"],
    )


def _sessions_with(tx: Transaction, tenant_id: str, outcome: Outcome, after: str | None, limit: int) -> list[Session]:
    """Sessions that went so, by id: from what is kept of each, or from all calls where that is far behind."""
    found = roll_up(tx, tenant_id)
    one = _SESSION_SUMMARIES.format(condition="AND session_id = :session", paging="")
    if found.is_near:
        ids = sessions_with(tx, tenant_id, outcome.value, found=found, after=after, limit=limit)
        rows = [tx.fetch_one(one, tenant=tenant_id, session=each) for each in ids]
    else:
        every = _SESSION_SUMMARIES.format(condition="AND session_id > :after", paging="")
        sql = f"SELECT * FROM ({every}) summaries WHERE outcome = :outcome ORDER BY session_id LIMIT :limit"
        rows = tx.fetch_all(sql, tenant=tenant_id, after=after or "", outcome=outcome.value, limit=limit)
    return [_to_session(row) for row in rows if row is not None]


def _filtered(tx: Transaction, tenant_id: str, where: EventFilter) -> tuple[str, dict[str, Any]]:
    if where.limit < 1:
        raise InvalidInput(f"limit must be at least 1, it is {where.limit}", field="limit")
    conditions, params = _conditions(tenant_id, where)
    params["limit"] = where.limit
    order = "DESC" if where.newest_first else "ASC"
    if where.beyond is not None:
        conditions.append(f"(timestamp, arrival) {'<' if where.newest_first else '>'} (:beyond_time, :beyond_arrival)")
        params["beyond_time"], params["beyond_arrival"] = where.beyond
    source, found = "muninn_events", None if where.tag is None else roll_up(tx, tenant_id)
    if where.tag is not None and found is not None and found.is_near and is_rare(tx, tenant_id, where.tag):
        # The join in this order looks the few calls up; by time, all calls would be looked at.
        source = f"({TAGGED}) few CROSS JOIN muninn_events"
        conditions.append("arrival = tagged")
        params |= {"tag_name": where.tag, "mark": found.mark}
    sql = (
        f"SELECT {_EVENT} FROM {source} WHERE {' AND '.join(conditions)} "
        f"ORDER BY timestamp {order}, arrival {order} LIMIT :limit"
    )
    return sql, params


def _conditions(tenant_id: str, where: EventFilter) -> tuple[list[str], dict[str, Any]]:
    conditions = ["tenant_id = :tenant"]
    params: dict[str, Any] = {"tenant": tenant_id}

    def restrict(condition: str, name: str, value: Any) -> None:
        if value is not None:
            conditions.append(condition)
            params[name] = value

    if where.starts_with is not None:
        # A range, so that the index of ids serves it; what is no beginning of a UUID holds for none.
        restrict("event_id >= :id_from", "id_from", where.starts_with)
        restrict("event_id < :id_to", "id_to", f"{where.starts_with}g")
    restrict("session_id = :session", "session", where.session_id)
    restrict("tool_id = :tool", "tool", where.tool_id)
    restrict("tags LIKE :tag ESCAPE '!'", "tag", None if where.tag is None else _tag_pattern(where.tag))
    if where.raised is not None:
        # As a literal: only then is the index of failures known to fit.
        conditions.append(f"raised = {int(where.raised)}")
    restrict("error_code = :error_code", "error_code", where.error_code)
    restrict("correlation_id = :correlation", "correlation", where.correlation_id)
    restrict("parent_event_id = :parent", "parent", where.parent_event_id)
    restrict("timestamp >= :since", "since", _time(where.since, "since"))
    restrict("timestamp < :until", "until", _time(where.until, "until"))
    restrict("arrival > :after", "after", where.after_arrival)
    restrict("arrival <= :through", "through", where.through_arrival)
    if where.is_uncorrected:
        conditions.append(_uncorrected(params))
    return conditions, params


def _uncorrected(params: Mapping[str, Any]) -> str:
    """Leave out what a correction states anew; of a log up to an arrival, only by corrections that it holds."""
    known = " AND arrival <= :through" if "through" in params else ""
    corrected = f"SELECT corrects FROM muninn_event_log WHERE tenant_id = :tenant AND corrects IS NOT NULL{known}"
    return f"event_id NOT IN ({corrected})"


def _time(moment: datetime | None, field: str) -> int | None:
    return None if moment is None else to_micros(moment, field=field)


def _tag_pattern(tag: str) -> str:
    import orjson

    quoted = orjson.dumps(tag).decode()
    for special in ("!", "%", "_"):
        quoted = quoted.replace(special, "!" + special)
    return f"%{quoted}%"
