"""How each kind of service is spoken to; every connector satisfies the port that `calls` owns."""

from __future__ import annotations

from twinraven.connectors.python import PythonConnector

__all__ = ["PythonConnector"]
