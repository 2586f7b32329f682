"""What connectors cost those who do not use them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from twinraven.connectors.extras import require
from twinraven.foundation.errors import InvalidSetting

HEAVY = ("httpcore2", "anyio", "neo4j", "jsonschema_rs", "yaml", "pydantic")


def test_a_missing_library_is_named_with_its_remedy() -> None:
    """Whoever lacks an extra hears which."""
    with pytest.raises(InvalidSetting, match="no_such_library") as refusal:
        require("no_such_library", "graph")
    assert refusal.value.details["fix"] == "pip install 'twinraven[graph]'"


def test_importing_connectors_loads_no_driver() -> None:
    """The facade and the Python connector cost no HTTP and no Bolt."""
    code = f"import sys, twinraven.connectors as c; c.PythonConnector; print([m for m in {HEAVY} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
