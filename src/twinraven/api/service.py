"""Assembles the REST API of a home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from twinraven.api.resources import (
    activity,
    approvals,
    calls,
    catalogue,
    chains,
    conversations,
    effects,
    entity_graph,
    evidence,
    goals,
    inbox,
    introspection,
    key_history,
    knowledge,
    learned,
    learning,
    memory,
    metrics,
    people,
    plans,
    processes,
    runs,
    search,
    secrets,
    server,
    services,
    settings,
    sign_ins,
    summaries,
    tasks,
    telemetry,
    templates,
    traces,
    upkeep,
    upstreams,
    wallets,
)
from twinraven.app import TwinRaven
from twinraven.serving import Authenticator, HttpApp, HttpMetrics, Route

_RESOURCES: Sequence[Route] = (
    *calls.ROUTES,
    *approvals.ROUTES,
    *inbox.ROUTES,
    *effects.ROUTES,
    *wallets.ROUTES,
    *traces.ROUTES,
    *processes.ROUTES,
    *plans.ROUTES,
    *runs.ROUTES,
    *goals.ROUTES,
    *tasks.ROUTES,
    *catalogue.ROUTES,
    *services.ROUTES,
    *templates.ROUTES,
    *memory.ROUTES,
    *activity.ROUTES,
    *telemetry.ROUTES,
    *chains.ROUTES,
    *conversations.ROUTES,
    *learning.ROUTES,
    *learned.ROUTES,
    *knowledge.ROUTES,
    *entity_graph.ROUTES,
    *summaries.ROUTES,
    *introspection.ROUTES,
    *metrics.ROUTES,
    *secrets.ROUTES,
    *evidence.ROUTES,
    *people.ROUTES,
    *sign_ins.ROUTES,
    *key_history.ROUTES,
    *upkeep.ROUTES,
    *upstreams.ROUTES,
    *search.ROUTES,
    *settings.ROUTES,
)


def api_app(raven: TwinRaven, authenticator: Authenticator) -> HttpApp:
    """Return the API as an ASGI application."""
    http_metrics = HttpMetrics()
    return HttpApp(raven, all_routes(http_metrics), authenticator, metrics=http_metrics, components=_components)


def _components() -> Mapping[str, Any]:
    """Return the schemas of all entities, which few requests need."""
    from twinraven.api.description import entity_components

    return entity_components()


def all_routes(http_metrics: HttpMetrics) -> Sequence[Route]:
    """Return every route there is."""
    document = cache(lambda: server.document_of(everything))
    everything = (*server.routes(http_metrics, document), *_RESOURCES)
    return everything
