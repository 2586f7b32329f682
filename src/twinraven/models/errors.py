"""Defines the error of a model that is not configured.

ToolUnavailable
└── ModelNotConfigured      MODEL_NOT_CONFIGURED    the settings name no model
"""

from __future__ import annotations

from twinraven.foundation.errors import ToolUnavailable


class ModelNotConfigured(ToolUnavailable):
    """Not retryable: until somebody changes the settings, asking again changes nothing."""

    code = "MODEL_NOT_CONFIGURED"
    acts = "operator"
    retryable = False

    def __init__(self, message: str = "no model is configured, so nobody can be asked", **details: object) -> None:
        super().__init__(
            message,
            fix="set model.name (and model.url, model.secret) in twinraven.yaml; see docs/models.md",
            **details,
        )
