"""Opens metrics, with the figures of the system itself among them.

How these are measured stands in `system_figures`, which is imported when metrics are used: most commands use none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinraven.app.foundations import audit, database
from twinraven.app.parts import Home, Part
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.engine import RunEnd
    from twinraven.metrics import CollectedMeasurements, Metrics, Scope


@Part
def metrics(home: Home) -> Metrics:
    """Open metrics."""
    from twinraven.app.system_figures import OWN, entity_exists, measure_calls
    from twinraven.metrics import Metrics

    async def exists(tenant_id: str, scope: Scope, entity_id: str) -> bool:
        return await entity_exists(home, tenant_id, scope, entity_id)

    async def calls(tenant_id: str, begin: int) -> CollectedMeasurements:
        return await measure_calls(home, tenant_id, begin)

    return Metrics(
        database(home), exists=exists, audit=audit(home), sources={"calls": calls}, own=OWN, micros=home.micros
    )


def measure_runs(home: Home, tx: Transaction, ends: Sequence[RunEnd]) -> None:
    """Append how long runs of a tenant took, with their end."""
    from twinraven.app.system_figures import run_figures

    figures = run_figures(home, tx, ends)
    if figures:
        metrics(home).append_in(tx, ends[0].tenant_id, figures)
