"""Opens the model port: the configured model as a tool of the call path, and its callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.app.calling import calls
from twinraven.app.catalogue import model_tool
from twinraven.app.parts import Home, Part

if TYPE_CHECKING:
    from twinraven.models import Models


@Part
def models(home: Home) -> Models:
    """Open the model port."""
    from twinraven.models import Models

    return Models(lambda: calls(home), model_tool(home))
