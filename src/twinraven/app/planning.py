"""Opens plans: their memory, the tools that offer them, and the kernel that workers run."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, cast

from twinraven.app.foundations import database, redactor
from twinraven.app.parts import Home, Part

if TYPE_CHECKING:
    from twinraven.catalog import Catalog
    from twinraven.engine import Program, Runs
    from twinraven.models import Models
    from twinraven.plans import Memory, Plans, PlanTools


class _PlanningHome(Protocol):
    """A home with what plans are made of, which is built on the call path."""

    @property
    def runs(self) -> Runs: ...

    @property
    def models(self) -> Models: ...

    @property
    def catalog(self) -> Catalog: ...

    def working(self) -> AbstractAsyncContextManager[Any]: ...


@Part
def memory(home: Home) -> Memory:
    """Values that steps of plans remember by key."""
    from twinraven.plans import Memory

    return Memory(database(home), redact=redactor(home).redact, micros=home.micros)


@Part
def plans(home: Home) -> Plans:
    """Plans, which are durable runs."""
    from twinraven.plans import Plans

    whole = cast("_PlanningHome", home)
    return Plans(lambda: whole.runs, lambda: whole.models, lambda: whole.catalog, ttl=home.settings.plans.ttl)


@Part
def plan_tools(home: Home) -> PlanTools:
    """Plans and their memory as tools."""
    from twinraven.plans import PlanTools

    offered = home.settings.plans.offer_tool and home.settings.model.name is not None
    return PlanTools(
        memory(home),
        lambda: plans(home),
        lambda: cast("_PlanningHome", home).working(),
        offers_plans=offered,
    )


def programs() -> dict[str, Program]:
    """Open the programs that workers run besides flows."""
    from functools import partial

    from twinraven.plans import MEMORY_TOOLS, run_plan

    return {"plan": partial(run_plan, extra=MEMORY_TOOLS)}
