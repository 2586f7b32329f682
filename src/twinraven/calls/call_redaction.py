"""Redacts the record of a call: fields that the tool's schemas mark as secret, and every echo of them.

The tool gets the true values and the caller the true answer. Events, evidence and kept answers show tokens in place of
marked fields, and in place of their echoes: an output that gives a password back, an error that quotes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinraven.calls.ports import SecretRedaction
from twinraven.catalog import ToolEntry
from twinraven.foundation.canonical import canonical_json, parse_json, to_json_value
from twinraven.foundation.errors import TwinRavenError
from twinraven.muninn import encode_params


class CallRedaction:
    """Redacts one call for the record; made only for calls whose schemas mark something as secret."""

    def __init__(self, concealment: SecretRedaction, tenant_id: str, entry: ToolEntry) -> None:
        self._concealment = concealment
        self._tenant_id = tenant_id
        self._entry = entry
        self._echoes: Callable[[bytes], bytes] | None = None

    def params(self, params: dict[str, Any]) -> bytes:
        """Return the arguments as they may be recorded."""
        marked = self._concealment.redact_marked(self._tenant_id, self._entry.input_schema, params)
        return self._without_echoes(params, encode_params(marked))

    def output(self, params: dict[str, Any], output: Any, encoded: bytes) -> bytes:
        """Return the output as it may be recorded."""
        schema = self._entry.output_schema
        if schema is not None and self._concealment.has_marks(schema):
            encoded = canonical_json(self._concealment.redact_marked(self._tenant_id, schema, output))
        return self._without_echoes(params, encoded)

    def error(self, params: dict[str, Any], error: TwinRavenError) -> TwinRavenError:
        """Return the error as it may be recorded."""
        return restated(error, self._without_echoes(params, error_text(error)))

    def text(self, params: dict[str, Any], text: str) -> str:
        """Redact a text that came beside the call, such as a log message."""
        return self._without_echoes(params, text.encode()).decode("utf-8", "replace")

    def _without_echoes(self, params: dict[str, Any], text: bytes) -> bytes:
        # Not before the first use: only then are the arguments complete, and a matcher is no small thing to build.
        if self._echoes is None:
            self._echoes = self._concealment.echoes(self._tenant_id, self._entry.input_schema, params)
        return self._echoes(text)


def error_text(error: TwinRavenError) -> bytes:
    """Encode an error as JSON, to be searched for secrets."""
    return canonical_json(to_json_value(error.as_json()))


def restated(error: TwinRavenError, text: bytes) -> TwinRavenError:
    """Return the same error in other words: its code and its nature are the original's."""
    said = parse_json(text, field="error")
    if said["message"] == error.message and said["details"] == error.details:
        return error
    other = TwinRavenError(said["message"])
    other.code, other.acts, other.retryable, other.details = error.code, error.acts, error.retryable, said["details"]
    return other
