"""`python -m examples.support_desk [FOLDER]`: the whole story in a minute, embedded, with no server and no key."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from examples.support_desk.show import Show

asyncio.run(Show(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output")).run())
