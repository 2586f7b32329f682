"""What machines ask of the server itself: alive, ready, how busy, and what there is to ask."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import orjson

from twinraven.api.contract import Answer, JsonSchema, Request, Route
from twinraven.api.description import openapi_document
from twinraven.api.forms import form
from twinraven.api.metrics import MEDIA, Metrics
from twinraven.foundation.errors import StorageError, StorageUnavailable
from twinraven.storage import DEFAULT_TENANT

_logger = logging.getLogger("twinraven.api")
_STATUS: JsonSchema = form({"status": {"const": "ok"}})


async def alive(request: Request) -> Answer:
    del request
    return Answer({"status": "ok"})


async def ready(request: Request) -> Answer:
    """Whether work can be done: the database answers."""
    try:
        await request.raven.database.read(DEFAULT_TENANT, lambda tx: tx.fetch_one("SELECT 1 AS one"))
    except StorageError as error:
        # Anybody may ask; where the database is and what it said is for those who run it.
        _logger.warning("not ready: %s", error)
        raise StorageUnavailable("the store cannot be asked right now") from error
    return Answer({"status": "ok"})


async def measure(request: Request, *, metrics: Metrics) -> Answer:
    return Answer(metrics.text(waiting_events=request.raven.collector.waiting).encode(), media=MEDIA)


async def describe(request: Request, *, document: Callable[[], bytes]) -> Answer:
    del request
    return Answer(document())


def routes(metrics: Metrics, document: Callable[[], bytes]) -> Sequence[Route]:
    """These routes; they are answered without a key and tell nothing of any tenant."""
    return (
        Route("GET", "/healthz", "alive", "Whether the process is alive", alive, _STATUS, is_open=True),
        Route("GET", "/readyz", "ready", "Whether work can be done", ready, _STATUS, is_open=True),
        Route(
            "GET",
            "/metrics",
            "measure",
            "What this process did, as Prometheus text",
            partial(measure, metrics=metrics),
            {"type": "string"},
            is_open=True,
            media=MEDIA,
        ),
        Route(
            "GET",
            "/openapi.json",
            "describe",
            "This document",
            partial(describe, document=document),
            {"type": "object"},
            is_open=True,
        ),
    )


def document_of(routes: Sequence[Route]) -> bytes:
    """The OpenAPI document as bytes."""
    return orjson.dumps(openapi_document(routes))
