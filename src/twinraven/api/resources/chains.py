"""Serves candidate chains, the results of mining."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import UUID_TEXT, listing, ref
from twinraven.foundation.errors import NotFound
from twinraven.huginn import CandidateChain
from twinraven.serving import Request, Response, Route, RouteTable, page_of

ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/chains",
        "listChains",
        "Chains that mining found, the latest run first",
        listing("CandidateChain"),
        is_paged=True,
    )
)
async def list_chains(request: Request) -> Response:
    query = request.query
    limit = int(query["limit"])
    after = None if "cursor" not in query else query["cursor"][0]
    found = await request.raven.chains.chains(request.tenant_id, limit=limit + 1, after=after)
    return Response(page=page_of(found, limit, place=lambda each: [str(each.chain_id)], show=CandidateChain.as_json))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/chains/{chain_id}",
        "showChain",
        "One chain with its links and samples",
        ref("CandidateChain"),
        parameters={"chain_id": UUID_TEXT},
        errors=(NotFound,),
    )
)
async def show_chain(request: Request) -> Response:
    chain = await request.raven.chains.chain(request.tenant_id, request.path["chain_id"].lower())
    return Response(chain.as_json())
