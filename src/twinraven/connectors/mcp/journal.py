"""Journals events of upstream servers: to the log for operators, and to the audit chain as evidence."""

from __future__ import annotations

import logging
from typing import Final

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.connectors.mcp.model import UpstreamEvent

_ALARMING: Final = ("down", "tools_quarantined", "tools_left_out")
_logger = logging.getLogger("twinraven.mcp")


class LogJournal:
    """Writes events to the log and nowhere else."""

    async def note(self, tenant_id: str, event: UpstreamEvent) -> None:
        del tenant_id
        level = logging.WARNING if event.kind in _ALARMING else logging.INFO
        _logger.log(level, "upstream server %r: %s: %s", event.server, event.kind.replace("_", " "), event.message)


class AuditJournal:
    """Writes each event to the log and to the tenant's audit chain."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._log = LogJournal()

    async def note(self, tenant_id: str, event: UpstreamEvent) -> None:
        await self._log.note(tenant_id, event)
        await self._audit.write(
            NewAuditEntry(
                tenant_id=tenant_id,
                event_type=f"upstream.{event.kind}",
                subject_type="upstream_server",
                subject_id=event.server,
                data=event.data,
                message=event.message,
            )
        )
