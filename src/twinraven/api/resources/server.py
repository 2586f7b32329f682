"""Serves liveness, readiness, Prometheus metrics and the OpenAPI document."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import orjson

from twinraven.api.description import openapi_document
from twinraven.api.schemas import form
from twinraven.foundation.errors import StorageError, StorageUnavailable
from twinraven.serving import MEDIA, HttpMetrics, JsonSchema, Request, Response, Route, RouteTable
from twinraven.storage import DEFAULT_TENANT

_logger = logging.getLogger("twinraven.api")
_STATUS: JsonSchema = form({"status": {"const": "ok"}})


async def alive(request: Request) -> Response:
    del request
    return Response({"status": "ok"})


async def ready(request: Request) -> Response:
    """Return whether work can be done: the database answers."""
    try:
        await request.raven.database.read(DEFAULT_TENANT, lambda tx: tx.fetch_one("SELECT 1 AS one"))
    except StorageError as error:
        # Anybody may ask; where the database is and what it said is for those who run it.
        _logger.warning("not ready: %s", error)
        raise StorageUnavailable("the store cannot be asked right now") from error
    return Response({"status": "ok"})


async def measure(request: Request, *, metrics: HttpMetrics) -> Response:
    return Response(metrics.text(waiting_events=request.raven.collector.waiting).encode(), media=MEDIA)


async def describe(request: Request, *, document: Callable[[], bytes]) -> Response:
    del request
    return Response(document())


def routes(metrics: HttpMetrics, document: Callable[[], bytes]) -> RouteTable:
    """These routes; they are answered without a key and tell nothing of any tenant."""
    table = RouteTable()
    for path, name, summary, handler in (
        ("/healthz", "alive", "Whether the process is alive", alive),
        ("/readyz", "ready", "Whether work can be done", ready),
    ):
        table.handles(Route("GET", path, name, summary, _STATUS, is_open=True))(handler)
    summary = "What this process did, as Prometheus text"
    measured = Route("GET", "/metrics", "measure", summary, {"type": "string"}, is_open=True, media=MEDIA)
    table.handles(measured)(partial(measure, metrics=metrics))
    described = Route("GET", "/openapi.json", "describe", "This document", {"type": "object"}, is_open=True)
    table.handles(described)(partial(describe, document=document))
    return table


def document_of(routes: Sequence[Route]) -> bytes:
    """Return the OpenAPI document as bytes."""
    return orjson.dumps(openapi_document(routes))
