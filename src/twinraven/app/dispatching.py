"""Opens the dispatcher and the journals of durable runs; approvals wake runs, so it stands below the call path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.app.foundations import database, redactor, tenant_keys
from twinraven.app.parts import Home, Part
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.calls import Approval
    from twinraven.engine import EmbeddedDispatcher, JournalKit, WaitStore


@Part
def dispatcher(home: Home) -> EmbeddedDispatcher:
    from twinraven.engine import EmbeddedDispatcher

    return EmbeddedDispatcher(database(home), micros=home.micros)


@Part
def journal_kit(home: Home) -> JournalKit:
    """Open the dependencies of run journals."""
    from twinraven.engine import JournalKit
    from twinraven.vault import TenantSeals

    seals = TenantSeals(tenant_keys(home), "runs")
    return JournalKit(dispatcher(home), seals, redactor(home).redact, home.micros)


@Part
def run_waits(home: Home) -> WaitStore:
    from twinraven.engine import WaitStore

    return WaitStore(journal_kit(home).seals)


def wake_approved(home: Home, tx: Transaction, approval: Approval) -> None:
    """Wake the runs that waited for a decision; nothing of the engine is loaded before there is one."""
    from twinraven.engine import wake_approved as wake

    wake(dispatcher(home), run_waits(home), tx, approval, now=home.micros())
