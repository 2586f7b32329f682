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
compile() {
    uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links "$@" >/dev/null
}
compile --all-extras --group dev --output-file requirements.lock "$@"
# What `make demo` installs: the same versions, of what the project needs to be built and run.
compile --group build --no-annotate --constraints requirements.lock --output-file requirements-run.lock
for lock in requirements.lock requirements-run.lock; do
    echo "lock: $(grep -c '==' "$lock") packages in $lock"
done
