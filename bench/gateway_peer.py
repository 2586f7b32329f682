"""The fastmcp proxy in front of one stdio server, run by the Python of its own environment.

Usage: gateway_peer.py COMMAND ARGUMENT...
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def main(words: list[str]) -> None:
    peer: Any = import_module("fastmcp.server")
    proxy = peer.create_proxy({"mcpServers": {"desk": {"command": words[0], "args": words[1:]}}})
    proxy.run(transport="stdio", show_banner=False, log_level="ERROR")


if __name__ == "__main__":
    main(sys.argv[1:])
