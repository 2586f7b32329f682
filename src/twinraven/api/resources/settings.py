"""The settings that are in force, and where each was set."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import form
from twinraven.foundation.settings import settings_as_rows
from twinraven.serving import Request, Response, Route, RouteTable

ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/settings",
        "showSettings",
        "Every setting, its value and where it was set",
        form(
            {
                "items": {
                    "type": "array",
                    "items": form({"name": {"type": "string"}, "value": {}, "source": {"type": "string"}}),
                }
            }
        ),
        admin=True,
        note="Passwords in addresses are masked. Rules are in GET /v1/policy.",
    )
)
async def show_settings(request: Request) -> Response:
    rows = settings_as_rows(request.raven.settings)
    return Response({"items": [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows]})
