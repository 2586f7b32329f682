"""The only wiring: a home folder and its settings become a running TwinRaven.

Every door (command line, gateway, API, demo, tests) opens the same object and finds the same parts on it. It is built
in storeys, each of which knows only those below: keys and evidence, memory, calling, learning. Parts are made on first
use, so that a command which only lists sessions pays for nothing else.
"""

from __future__ import annotations

from twinraven.app.home import TwinRaven, open_home

__all__ = ["TwinRaven", "open_home"]
