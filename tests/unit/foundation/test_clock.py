"""Time: UTC or nothing, exact to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinraven.foundation.clock import from_micros, iso, iso_micros, now_micros, parse_iso, to_micros, utc_now
from twinraven.foundation.errors import InvalidInput

moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - zone is added


@settings(deadline=None)
@given(moments)
def test_a_time_survives_both_stored_forms(moment: datetime) -> None:
    """Microseconds and ISO text both give back the very same moment, before the epoch too."""
    assert from_micros(to_micros(moment)) == moment
    assert parse_iso(iso(moment)) == moment
    assert iso(moment).endswith("Z")
    assert iso_micros(to_micros(moment)) == iso(moment)


@settings(deadline=None)
@given(moments, moments)
def test_micros_order_as_times_do(one: datetime, other: datetime) -> None:
    """Sorting by the stored number is sorting by time."""
    assert (to_micros(one) < to_micros(other)) == (one < other)


def test_now_is_utc_and_consistent() -> None:
    """Both clocks tell the same time, and it has a zone."""
    assert utc_now().utcoffset() == timedelta(0)
    assert abs(to_micros(utc_now()) - now_micros()) < 60_000_000


def test_a_time_without_utc_is_refused_by_name() -> None:
    """A naive or shifted time is refused with the name of the field and what to do."""
    with pytest.raises(InvalidInput, match=r"started_at has no time zone.*tzinfo=UTC") as naive:
        to_micros(datetime(2026, 1, 1), field="started_at")  # noqa: DTZ001 - that is the point
    assert naive.value.details == {"field": "started_at"}
    with pytest.raises(InvalidInput, match=r"timestamp is not in UTC.*astimezone"):
        to_micros(datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))))


@pytest.mark.req("TR-04")
def test_iso_text_is_converted_to_utc() -> None:
    """Text with an offset becomes UTC; text without one, or that is no time, is refused."""
    assert parse_iso("2026-01-01T02:00:00+02:00") == datetime(2026, 1, 1, tzinfo=UTC)
    for text in ("2026-01-01T00:00:00", "yesterday", ""):
        with pytest.raises(InvalidInput, match="since"):
            parse_iso(text, field="since")
