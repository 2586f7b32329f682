"""Memory: what is recorded, imported, read and pruned."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from twinraven.app.ground import Ground

if TYPE_CHECKING:
    from twinraven.muninn import Collector, EncodingRules, EventStore, Importer, Retention, SpanReceiver


class Memory(Ground):
    """Muninn's parts."""

    @cached_property
    def events(self) -> EventStore:
        from twinraven.muninn import SqlEventStore

        return SqlEventStore(self.database)

    @cached_property
    def collector(self) -> Collector:
        from twinraven.muninn import Collector

        return Collector(
            self.database,
            rules=self._rules,
            redact=self.redactor.redact,
            redact_names=self.redactor.redact_known,
            queue_size=self.settings.muninn.queue_size,
            micros=self._micros,
        )

    @cached_property
    def importer(self) -> Importer:
        from twinraven.muninn import Importer

        clean = self.redactor
        return Importer(self.database, rules=self._rules, redact=clean.redact, redact_names=clean.redact_known)

    @cached_property
    def spans(self) -> SpanReceiver:
        from twinraven.muninn import SpanReceiver

        clean = self.redactor
        return SpanReceiver(self.database, rules=self._rules, redact=clean.redact, redact_names=clean.redact_known)

    @cached_property
    def retention(self) -> Retention:
        from twinraven.muninn import Retention, RingSigner

        return Retention(self.database, audit=self.audit, signer=RingSigner(self.signing_keys))

    @property
    def _rules(self) -> EncodingRules:
        from twinraven.muninn import EncodingRules

        muninn = self.settings.muninn
        return EncodingRules(
            store_outputs=muninn.store_outputs,
            summary_chars=0 if muninn.summaries == "off" else muninn.summary_chars,
        )
