"""A home's REST API, put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from twinraven.api.contract import Route
from twinraven.api.dispatch import ApiApp
from twinraven.api.metrics import Metrics
from twinraven.api.resources import (
    approvals,
    calls,
    catalogue,
    chains,
    evidence,
    learned,
    learning,
    memory,
    people,
    secrets,
    server,
    services,
    telemetry,
    templates,
)
from twinraven.app import TwinRaven
from twinraven.serving import Doorkeeper

_RESOURCES: Sequence[Route] = (
    *calls.ROUTES,
    *approvals.ROUTES,
    *catalogue.ROUTES,
    *services.ROUTES,
    *templates.ROUTES,
    *memory.ROUTES,
    *telemetry.ROUTES,
    *chains.ROUTES,
    *learning.ROUTES,
    *learned.ROUTES,
    *secrets.ROUTES,
    *evidence.ROUTES,
    *people.ROUTES,
)


def api_app(raven: TwinRaven, doorkeeper: Doorkeeper) -> ApiApp:
    """The API as an ASGI application."""
    metrics = Metrics()
    return ApiApp(raven, all_routes(metrics), doorkeeper, metrics=metrics)


def all_routes(metrics: Metrics) -> Sequence[Route]:
    """Every route there is."""
    document = cache(lambda: server.document_of(everything))
    everything = (*server.routes(metrics, document), *_RESOURCES)
    return everything
