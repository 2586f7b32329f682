#!/bin/sh
# Builds the docs site from the Markdown in docs/, with mkdocs-material in an environment of its own, because its packages
# are no part of the lock. `make docs ARGS=--serve` shows it on port 8000 while you write.
set -eu
cd "$(dirname "$0")/.."
venv=.cache/docs-venv
export NO_MKDOCS_2_WARNING=1
if [ ! -x "$venv/bin/mkdocs" ]; then
    echo "docs: installing mkdocs-material into $venv" >&2
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --clear "$venv"
        VIRTUAL_ENV="$PWD/$venv" uv pip install --quiet --group docs
    else
        .venv/bin/python -m venv --clear "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore 'mkdocs-material>=9.6,<10'
    fi
fi
if [ "${1:-}" = --serve ]; then
    exec "$venv/bin/mkdocs" serve --config-file tools/mkdocs.yml
fi
"$venv/bin/mkdocs" build --quiet --strict --config-file tools/mkdocs.yml
echo "docs: build/site/index.html"
