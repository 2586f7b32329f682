"""Serves a graph over Bolt by ArcadeDB: `arcadedb_server.py FOLDER PASSWORD KEYSTORE`."""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack
from importlib import import_module
from typing import Any


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def main() -> None:
    folder, password, keystore = sys.argv[1:]
    arcadedb: Any = import_module("arcadedb_embedded")  # it lives in an environment of its own
    bolt_port, http_port = free_ports(2)
    server = arcadedb.ArcadeDBServer(
        root_path=folder,
        root_password=password,
        config={
            "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
            "bolt_port": bolt_port,
            "http_port": http_port,
            "bolt_ssl": "OPTIONAL",
            "ssl_keyStore": keystore,
            "ssl_keyStorePassword": password,
            "ssl_trustStore": keystore,
            "ssl_trustStorePassword": password,
        },
    )
    server.start()
    server.create_database("graph")
    print(f"\nready {bolt_port}", flush=True)  # noqa: T201 - it is how the caller learns the port
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
