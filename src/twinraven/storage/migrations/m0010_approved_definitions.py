"""Adds the tool's definition to approvals, as it was when the approval was requested.

A request keeps the fingerprints of the tool and of everything inside it, so that an approval is for nothing that has
changed since. Requests from before say nothing of that and so answer for nothing any more: they are asked anew.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.run("ALTER TABLE approvals ADD COLUMN definition TEXT NOT NULL DEFAULT '{}'")
