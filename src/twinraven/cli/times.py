"""Formats timestamps for tables; programs get the full form."""

from __future__ import annotations

from datetime import UTC, datetime


def short_time(value: datetime | str | None) -> str:
    """Down to the second, in UTC."""
    if value is None:
        return "-"
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def short_span(seconds: float) -> str:
    """Format a duration in the unit that fits."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"
    if seconds < 172_800:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:02.0f} min"
    return f"{seconds // 86_400:.0f} d {seconds % 86_400 // 3600:02.0f} h"
