"""Serves the console: pages in a browser that show what a home remembers, learned and runs, and take decisions.

The console is a client of the REST API and of nothing else. It asks `/v1` in process, on behalf of whoever is signed
in, so nothing can be shown or done here that the API would refuse. Pages are rendered here (Jinja2); every picture is
SVG drawn in Python; htmx, idiomorph and a small script of our own make them live, and all but that works without.

Above stands `twinraven up`, which mounts the application under `/console/`; below, `serving`, which says who a caller
is.

Names are resolved on first use: the drawings need no server and no template library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.console.app import Console, console_app, home_page

__all__ = ["Console", "console_app", "home_page"]


__getattr__ = lazy_names(__name__)
