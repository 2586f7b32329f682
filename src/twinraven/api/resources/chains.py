"""What mining found."""

from __future__ import annotations

from collections.abc import Sequence

from twinraven.api.contract import Answer, Request, Route
from twinraven.api.forms import UUID_TEXT, listing, ref
from twinraven.api.pages import page_of
from twinraven.foundation.errors import NotFound
from twinraven.huginn import CandidateChain


async def list_chains(request: Request) -> Answer:
    query = request.query
    limit = int(query["limit"])
    after = None if "cursor" not in query else query["cursor"][0]
    found = await request.raven.chains.chains(request.tenant_id, limit=limit + 1, after=after)
    return Answer(page=page_of(found, limit, place=lambda each: [str(each.chain_id)], show=CandidateChain.as_json))


async def show_chain(request: Request) -> Answer:
    chain = await request.raven.chains.chain(request.tenant_id, request.path["chain_id"].lower())
    return Answer(chain.as_json())


ROUTES: Sequence[Route] = (
    Route(
        "GET",
        "/v1/chains",
        "listChains",
        "Chains that mining found, the latest run first",
        list_chains,
        listing("CandidateChain"),
        is_paged=True,
    ),
    Route(
        "GET",
        "/v1/chains/{chain_id}",
        "showChain",
        "One chain with its links and samples",
        show_chain,
        ref("CandidateChain"),
        parameters={"chain_id": UUID_TEXT},
        errors=(NotFound,),
    ),
)
