"""Draws pictures as SVG: columns, waterfalls, wiring, graphs, trees, strips.

Pure functions from data to markup. A picture has classes and no styles, so that the page's own sheet gives light and
dark and the content policy holds; it names itself for readers who cannot see it, and what can be opened is a link.
"""

from __future__ import annotations
