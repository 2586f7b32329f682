"""`python -m twinraven.demo [FOLDER]`: the whole story in a minute, embedded, with no server and no key."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from twinraven.demo.show import Show

asyncio.run(Show(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output")).run())
