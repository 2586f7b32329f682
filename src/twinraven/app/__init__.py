"""The only wiring: a home folder and its settings become a running TwinRaven.

Every door (command line, gateway, API, demo, tests) opens the same object and finds the same parts on it. One file per
group of parts says how each is made and from what (`core`, `memory`, `catalogue`, `calling`, `learning`); `home` names
them, one line each. Parts are made on first use, so that a command which only lists sessions pays for nothing else.
"""

from __future__ import annotations

from twinraven.app.home import TwinRaven, open_home

__all__ = ["TwinRaven", "open_home"]
