"""Opens Muninn's parts: recording, import, reading and retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.app.foundations import audit, changes, database, redactor, signing_keys
from twinraven.app.parts import Home, Part
from twinraven.foundation.errors import InvalidSetting

if TYPE_CHECKING:
    from twinraven.app.summaries import ModelSummaries
    from twinraven.muninn import (
        Collector,
        EncodingRules,
        EventStore,
        EventTail,
        Importer,
        Retention,
        SpanReceiver,
        SqlActivity,
    )


@Part
def events(home: Home) -> EventStore:
    from twinraven.muninn import SqlEventStore

    return SqlEventStore(database(home), micros=home.micros)


@Part
def activity(home: Home) -> SqlActivity:
    """Open the aggregates of the event log."""
    from twinraven.muninn import SqlActivity

    return SqlActivity(database(home))


@Part
def tail(home: Home) -> EventTail:
    """New events, read once for all who follow them."""
    from twinraven.muninn import EventTail

    return EventTail(events(home), changes(home))


@Part
def summaries(home: Home) -> ModelSummaries | None:
    """Open the model that summarises outputs, where the settings name one."""
    if home.settings.muninn.summaries != "model":
        return None
    from twinraven.app.catalogue import model_client
    from twinraven.app.summaries import ModelSummaries

    client = model_client(home)
    if client is None:
        raise InvalidSetting(
            "muninn.summaries is model, and model.name names none",
            field="muninn.summaries",
            fix="set model.name, or muninn.summaries to deterministic",
        )
    return ModelSummaries(client, redactor(home).redact)


@Part
def collector(home: Home) -> Collector:
    from twinraven.muninn import Collector

    clean, asked = redactor(home), summaries(home)
    return Collector(
        database(home),
        rules=_rules(home),
        redact=clean.redact,
        redact_names=clean.redact_known,
        compress=None if asked is None else asked.compress,
        queue_size=home.settings.muninn.queue_size,
        micros=home.micros,
    )


@Part
def importer(home: Home) -> Importer:
    from twinraven.muninn import Importer

    clean = redactor(home)
    return Importer(database(home), rules=_rules(home), redact=clean.redact, redact_names=clean.redact_known)


@Part
def spans(home: Home) -> SpanReceiver:
    from twinraven.muninn import SpanReceiver

    clean = redactor(home)
    return SpanReceiver(database(home), rules=_rules(home), redact=clean.redact, redact_names=clean.redact_known)


@Part
def retention(home: Home) -> Retention:
    from twinraven.muninn import Retention, RingSigner

    return Retention(database(home), audit=audit(home), signer=RingSigner(signing_keys(home)))


def _rules(home: Home) -> EncodingRules:
    from twinraven.muninn import EncodingRules

    muninn = home.settings.muninn
    return EncodingRules(
        store_outputs=muninn.store_outputs,
        summary_chars=0 if muninn.summaries == "off" else muninn.summary_chars,
    )
