"""Reads a time span from a query: `since` and `until`, by default the last day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from twinraven.api.schemas import TIME
from twinraven.foundation.clock import utc_now
from twinraven.muninn import TimeSpan
from twinraven.serving import QueryParameter, Request, moment

SPAN: Final = (
    QueryParameter("since", TIME, "from this time on; by default a day before `until`"),
    QueryParameter("until", TIME, "before this time; by default now"),
)


def asked_span(request: Request, *, longest: timedelta) -> TimeSpan:
    """Return the stretch of time that was asked for; a longer one is refused."""
    query = request.query
    until = moment(query["until"], field="until") if "until" in query else utc_now()
    since = moment(query["since"], field="since") if "since" in query else _before(until)
    return TimeSpan(since, until, longest=longest)


def _before(until: datetime) -> datetime:
    try:
        return until - timedelta(days=1)
    except OverflowError:
        return until
