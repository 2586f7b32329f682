"""Defines the errors of providers: refused, unreachable, or without an answer."""

from __future__ import annotations

from twinraven.foundation.errors import ToolError, ToolUnavailable


class ProviderRefused(ToolError):
    """The provider said no: the effect did not happen, and asking again would not change that."""

    code = "PROVIDER_REFUSED"


class ProviderUnreachable(ToolUnavailable):
    """Nothing was sent, so it can be sent later."""

    code = "PROVIDER_UNREACHABLE"


class ProviderSilent(ToolError):
    """It was sent and not answered: it may have happened."""

    code = "PROVIDER_SILENT"
