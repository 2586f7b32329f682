"""`twinraven call`: the one call path, from a shell."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from twinraven.cli.arguments import count
from twinraven.cli.exits import DONE, exit_code
from twinraven.cli.interrupts import not_waiting_when_interrupted
from twinraven.cli.output import show_json
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time
from twinraven.foundation.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.calls import SkillInvocationResponse


def register(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.add_argument("--params", metavar="JSON", help="all arguments, as an object; @FILE reads a file, - stdin")
    parser.add_argument(
        "--param", metavar="NAME=VALUE", action="append", default=[], help="one argument; may be repeated"
    )
    parser.add_argument("--session", metavar="ID", help="the session it belongs to (default: one of its own)")
    parser.add_argument("--key", metavar="KEY", help="idempotency key: the same key never runs twice")
    parser.add_argument("--turn", type=count, metavar="N", help="the model turn that asked for it")
    parser.add_argument("--envelope", action="store_true", help="print the whole response, not only the output")
    parser.takes_output("json")
    parser.runs(run, example="twinraven call get_order --param order_id=W1001 --session ticket-17")


def run(options: Namespace) -> int:
    import asyncio

    from twinraven.calls import CallFailed
    from twinraven.cli.home import opened
    from twinraven.foundation.canonical import to_json_value

    # What a tool prints is not its answer, which alone belongs on stdout.
    with not_waiting_when_interrupted(), opened(options) as raven, redirect_stdout(sys.stderr):
        response = asyncio.run(_invoke(raven, options))
    if options.envelope:
        show_json(to_json_value(response.as_json()))
        return DONE if response.error is None else exit_code(response.error["code"])
    if response.error is not None:
        failed = CallFailed(response)
        if failed.code == "APPROVAL_PENDING":
            failed.details["fix"] = (
                f"twinraven approvals grant {failed.details['approval_id']}, then the same call again"
            )
        raise failed
    show_json(to_json_value(response.output))
    return DONE


async def _invoke(raven: TwinRaven, options: Namespace) -> SkillInvocationResponse:
    from twinraven.calls import CallContext, SkillInvocationRequest
    from twinraven.cli.people import operator
    from twinraven.foundation.ids import new_id
    from twinraven.tenancy import LOCAL_USER

    try:
        entry = raven.catalog.resolve(options.tenant, options.tool, LOCAL_USER)
    except NotFound as error:
        raise await _explained(raven, options, error) from error
    request = SkillInvocationRequest(
        tool_name=options.tool,
        payload=read_params(options.params, options.param, entry.input_schema),
        tenant_id=options.tenant,
        idempotency_key=options.key,
    )
    session_id: str = f"cli-{new_id()}" if options.session is None else options.session
    context = CallContext(
        session_id=session_id, turn=options.turn, caller=LOCAL_USER, actor=operator(), spare_key=new_id()
    )
    return await raven.calls.invoke(request, context, entry=entry)


async def _explained(raven: TwinRaven, options: Namespace, error: NotFound) -> NotFound:
    """Say of a learned tool what keeps it from service; the holder of the home may know that it is there."""
    from twinraven.cli.registry import state_of

    try:
        record = (await raven.registry.tool(options.tenant, options.tool)).record
    except NotFound:
        return error
    if state_of(record) == "promoted":
        # What serves others and not this caller is answered as at every other door.
        return error
    why = ""
    if record.quarantine is not None:
        why = f" since {short_time(record.quarantine.at)}: {record.quarantine.reason}"
    fix = f"twinraven {'registry show' if record.retirement_reason is not None else 'approve'} {options.tool}"
    return NotFound(f"{options.tool!r} is not in service: it is {state_of(record)}{why}", tool_id=options.tool, fix=fix)


def read_params(whole: str | None, single: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """Read the arguments of a call: an object, and single ones that are set in it."""
    params = {} if whole is None else _read_object(whole)
    for pair in single:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise InvalidInput(f"--param takes NAME=VALUE, not {pair!r}", field="param")
        params[name] = _read_value(text, schema.get("properties", {}).get(name, {}))
    return params


def _read_object(text: str) -> dict[str, Any]:
    from twinraven.foundation.canonical import parse_json

    value = parse_json(_content(text), field="params")
    if not isinstance(value, dict):
        raise InvalidInput(f"params must be a JSON object, not {type(value).__name__}", field="params")
    return cast("dict[str, Any]", value)


def _content(text: str) -> str | bytes:
    if text == "-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {text[1:]}: {error.strerror}", field="params") from error


def _read_value(text: str, schema: Any) -> Any:
    """JSON where it is JSON, else the text itself; where the tool wants text, always the text."""
    from twinraven.foundation.canonical import parse_json

    if isinstance(schema, dict) and cast("dict[str, Any]", schema).get("type") == "string":
        return text
    try:
        return parse_json(text, field="param")
    except InvalidInput:
        return text
