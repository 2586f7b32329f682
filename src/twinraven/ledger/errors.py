"""Defines the error of an overdrawn account."""

from __future__ import annotations

from twinraven.foundation.errors import Conflict


class LedgerOverdrawn(Conflict):
    """An account does not hold what was to be taken from it; nothing moved."""

    code = "LEDGER_OVERDRAWN"
