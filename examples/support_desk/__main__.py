"""`python -m examples.support_desk [FOLDER]`: the whole story in a minute, embedded, with no server and no key."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from pathlib import Path

from examples.support_desk.show import Show

parser = ArgumentParser(
    "python -m examples.support_desk", description="A support desk at work, remembered and learned from."
)
parser.add_argument(
    "folder", nargs="?", type=Path, default=Path("demo-output"), help="made anew (default: %(default)s)"
)
asyncio.run(Show(parser.parse_args().folder).run())
