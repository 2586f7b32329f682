"""Writes gateway.json, a client's file with the gateway in the place of its servers, from what `gateway init` says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

change = json.load(sys.stdin)["change"]
Path("gateway.json").write_text(json.dumps(json.loads(f"{{{change}}}"), indent=2) + "\n")
