"""Decodes a row of the log, or of its view, into an event."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import orjson

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.foundation.ids import read_uuid
from twinraven.muninn.model import EVENT_FIELDS, MuninnEvent, Outcome
from twinraven.storage import Row

_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "UUID": read_uuid,
    "bool": bool,
    "datetime": from_micros,
    "Outcome": Outcome,
    "list[str]": orjson.loads,
    "dict[str, Any]": partial(parse_json, field="input_params"),
}
_DECODED: Final = tuple((each.name, _DECODERS[each.kind]) for each in EVENT_FIELDS if each.kind in _DECODERS)


def to_event(row: Row) -> MuninnEvent:
    """Return a row of the view as an event."""
    values = dict(row)
    for name, decode in _DECODED:
        if values[name] is not None:
            values[name] = decode(values[name])
    return MuninnEvent(**values)
