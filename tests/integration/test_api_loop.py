"""No route blocks the event loop: while one request waits for a disk, the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from blockbuster import BlockBuster

from tests.api_client import Door
from tests.api_homes import Seeds, api_home, made, read, search, seed
from tests.api_samples import BODIES
from tests.registry_kit import make_definition, make_verdict
from tests.unit.catalog.town import service_body
from twinraven.api import all_routes, api_app
from twinraven.app import TwinRaven, open_home
from twinraven.serving import Authenticator
from twinraven.serving.contract import Route
from twinraven.serving.metrics import HttpMetrics

_LATE: Final = ("retireTool",)
"""After it no other step in the tool's life can be taken."""


_REFUSED: Final = frozenset(
    [
        "decideInboxItem",
        "reserveInboxItem",
        "extractAnew",
        "showGraph",
        "publish",
        "postMessage",
        "pay",
        "reverseTransaction",
        "reconcilePublication",
        "reconcileMessage",
        "reconcileTransaction",
        "addAsset",
        "savePlan",
        "resumeRun",
        "answerRun",
        "planGoal",
        "proposePlan",
        "planTask",
        "reviseTask",
        "cancelTask",
        "retryTask",
        "claimTask",
        "reportResult",
        "decideResult",
        "resolveDecision",
        "switchAlternative",
        "mergeEntities",
        "compressEpisodes",
        "writeSummary",
        "deleteMetric",
        "acceptUpstreams",
        "classifyUpstreams",
    ]
)
"""What they are about must stand in a state of its own; here they look it up and refuse, which reads as much."""


_KEYS = {"fundWallet": "sample-fund"}
"""What the body of a route has as its key, where the header must say the same."""


def turn(route: Route) -> tuple[bool, bool]:
    """What ends something comes when everything else was done with it."""
    return route.method == "DELETE", route.name in _LATE


async def prepare(raven: TwinRaven, seeds: Seeds, route: Route) -> None:
    """Make what a route needs that another route has used up by now."""
    if route.name in ("promoteTool", "rejectTool"):
        slug, chain = seeds.ids["learned-tools", "tool_id"], seeds.ids["chains", "chain_id"]
        definition = make_definition(slug, chain_id=chain, description=f"For {route.name}.")
        draft = await raven.registry.draft(seeds.tenant_id, definition, evidence_hash=route.name)
        await raven.registry.register(seeds.tenant_id, draft.definition, make_verdict())
    elif route.name == "denyApproval":
        call = {"tool_name": "refund", "payload": {"order": 8}, "session_id": "ada-session"}
        asked = await seeds.door.post("/v1/calls", call, Idempotency_Key="another-refund")
        seeds.ids["approvals", "approval_id"] = asked.json()["error"]["details"]["approval_id"]
    elif route.name == "deleteService":
        unused = made(await seeds.door.post("/v1/services", service_body(name="unused")))
        seeds.ids["services", "service_id"] = unused["id"]


async def test_no_route_blocks_the_loop(tmp_path: Path, loop_guard: BlockBuster) -> None:
    """Whatever is asked, nothing waits for a disk on the loop; each route does its work, up to its last line."""
    loop_guard.deactivate()
    routes = all_routes(HttpMetrics())
    async with api_home(tmp_path) as home:
        seeds = await seed(home.raven, await home.tenant("ada"), name="ada")
        # A process that has just started has read nothing of anybody yet.
        with open_home(home.raven.home, functions=[search, read]) as fresh:
            door = Door(api_app(fresh, Authenticator(fresh.tenancy)), seeds.door.headers)
            for route in sorted(routes, key=turn):
                await prepare(home.raven, seeds, route)
                body: Any = BODIES[route.name] if route.body is not None or route.raw else None
                headers = {"if-match": "*", "idempotency-key": _KEYS.get(route.name, f"loop-{route.name}")}
                loop_guard.activate()
                asked = "&".join(f"{each.name}=x" for each in route.query if each.required)
                path = seeds.path_of(route) + (f"?{asked}" if asked else "")
                reply = await door.ask(route.method, path, body, headers=headers)
                loop_guard.deactivate()
                is_refused = route.name in _REFUSED and reply.status in (400, 404, 409, 412)
                assert is_refused or reply.status == route.status, (route.name, reply.body)
