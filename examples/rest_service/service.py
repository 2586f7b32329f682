"""A REST service such as you may have, with an OpenAPI description: customers and their invoices.

python service.py [PORT]
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT = 8799


def _operation(name: str, parameter: str, summary: str) -> dict[str, Any]:
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "parameters": [{"name": parameter, "in": "path", "required": True, "schema": {"type": "string"}}],
            "responses": {"200": {"description": summary, "content": {"application/json": {}}}},
        }
    }


def description(port: int) -> dict[str, Any]:
    """The OpenAPI description of this service."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "billing", "version": "1"},
        "servers": [{"url": f"http://127.0.0.1:{port}"}],
        "paths": {
            "/customers/{mail}": _operation("find_customer", "mail", "A customer by e-mail"),
            "/customers/{id}/invoices": _operation("list_invoices", "id", "The invoices of a customer"),
            "/invoices/{id}": _operation("get_invoice", "id", "One invoice"),
        },
    }


def answer(path: str, port: int) -> dict[str, Any]:
    """What a path gives."""
    match path.strip("/").split("/"):
        case ["openapi.json"]:
            return description(port)
        case ["customers", customer, "invoices"]:
            return {"invoices": [f"{customer}-1", f"{customer}-2"]}
        case ["customers", mail]:
            return {"id": "C-" + mail.replace("%40", "@").partition("@")[0]}
        case ["invoices", invoice]:
            return {"id": invoice, "total": sum(invoice.encode())}
        case _:
            return {"error": "not found"}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(answer(self.path, int(self.headers["Host"].rpartition(":")[2]))).encode()
        self.send_response(404 if b'"error"' in body else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else PORT), _Handler) as served:
        print(f"serving on http://127.0.0.1:{served.server_address[1]}/openapi.json", flush=True)
        served.serve_forever()
