#!/bin/sh
# Solves pyproject.toml into requirements.lock: every version and hash, for every platform, and no address of any index,
# so that the lock means the same on every machine. Without arguments, what is locked stays where it can;
# `make lock ARGS=--upgrade` takes the newest.
set -eu
cd "$(dirname "$0")/.."
command -v uv >/dev/null 2>&1 || {
    echo "lock: needs uv; install it with: pip install uv" >&2
    exit 1
}
export UV_PYTHON_DOWNLOADS=never
export UV_CUSTOM_COMPILE_COMMAND="make lock"
uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --all-extras --group dev \
    --generate-hashes --no-emit-index-url --no-emit-find-links --output-file requirements.lock "$@" >/dev/null
echo "lock: $(grep -c '==' requirements.lock) packages in requirements.lock"
