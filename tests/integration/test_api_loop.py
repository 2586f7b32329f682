"""No route blocks the event loop: while one request waits for a disk, the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from blockbuster import BlockBuster

from tests.api_client import Door
from tests.api_homes import api_home, search, seed
from tests.api_samples import BODIES
from twinraven.api import all_routes, api_app
from twinraven.api.metrics import Metrics
from twinraven.app import open_home
from twinraven.serving import Doorkeeper


async def test_no_route_blocks_the_loop(tmp_path: Path, loop_guard: BlockBuster) -> None:
    """Whatever is asked, nothing waits for a disk on the loop."""
    loop_guard.deactivate()
    routes = all_routes(Metrics())
    async with api_home(tmp_path) as home:
        seeds = await seed(home.raven, await home.tenant("ada"), name="ada")
        # A process that has just started has read nothing of anybody yet.
        with open_home(home.raven.home, functions=[search]) as fresh:
            door = Door(api_app(fresh, Doorkeeper(fresh.tenancy)), seeds.door.headers)
            for route in sorted(routes, key=lambda each: each.method == "DELETE"):
                body: Any = BODIES[route.name] if route.body is not None else None
                headers = {"if-match": "*", "idempotency-key": f"loop-{route.name}"}
                loop_guard.activate()
                reply = await door.ask(route.method, seeds.path_of(route), body, headers=headers)
                loop_guard.deactivate()
                assert reply.status < 500, (route.name, reply.body)
