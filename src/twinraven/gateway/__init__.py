"""Serves the MCP gateway: any agent, any upstream server, no code changes.

A client that knows MCP starts `twinraven gateway` (or connects to it) instead of its servers, and finds their
tools there, beside Python tools and learned ones, and their prompts and resources. Every call goes through the one
path, so it is checked, judged, recorded and learned from. `Gateway` serves a home; everything heavy is loaded when it
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.gateway.client_files import ClientFile, read_client_file
    from twinraven.gateway.client_locations import find_client_files
    from twinraven.gateway.service import Gateway

__all__ = ["ClientFile", "Gateway", "find_client_files", "read_client_file"]


__getattr__ = lazy_names(__name__)
