"""`python -m examples.governed_campaign [FOLDER]`: the whole story, offline and embedded, with no server and no key."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from examples.governed_campaign.story import Story

asyncio.run(Story(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-governed-output")).run())
