"""Serves effects: publications, messages and payments."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from twinraven.api.idempotency_keys import BODY_KEY, KEY, keyed_body
from twinraven.api.schemas import TEXT, TIME, form, listing, ref
from twinraven.effects import EffectKind, EffectRecord, MessageRequest, PaymentRequest, PublishRequest
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import (
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    PolicyViolation,
    TwinRavenError,
)
from twinraven.ledger import LedgerOverdrawn
from twinraven.serving import (
    JsonSchema,
    QueryParameter,
    Request,
    Response,
    Route,
    RouteTable,
    page_of,
)

_ID: Final[JsonSchema] = {**TEXT, "maxLength": 200}
_LONG: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 100_000}
_AMOUNT: Final[JsonSchema] = {
    "type": "string",
    "pattern": r"^(0|[1-9][0-9]{0,14})(\.[0-9]{1,18})?$",
    "description": "decimal text, never a JSON number",
}
_CURRENCY: Final[JsonSchema] = {"type": "string", "pattern": "^[A-Z]{3}$"}
_ALLOWED: Final[tuple[type[TwinRavenError], ...]] = (
    PolicyViolation,
    IdempotencyConflict,
    InvalidInput,
)
_TASK: Final[JsonSchema] = {**_ID, "description": "the task whose approved result this is"}
_PERSONA: Final[JsonSchema] = {**_ID, "description": "in whose voice it speaks, where that is not the campaign's"}
_STATUS: Final = QueryParameter("status", TEXT, "only those that stand so")
_OF_TASK: Final = QueryParameter("task_id", _ID, "only those of this task")

_PUBLISH: Final[JsonSchema] = form(
    {"task_id": _TASK, "channel": _ID, "text": _LONG},
    optional={
        KEY: BODY_KEY,
        "media_asset_id": _ID,
        "disclosure": _ID,
        "persona_id": _PERSONA,
        "scheduled_at": TIME,
        "provider": _ID,
    },
)
_MESSAGE: Final[JsonSchema] = form(
    {"task_id": _TASK, "channel": _ID, "recipient": TEXT, "text": _LONG},
    optional={KEY: BODY_KEY, "persona_id": _PERSONA, "scheduled_at": TIME, "provider": _ID},
)
_PAYMENT: Final[JsonSchema] = form(
    {
        "task_id": _TASK,
        "wallet_id": _ID,
        "amount": _AMOUNT,
        "currency": _CURRENCY,
        "counterparty": TEXT,
    },
    optional={KEY: BODY_KEY, "description": {"type": "string", "maxLength": 2_000}, "budget_id": _ID},
)
ROUTES: Final = RouteTable()


def _moment(body: dict[str, Any]) -> datetime | None:
    text = body.get("scheduled_at")
    return None if text is None else parse_iso(text, field="scheduled_at")


def _accepted(record: EffectRecord) -> Response:
    return Response(record.as_json(), status=202)


def _asking(path: str, name: str, summary: str, entity: str, body: JsonSchema) -> Route:
    return Route(
        "POST",
        path,
        name,
        summary,
        ref(entity),
        body=body,
        errors=(*_ALLOWED, NotFound, LedgerOverdrawn, IllegalTransition),
        takes_key=True,
        keeps_key=True,
        also={202: "It is stored and will be delivered; the same key again gives the same effect."},
    )


@ROUTES.handles(
    _asking(
        "/v1/publications",
        "publish",
        "Publish on a channel, for a task whose result was approved",
        "PublishEvent",
        _PUBLISH,
    )
)
async def publish(request: Request) -> Response:
    body: dict[str, Any] = {**keyed_body(request), "scheduled_at": _moment(request.body)}
    return _accepted(await request.raven.effects.publish(PublishRequest(**body), by=request.who))


@ROUTES.handles(
    _asking(
        "/v1/messages",
        "postMessage",
        "Send a message, for a task whose result was approved",
        "OutgoingMessage",
        _MESSAGE,
    )
)
async def send_message(request: Request) -> Response:
    body: dict[str, Any] = {**keyed_body(request), "scheduled_at": _moment(request.body)}
    return _accepted(await request.raven.effects.message(MessageRequest(**body), by=request.who))


@ROUTES.handles(
    _asking(
        "/v1/transactions",
        "pay",
        "Pay out of a wallet, for a task whose result was approved",
        "MoneyTransaction",
        _PAYMENT,
    )
)
async def pay(request: Request) -> Response:
    return _accepted(await request.raven.effects.pay(PaymentRequest(**keyed_body(request)), by=request.who))


def _reading(kind: EffectKind, path: str, *, name: str, plural: str, entity: str, key: str) -> None:
    """Add the routes that list, show, cancel and reconcile effects of a kind."""

    async def list_them(request: Request) -> Response:
        query = request.query
        limit, after = int(query["limit"]), query.get("cursor")
        found = await request.raven.effects.list(
            kind,
            by=request.who,
            limit=limit + 1,
            after=None if after is None else str(after[0]),
            status=query.get("status"),
            task_id=query.get("task_id"),
        )
        return Response(page=page_of(found, limit, place=lambda each: [each.as_json()[key]], show=_as_json))

    async def show(request: Request) -> Response:
        return Response((await request.raven.effects.get(kind, request.path["effect_id"], by=request.who)).as_json())

    async def cancel(request: Request) -> Response:
        found = await request.raven.effects.cancel(kind, request.path["effect_id"], by=request.who)
        return Response(found.as_json())

    async def reconcile(request: Request) -> Response:
        found = await request.raven.effects.reconcile(kind, request.path["effect_id"], by=request.who)
        return Response(found.as_json())

    of_kind = f"{name[0].upper()}{name[1:]}"
    ROUTES.handles(
        Route(
            "GET",
            path,
            f"list{plural}",
            "Own ones by id; for approvers and administrators, everybody's",
            listing(entity),
            query=(_STATUS, _OF_TASK),
            is_paged=True,
        )
    )(list_them)
    ROUTES.handles(
        Route(
            "GET",
            f"{path}/{{effect_id}}",
            f"show{of_kind}",
            "One of them as it stands",
            ref(entity),
            errors=(NotFound,),
        )
    )(show)
    ROUTES.handles(
        Route(
            "POST",
            f"{path}/{{effect_id}}/cancel",
            f"cancel{of_kind}",
            "Cancel what was not sent",
            ref(entity),
            body=form({}),
            errors=(NotFound, IllegalTransition),
        )
    )(cancel)
    ROUTES.handles(
        Route(
            "POST",
            f"{path}/{{effect_id}}/reconcile",
            f"reconcile{of_kind}",
            "Ask the provider what became of one that is unknown; nothing is sent",
            ref(entity),
            body=form({}),
            errors=(NotFound, IllegalTransition),
        )
    )(reconcile)


def _as_json(record: EffectRecord) -> dict[str, Any]:
    return record.as_json()


_reading(
    "publish", "/v1/publications", name="publication", plural="Publications", entity="PublishEvent", key="publish_id"
)
_reading("message", "/v1/messages", name="message", plural="Messages", entity="OutgoingMessage", key="message_id")
_reading(
    "transaction",
    "/v1/transactions",
    name="transaction",
    plural="Transactions",
    entity="MoneyTransaction",
    key="transaction_id",
)


@ROUTES.handles(
    Route(
        "POST",
        "/v1/transactions/{effect_id}/reverse",
        "reverseTransaction",
        "Take an executed payment of the local ledger back, once",
        ref("MoneyTransaction"),
        body=form({"note": {"type": "string", "minLength": 1, "maxLength": 2_000}}),
        errors=(NotFound, IllegalTransition, PolicyViolation, LedgerOverdrawn),
        decides=True,
    )
)
async def reverse(request: Request) -> Response:
    made = await request.raven.effects.reverse(request.path["effect_id"], by=request.who, note=request.body["note"])
    return Response(made.as_json())
