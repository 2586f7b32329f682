"""Stores what checks of services found, forgets it after a week, and sums it up: how often, how quick, when not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from twinraven.catalog.service_model import HealthStatus
from twinraven.catalog.store import Health
from twinraven.foundation.clock import from_micros, iso, to_micros
from twinraven.storage import Transaction

CHECKS_KEPT: Final = timedelta(days=7)
_HERE: Final = "tenant_id = :tenant AND checked_at >= :since AND checked_at < :until"
_QUANTILES: Final = (
    "SELECT service_id, checks, "
    "max(CASE WHEN place * 2 < checks + 2 THEN took_ms END) AS p50_ms, "
    "max(CASE WHEN place * 20 < checks * 19 + 20 THEN took_ms END) AS p95_ms FROM ("
    "SELECT service_id, took_ms, row_number() OVER (PARTITION BY service_id ORDER BY took_ms) AS place, "
    f"count(*) OVER (PARTITION BY service_id) AS checks FROM service_checks WHERE {_HERE} AND status <> 'down'"
    ") AS placed GROUP BY service_id, checks"
)
_BUCKETS: Final = (
    "SELECT service_id, (checked_at - :since) / :width AS place, status, count(*) AS checks "
    f"FROM service_checks WHERE {_HERE} GROUP BY service_id, (checked_at - :since) / :width, status"
)


@dataclass(frozen=True, slots=True)
class CheckBucket:
    """The health checks of one time bucket."""

    begins_at: datetime
    healthy: int = 0
    degraded: int = 0
    down: int = 0

    def as_json(self) -> dict[str, Any]:
        found = {"healthy": self.healthy, "degraded": self.degraded, "down": self.down}
        return {"begins_at": iso(self.begins_at), "checks": sum(found.values()), **found}


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """Summarises the health checks of a service; durations count those that got an answer."""

    p50_ms: int | None = None
    p95_ms: int | None = None
    buckets: Sequence[CheckBucket] = field(default_factory=tuple[CheckBucket, ...])

    def as_json(self) -> dict[str, Any]:
        buckets = [each.as_json() for each in self.buckets]
        return {
            "checks": sum(each["checks"] for each in buckets),
            "healthy": sum(each["healthy"] for each in buckets),
            "p50_ms": self.p50_ms,
            "p95_ms": self.p95_ms,
            "buckets": buckets,
        }


def add_check(tx: Transaction, tenant_id: str, service_id: str, health: Health, took_ms: int) -> None:
    """Keep what a check found, and forget what is older than a week."""
    assert health.at is not None, "what was checked has a time"
    at = to_micros(health.at)
    tx.execute(
        "INSERT INTO service_checks (tenant_id, service_id, checked_at, status, took_ms, message) "
        "VALUES (:tenant, :service, :at, :status, :took, :message) "
        "ON CONFLICT (tenant_id, service_id, checked_at) DO NOTHING",
        tenant=tenant_id,
        service=service_id,
        at=at,
        status=health.status.value,
        took=took_ms,
        message=health.message,
    )
    tx.execute(
        "DELETE FROM service_checks WHERE tenant_id = :tenant AND service_id = :service AND checked_at < :before",
        tenant=tenant_id,
        service=service_id,
        before=at - CHECKS_KEPT // timedelta(microseconds=1),
    )


def forget_checks(tx: Transaction, tenant_id: str, service_id: str) -> None:
    tx.execute(
        "DELETE FROM service_checks WHERE tenant_id = :tenant AND service_id = :service",
        tenant=tenant_id,
        service=service_id,
    )


def sum_up_checks(
    tx: Transaction, tenant_id: str, since: datetime, until: datetime, *, width: timedelta
) -> dict[str, CheckSummary]:
    """Return every service that was looked at in a stretch of time, by its id."""
    span: dict[str, Any] = {"tenant": tenant_id, "since": to_micros(since), "until": to_micros(until)}
    quick = {row["service_id"]: row for row in tx.fetch_all(_QUANTILES, **span)}
    counts: dict[str, dict[int, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    micros = width // timedelta(microseconds=1)
    for row in tx.fetch_all(_BUCKETS, width=micros, **span):
        counts[row["service_id"]][row["place"]][HealthStatus(row["status"]).value] = row["checks"]
    return {
        service_id: CheckSummary(
            p50_ms=quick[service_id]["p50_ms"] if service_id in quick else None,
            p95_ms=quick[service_id]["p95_ms"] if service_id in quick else None,
            buckets=[
                CheckBucket(from_micros(span["since"] + place * micros), **places[place]) for place in sorted(places)
            ],
        )
        for service_id, places in counts.items()
    }
