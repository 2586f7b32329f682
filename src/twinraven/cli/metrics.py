"""`twinraven metrics`: what is measured, and what came of it."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count, moment, span
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_operator, with_home
from twinraven.cli.times import short_time
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.metrics import MetricDefinition, SeriesQuery

_SCOPES = ("service", "tool", "process", "conversation")
_AGGREGATIONS = ("sum", "avg", "min", "max", "count", "last")
_TYPES = ("integer", "float", "boolean", "timestamp")
_LISTED = (
    TableColumn("scope", "SCOPE"),
    TableColumn("name", "NAME"),
    TableColumn("aggregation", "SUMMED BY"),
    TableColumn("data_type", "TYPE", spare=2),
    TableColumn("retention_days", "DAYS", right=True, spare=3),
    TableColumn("metric_id", "ID"),
    TableColumn("description", "DESCRIPTION", shrinks=True, spare=1),
)
_POINTS = (
    TableColumn("start", "FROM", text=short_time),
    TableColumn("value", "VALUE", right=True),
    TableColumn("count", "VALUES", right=True),
)
_VALUES = (
    TableColumn("timestamp", "AT", text=short_time),
    TableColumn("entity_id", "OF", shrinks=True),
    TableColumn("value", "VALUE", right=True),
    TableColumn("dimensions", "DIMENSIONS", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven metrics list\ntwinraven metrics show tool calls --bucket 1h")
    _register_list(parser.command("list", "what is measured"))
    _register_define(parser.command("define", "define a metric"))
    _register_change(parser.command("change", "change a definition"))
    _register_delete(parser.command("delete", "delete a definition"))
    _register_report(parser.command("report", "append a value"))
    _register_show(parser.command("show", "a metric summed up by stretches of time"))
    _register_values(parser.command("values", "the values as they were reported"))
    _register_collect(parser.command("collect", "measure the system now, and remove what is too old"))


def _add_metric(parser: CommandParser) -> None:
    parser.add_argument("scope", choices=_SCOPES, help="what the metric is of")
    parser.add_argument("name", metavar="NAME", help="the metric's name")


def _add_window(parser: CommandParser) -> None:
    parser.add_argument("--since", type=moment, metavar="TIME", help="from this time on (default: a day back)")
    parser.add_argument("--until", type=moment, metavar="TIME", help="before this time (default: now)")
    parser.add_argument("--entity", metavar="ID", help="only of this service, tool, process or conversation")
    parser.add_argument("--dimension", metavar="NAME=VALUE", action="append", help="only with this; may be repeated")


def _register_list(parser: CommandParser) -> None:
    parser.add_argument("--scope", choices=_SCOPES, help="only of this scope")
    parser.takes_output("table", "json", "csv")
    parser.runs(list_metrics, example="twinraven metrics list --scope tool --output json")


def _register_define(parser: CommandParser) -> None:
    _add_metric(parser)
    parser.add_argument("--aggregation", choices=_AGGREGATIONS, default="sum", help="how values are summed up")
    parser.add_argument("--type", choices=_TYPES, default="integer", help="of which type values are")
    parser.add_argument("--description", metavar="TEXT", default="", help="what it says")
    parser.add_argument(
        "--retention-days", type=count, metavar="N", help="how long values are kept (default: for good)"
    )
    parser.takes_output("table", "json")
    parser.runs(define_metric, example="twinraven metrics define conversation rating --aggregation avg --type float")


def _register_change(parser: CommandParser) -> None:
    _add_metric(parser)
    parser.add_argument("--aggregation", choices=_AGGREGATIONS, help="how values are summed up")
    parser.add_argument("--description", metavar="TEXT", help="what it says")
    parser.add_argument("--retention-days", type=count, metavar="N", help="how long values are kept")
    parser.takes_output("table", "json")
    parser.runs(change_metric, example="twinraven metrics change conversation rating --retention-days 90")


def _register_delete(parser: CommandParser) -> None:
    _add_metric(parser)
    parser.add_argument("--cascade", action="store_true", help="delete its values too")
    parser.takes_output("table", "json")
    parser.runs(delete_metric, example="twinraven metrics delete conversation rating --cascade")


def _register_report(parser: CommandParser) -> None:
    _add_metric(parser)
    parser.add_argument("entity", metavar="ID", help="the service, tool, process or conversation")
    parser.add_argument("value", metavar="VALUE", help="a number, true or false, or a time, as the type says")
    parser.add_argument("--at", type=moment, metavar="TIME", help="when it was measured (default: now)")
    parser.add_argument("--dimension", metavar="NAME=VALUE", action="append", help="to filter by; may be repeated")
    parser.takes_output("table", "json")
    parser.runs(report_value, example="twinraven metrics report tool cost get_order 3 --dimension user=ada")


def _register_show(parser: CommandParser) -> None:
    _add_metric(parser)
    _add_window(parser)
    parser.add_argument("--bucket", type=span, default=timedelta(hours=1), metavar="SPAN", help="such as 5m, 1h, 1d")
    parser.add_argument("--aggregation", choices=_AGGREGATIONS, help="another than the definition's")
    parser.takes_output("table", "json", "csv")
    parser.runs(show_metric, example="twinraven metrics show tool calls --bucket 1h --entity get_order")


def _register_values(parser: CommandParser) -> None:
    _add_metric(parser)
    _add_window(parser)
    parser.add_argument("--limit", type=count, default=100, metavar="N", help="at most so many (default: 100)")
    parser.takes_output("table", "json", "csv")
    parser.runs(list_values, example="twinraven metrics values tool calls --limit 10")


def _register_collect(parser: CommandParser) -> None:
    parser.takes_output("table", "json")
    parser.runs(collect, example="twinraven metrics collect --output json")


def list_metrics(options: Namespace) -> None:
    async def work(raven: TwinRaven) -> list[MetricDefinition]:
        await raven.metrics.collect(options.tenant)
        return await raven.metrics.definitions(options.tenant, scope=options.scope)

    show_rows(
        options.output, [each.as_json() for each in with_home(options, work)], _LISTED, empty="nothing is measured"
    )


def define_metric(options: Namespace) -> None:
    from twinraven.metrics import MetricRequest

    wish = MetricRequest(
        options.name, options.scope, options.aggregation, options.type, options.description, options.retention_days
    )
    made = with_home(options, lambda raven: raven.metrics.define(wish, by=local_operator(options)))
    show_fields(options.output, made.as_json())


def change_metric(options: Namespace) -> None:
    async def work(raven: TwinRaven) -> MetricDefinition:
        found = await raven.metrics.named(options.tenant, options.scope, options.name)
        return await raven.metrics.change(
            found.metric_id,
            by=local_operator(options),
            description=options.description,
            aggregation=options.aggregation,
            retention_days=options.retention_days,
        )

    show_fields(options.output, with_home(options, work).as_json())


def delete_metric(options: Namespace) -> None:
    async def work(raven: TwinRaven) -> int:
        found = await raven.metrics.named(options.tenant, options.scope, options.name)
        return await raven.metrics.delete(found.metric_id, by=local_operator(options), cascade=options.cascade)

    show_fields(options.output, {"deleted": options.name, "values": with_home(options, work)})


def report_value(options: Namespace) -> None:
    async def work(raven: TwinRaven) -> dict[str, Any]:
        found = await raven.metrics.named(options.tenant, options.scope, options.name)
        value = _value(options.value, found.data_type)
        made = await raven.metrics.report(
            options.tenant,
            found.metric_id,
            options.entity,
            value,
            at=options.at,
            dimensions=_dimensions(options.dimension),
        )
        return made.as_json()

    show_fields(options.output, with_home(options, work))


def show_metric(options: Namespace) -> None:
    async def work(raven: TwinRaven) -> list[dict[str, Any]]:
        await raven.metrics.collect(options.tenant)
        found = await raven.metrics.named(options.tenant, options.scope, options.name)
        wish = _window(options, round(options.bucket.total_seconds()), options.aggregation)
        return [each.as_json() for each in await raven.metrics.series(options.tenant, found.metric_id, wish)]

    show_rows(options.output, with_home(options, work), _POINTS, empty="no values")


def list_values(options: Namespace) -> None:
    async def work(raven: TwinRaven) -> list[dict[str, Any]]:
        await raven.metrics.collect(options.tenant)
        found = await raven.metrics.named(options.tenant, options.scope, options.name)
        wish = _window(options, 3600, None)
        listed = await raven.metrics.values(options.tenant, found.metric_id, wish, limit=options.limit)
        return [each.as_json() for each in listed]

    show_rows(options.output, with_home(options, work), _VALUES, empty="no values")


def collect(options: Namespace) -> None:
    async def work(raven: TwinRaven) -> dict[str, int]:
        kept = raven.metrics
        return {"collected": await kept.collect(options.tenant), "pruned": await kept.prune(options.tenant)}

    show_fields(options.output, with_home(options, work))


def _window(options: Namespace, bucket_s: int, aggregation: Any) -> SeriesQuery:
    from twinraven.metrics import SeriesQuery

    until = options.until or datetime.now(UTC) + timedelta(seconds=1)
    since = options.since or until - timedelta(days=1)
    return SeriesQuery(since, until, bucket_s, options.entity, _dimensions(options.dimension), aggregation)


def _dimensions(given: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in given or ()]
    if not all(name and equals and value for name, equals, value in pairs):
        raise InvalidInput("--dimension is written NAME=VALUE", field="dimension")
    return {name: value for name, _, value in pairs}


def _value(text: str, data_type: str) -> Any:
    """Return a value of the metric's type, where the text is one; else the text, which is refused with the reason."""
    if data_type == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    if data_type == "timestamp":
        return text
    try:
        return int(text) if data_type == "integer" else float(text)
    except ValueError:
        return text
