"""Holds the static files in memory, packed, under names that hold their hash, so that browsers keep them for ever.

The style sheet is written in several files and served as one; where it names a font, it names the hashed address.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".woff2": "font/woff2",
    ".svg": "image/svg+xml",
}
_SHEETS: Final = ("frame.css", "parts.css", "pages.css", "pictures.css", "phone.css")
_SHEET: Final = "console.css"
_AT: Final = "/console/static/"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file as it is sent."""

    body: bytes
    packed: bytes | None
    media: str
    mark: str


class StaticFiles:
    """Every static file, by its name."""

    def __init__(self) -> None:
        self._files: dict[str, StaticFile] = {}
        for path in sorted(_FOLDER.iterdir()):
            if path.suffix in _TYPES and path.name not in _SHEETS:
                self._add(path.name, path.read_bytes())
        sheet = b"\n".join((_FOLDER / name).read_bytes() for name in _SHEETS)
        for name in list(self._files):
            sheet = sheet.replace(f"url({name})".encode(), f"url({self.address(name)})".encode())
        self._add(_SHEET, sheet)

    def _add(self, name: str, body: bytes) -> None:
        suffix = Path(name).suffix
        packed = None if suffix == ".woff2" else gzip.compress(body, 9, mtime=0)
        self._files[name] = StaticFile(body, packed, _TYPES[suffix], hashlib.sha256(body).hexdigest()[:12])

    def address(self, name: str) -> str:
        """Return the URL of a file, with the hash of its content."""
        return f"{_AT}{self._files[name].mark}/{name}"

    def find(self, mark: str, name: str) -> StaticFile | None:
        found = self._files.get(name)
        return found if found is not None and found.mark == mark else None
