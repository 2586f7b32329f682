"""Serves wallets with their balances, ledger checks and media assets."""

from __future__ import annotations

from typing import Final

from twinraven.api.idempotency_keys import BODY_KEY, KEY, keyed_body
from twinraven.api.schemas import OBJECT, TEXT, form, listing, ref
from twinraven.effects import AssetRequest, WalletBalance
from twinraven.foundation.errors import (
    Conflict,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    StaleState,
)
from twinraven.governance import MediaAsset
from twinraven.ledger import LedgerTransfer
from twinraven.serving import (
    JsonSchema,
    QueryParameter,
    Request,
    Response,
    Route,
    RouteTable,
    expected_version,
    page_of,
)

_ID: Final[JsonSchema] = {**TEXT, "maxLength": 200}
_AMOUNT: Final[JsonSchema] = {
    "type": "string",
    "pattern": r"^(0|[1-9][0-9]{0,14})(\.[0-9]{1,18})?$",
    "description": "decimal text, never a JSON number",
}
_CURRENCY: Final[JsonSchema] = {"type": "string", "pattern": "^[A-Z]{3}$"}
_OF_TASK: Final = QueryParameter("task_id", _ID, "only those of this task")
_ASSET: Final[JsonSchema] = form(
    {"campaign_id": _ID, "kind": {"enum": ["image", "video", "audio", "other"]}, "storage_uri": {"type": "string"}},
    optional={
        "task_id": _ID,
        "content_hash": {"type": "string"},
        "duration_seconds": {"type": "number"},
        "width": {"type": "integer"},
        "height": {"type": "integer"},
        "format": _ID,
        "character_id": _ID,
        "metadata": OBJECT,
    },
)
_STATUSES: Final = ("open", "frozen", "closed")
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "POST",
        "/v1/wallets",
        "openWallet",
        "Open a wallet for an agent or a campaign",
        ref("WalletBalance"),
        status=201,
        body=form(
            {"agent_or_campaign_id": _ID, "currency": _CURRENCY},
            optional={"kind": {"enum": ["commerce", "internal"]}, "provider": _ID, "provider_ref": _ID},
        ),
        errors=(InvalidInput,),
        admin=True,
        takes_key=True,
        location="/v1/wallets/{wallet_id}",
        screened=True,
    )
)
async def open_wallet(request: Request) -> Response:
    made = await request.raven.wallets.open(**request.body, by=request.who)
    return Response(made.as_json(), status=201, tag=_version(made))


@ROUTES.handles(
    Route("GET", "/v1/wallets", "listWallets", "Wallets, and what they hold", listing("WalletBalance"), is_paged=True)
)
async def list_wallets(request: Request) -> Response:
    limit, after = int(request.query["limit"]), request.query.get("cursor")
    found = await request.raven.wallets.list(
        request.tenant_id, limit=limit + 1, after=None if after is None else str(after[0])
    )
    return Response(page=page_of(found, limit, place=lambda each: [each.wallet.wallet_id], show=WalletBalance.as_json))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/wallets/{wallet_id}",
        "showWallet",
        "One wallet, and what it holds",
        ref("WalletBalance"),
        errors=(NotFound,),
        is_tagged=True,
    )
)
async def show_wallet(request: Request) -> Response:
    return _wallet(await request.raven.wallets.get(request.tenant_id, request.path["wallet_id"]))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/wallets/{wallet_id}/fund",
        "fundWallet",
        "Put money from outside into a wallet, once under its key",
        ref("WalletBalance"),
        body=form({"amount": _AMOUNT}, optional={KEY: BODY_KEY}),
        errors=(NotFound, IllegalTransition, InvalidInput, Conflict, IdempotencyConflict),
        admin=True,
        takes_key=True,
        keeps_key=True,
        screened=True,
    )
)
async def fund_wallet(request: Request) -> Response:
    body = keyed_body(request)
    found = await request.raven.wallets.fund(request.path["wallet_id"], body["amount"], key=body[KEY], by=request.who)
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "PATCH",
        "/v1/wallets/{wallet_id}",
        "changeWallet",
        "Freeze, reopen or close a wallet",
        ref("WalletBalance"),
        body=form({"status": {"enum": list(_STATUSES)}}),
        errors=(NotFound, IllegalTransition, StaleState),
        admin=True,
        is_tagged=True,
        matching="must",
    )
)
async def change_wallet(request: Request) -> Response:
    return _wallet(
        await request.raven.wallets.set_status(
            request.path["wallet_id"], request.body["status"], by=request.who, expected=expected_version(request)
        )
    )


@ROUTES.handles(
    Route(
        "GET",
        "/v1/wallets/{wallet_id}/statement",
        "showStatement",
        "The newest transfers into and out of a wallet",
        form({"items": {"type": "array", "items": ref("LedgerTransfer")}}),
        errors=(NotFound,),
    )
)
async def show_statement(request: Request) -> Response:
    wallet = await request.raven.wallets.get(request.tenant_id, request.path["wallet_id"])
    found = await request.raven.ledger.statement(request.tenant_id, f"wallet:{wallet.wallet.wallet_id}")
    return Response({"items": [LedgerTransfer.as_json(each) for each in found]})


@ROUTES.handles(
    Route("GET", "/v1/ledger", "verifyLedger", "Whether the books add up to zero", ref("LedgerReport"), admin=True)
)
async def verify_ledger(request: Request) -> Response:
    return Response((await request.raven.ledger.verify(request.tenant_id)).as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/assets",
        "addAsset",
        "Register a medium by where it is kept; the medium itself is not sent here",
        ref("MediaAsset"),
        status=201,
        body=_ASSET,
        errors=(InvalidInput, NotFound),
        takes_key=True,
        location="/v1/assets/{asset_id}",
    )
)
async def add_asset(request: Request) -> Response:
    made = await request.raven.assets.add(AssetRequest(**request.body), by=request.who)
    return Response(made.as_json(), status=201)


@ROUTES.handles(
    Route(
        "GET", "/v1/assets", "listAssets", "Media assets by id", listing("MediaAsset"), query=(_OF_TASK,), is_paged=True
    )
)
async def list_assets(request: Request) -> Response:
    query = request.query
    limit, after = int(query["limit"]), query.get("cursor")
    found = await request.raven.assets.list(
        request.tenant_id, limit=limit + 1, after=None if after is None else str(after[0]), task_id=query.get("task_id")
    )
    return Response(page=page_of(found, limit, place=lambda each: [each.asset_id], show=MediaAsset.as_json))


@ROUTES.handles(
    Route("GET", "/v1/assets/{asset_id}", "showAsset", "One media asset", ref("MediaAsset"), errors=(NotFound,))
)
async def show_asset(request: Request) -> Response:
    return Response((await request.raven.assets.get(request.tenant_id, request.path["asset_id"])).as_json())


def _version(found: WalletBalance) -> str:
    return str(found.wallet.state_version)


def _wallet(found: WalletBalance) -> Response:
    return Response(found.as_json(), tag=_version(found))
