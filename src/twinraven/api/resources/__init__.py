"""The routes, one file for each kind of thing."""

from __future__ import annotations
