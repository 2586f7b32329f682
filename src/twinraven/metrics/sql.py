"""Stores metric definitions, values, dimensions and collection cursors in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.ids import new_id
from twinraven.metrics.model import (
    MetricDefinition,
    MetricPoint,
    MetricRequest,
    MetricValue,
    SeriesQuery,
    from_number,
)
from twinraven.storage import Row, Transaction, chunks

_DEFINITION: Final = (
    "tenant_id", "metric_id", "name", "description", "scope", "aggregation", "data_type", "retention_days",
    "created_at", "updated_at",
)  # fmt: skip
_SHOWN: Final = ", ".join(_DEFINITION[1:])
_VALUE: Final = ("tenant_id", "metric_id", "value_id", "entity_id", "value", "at")
_SUMMED: Final = {"sum": "SUM(v.value)", "avg": "AVG(v.value)", "min": "MIN(v.value)", "max": "MAX(v.value)"}
_DAY_MICROS: Final = 86_400_000_000
_IN_ONE: Final = 400


def insert_definition(tx: Transaction, tenant_id: str, wish: MetricRequest, *, at: int) -> str:
    metric_id = new_id()
    row = (
        tenant_id, metric_id, wish.name, wish.description, wish.scope, wish.aggregation, wish.data_type,
        wish.retention_days, at, at,
    )  # fmt: skip
    tx.insert_rows("metric_definitions", _DEFINITION, [row])
    return metric_id


def find_definition(tx: Transaction, tenant_id: str, metric_id: str) -> MetricDefinition | None:
    row = tx.fetch_one(
        f"SELECT {_SHOWN} FROM metric_definitions WHERE tenant_id = :tenant AND metric_id = :id",
        tenant=tenant_id,
        id=metric_id,
    )
    return None if row is None else _to_definition(row)


def find_named(tx: Transaction, tenant_id: str, scope: str, name: str) -> MetricDefinition | None:
    row = tx.fetch_one(
        f"SELECT {_SHOWN} FROM metric_definitions WHERE tenant_id = :tenant AND scope = :scope AND name = :name",
        tenant=tenant_id,
        scope=scope,
        name=name,
    )
    return None if row is None else _to_definition(row)


def list_definitions(
    tx: Transaction, tenant_id: str, *, scope: str | None = None, limit: int = 10_000, after: str | None = None
) -> list[MetricDefinition]:
    """Definitions by scope and name, going on behind an id."""
    where, values = "", {}
    if scope is not None:
        where, values = " AND scope = :scope", {"scope": scope}
    if after is not None:
        where += (
            " AND (scope, name) > (SELECT scope, name FROM metric_definitions WHERE tenant_id = :tenant "
            "AND metric_id = :after)"
        )
        values = {**values, "after": after}
    rows = tx.fetch_all(
        f"SELECT {_SHOWN} FROM metric_definitions WHERE tenant_id = :tenant{where} ORDER BY scope, name LIMIT :limit",
        tenant=tenant_id,
        limit=limit,
        **values,
    )
    return [_to_definition(row) for row in rows]


def change_definition(tx: Transaction, tenant_id: str, changed: MetricDefinition, *, at: int) -> None:
    tx.execute(
        "UPDATE metric_definitions SET name = :name, description = :description, aggregation = :aggregation, "
        "retention_days = :days, updated_at = :at WHERE tenant_id = :tenant AND metric_id = :id",
        tenant=tenant_id,
        id=changed.metric_id,
        name=changed.name,
        description=changed.description,
        aggregation=changed.aggregation,
        days=changed.retention_days,
        at=at,
    )


def delete_definition(tx: Transaction, tenant_id: str, metric_id: str) -> None:
    tx.execute(
        "DELETE FROM metric_definitions WHERE tenant_id = :tenant AND metric_id = :id", tenant=tenant_id, id=metric_id
    )


def has_values(tx: Transaction, tenant_id: str, metric_id: str) -> bool:
    found = tx.fetch_one(
        "SELECT 1 AS found FROM metric_values WHERE tenant_id = :tenant AND metric_id = :id LIMIT 1",
        tenant=tenant_id,
        id=metric_id,
    )
    return found is not None


def remove_values(tx: Transaction, tenant_id: str, metric_id: str, *, before: int | None = None) -> int:
    """Remove the values of a metric, all or those before a time: they are marked as leaving and then deleted."""
    where = "tenant_id = :tenant AND metric_id = :id"
    values: dict[str, Any] = {"tenant": tenant_id, "id": metric_id}
    if before is not None:
        where, values = f"{where} AND at < :before", {**values, "before": before}
    tx.execute(f"UPDATE metric_values SET leaves = 1 WHERE {where}", **values)
    return tx.execute(f"DELETE FROM metric_values WHERE {where}", **values)


def expired_before(definition: MetricDefinition, *, now: int) -> int | None:
    """Before which time the values of a metric may leave."""
    return None if definition.retention_days is None else now - definition.retention_days * _DAY_MICROS


def insert_values(
    tx: Transaction, tenant_id: str, rows: Sequence[tuple[str, str, float, int, Mapping[str, str]]]
) -> list[str]:
    """Append values: (metric, entity, number, time, dimensions); gives their ids."""
    ids = [new_id() for _ in rows]
    tx.insert_rows(
        "metric_values",
        _VALUE,
        [(tenant_id, row[0], value_id, row[1], row[2], row[3]) for value_id, row in zip(ids, rows, strict=True)],
    )
    dimensions = [
        (tenant_id, row[0], value_id, name, value)
        for value_id, row in zip(ids, rows, strict=True)
        for name, value in row[4].items()
    ]
    if dimensions:
        tx.insert_rows("metric_dimensions", ("tenant_id", "metric_id", "value_id", "name", "value"), dimensions)
    return ids


def list_values(
    tx: Transaction, tenant_id: str, definition: MetricDefinition, wish: SeriesQuery, *, limit: int, after: str | None
) -> list[MetricValue]:
    """Values in the order of their time, going on behind an id."""
    where, params = _conditions(wish)
    if after is not None:
        where += (
            " AND (v.at, v.value_id) > (SELECT at, value_id FROM metric_values WHERE tenant_id = :tenant "
            "AND metric_id = :metric AND value_id = :after)"
        )
        params = {**params, "after": after}
    rows = tx.fetch_all(
        "SELECT v.value_id, v.entity_id, v.value, v.at FROM metric_values v WHERE v.tenant_id = :tenant "
        f"AND v.metric_id = :metric{where} ORDER BY v.at, v.value_id LIMIT :limit",
        tenant=tenant_id,
        metric=definition.metric_id,
        limit=limit,
        **params,
    )
    dimensions = _dimensions(tx, tenant_id, definition.metric_id, [row["value_id"] for row in rows])
    return [
        MetricValue(
            row["value_id"],
            definition.metric_id,
            row["entity_id"],
            from_number(row["value"], definition.data_type, "last"),
            from_micros(row["at"]),
            dimensions.get(row["value_id"], {}),
        )
        for row in rows
    ]


def read_series(tx: Transaction, tenant_id: str, definition: MetricDefinition, wish: SeriesQuery) -> list[MetricPoint]:
    """Read the values of each stretch of time, summed up by the database; stretches without values are left out."""
    aggregation = wish.aggregation or definition.aggregation
    where, params = _conditions(wish)
    width = wish.bucket_s * 1_000_000
    begin = to_micros(wish.since, field="since") // width * width  # stretches begin where a clock's do
    params = {**params, "tenant": tenant_id, "metric": definition.metric_id, "begin": begin, "width": width}
    place = "(v.at - :begin) / :width"
    matching = f"FROM metric_values v WHERE v.tenant_id = :tenant AND v.metric_id = :metric{where}"
    if aggregation == "last":
        rows = tx.fetch_all(
            f"SELECT place, value, values_in AS count FROM (SELECT {place} AS place, v.value, COUNT(*) OVER "
            f"(PARTITION BY {place}) AS values_in, ROW_NUMBER() OVER (PARTITION BY {place} "
            f"ORDER BY v.at DESC, v.value_id DESC) AS back {matching}) AS numbered WHERE back = 1 ORDER BY place",
            **params,
        )
    else:
        summed = _SUMMED.get(aggregation, "COUNT(*)")
        rows = tx.fetch_all(
            f"SELECT {place} AS place, {summed} AS value, COUNT(*) AS count {matching} GROUP BY 1 ORDER BY 1",
            **params,
        )
    return [
        MetricPoint(
            from_micros(begin + int(row["place"]) * width),
            from_number(row["value"], definition.data_type, aggregation),
            row["count"],
        )
        for row in rows
    ]


def collected_up_to(tx: Transaction, tenant_id: str, source: str, *, lock: bool = False) -> int:
    """Return the cursor of a source, 0 at the beginning; the row stays locked until this transaction ends."""
    waits = ""
    if lock:
        tx.insert_missing("metric_collections", ("tenant_id", "source", "up_to"), [(tenant_id, source, 0)])
        waits = " FOR UPDATE" if tx.dialect == "postgres" else ""
    row = tx.fetch_one(
        f"SELECT up_to FROM metric_collections WHERE tenant_id = :tenant AND source = :source{waits}",
        tenant=tenant_id,
        source=source,
    )
    return 0 if row is None else row["up_to"]


def set_collected(tx: Transaction, tenant_id: str, source: str, up_to: int) -> None:
    tx.execute(
        "INSERT INTO metric_collections (tenant_id, source, up_to) VALUES (:tenant, :source, :up_to) "
        "ON CONFLICT (tenant_id, source) DO UPDATE SET up_to = excluded.up_to",
        tenant=tenant_id,
        source=source,
        up_to=up_to,
    )


def _conditions(wish: SeriesQuery) -> tuple[str, dict[str, Any]]:
    where = " AND v.at >= :since AND v.at < :until"
    params: dict[str, Any] = {
        "since": to_micros(wish.since, field="since"),
        "until": to_micros(wish.until, field="until"),
    }
    if wish.entity_id is not None:
        where, params = f"{where} AND v.entity_id = :entity", {**params, "entity": wish.entity_id}
    for number, (name, value) in enumerate(wish.dimensions.items()):
        where += (
            " AND EXISTS (SELECT 1 FROM metric_dimensions d WHERE d.tenant_id = v.tenant_id "
            "AND d.metric_id = v.metric_id AND d.value_id = v.value_id "
            f"AND d.name = :n{number} AND d.value = :d{number})"
        )
        params = {**params, f"n{number}": name, f"d{number}": value}
    return where, params


def _dimensions(tx: Transaction, tenant_id: str, metric_id: str, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for some in chunks(ids, _IN_ONE):
        names = {f"v{number}": value for number, value in enumerate(some)}
        rows = tx.fetch_all(
            "SELECT value_id, name, value FROM metric_dimensions WHERE tenant_id = :tenant AND metric_id = :metric "
            f"AND value_id IN ({', '.join(f':{name}' for name in names)}) ORDER BY name",
            tenant=tenant_id,
            metric=metric_id,
            **names,
        )
        for row in rows:
            found.setdefault(row["value_id"], {})[row["name"]] = row["value"]
    return found


def _to_definition(row: Row) -> MetricDefinition:
    return MetricDefinition(
        metric_id=row["metric_id"],
        name=row["name"],
        description=row["description"],
        scope=row["scope"],
        aggregation=row["aggregation"],
        data_type=row["data_type"],
        retention_days=row["retention_days"],
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
    )
