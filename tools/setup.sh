#!/bin/sh
# Makes .venv hold exactly what requirements.lock names, and the project itself, editable.
#
# Needs a Python of at least 3.11 and nothing else; uses uv where it is installed, because it is faster. A stamp inside
# .venv remembers what was installed, so that every other target can call this first and pay nothing. Talks on stderr
# only: what a target prints belongs to that target.
set -eu
exec >&2
cd "$(dirname "$0")/.."

lock=requirements.lock
venv=.venv
stamp=$venv/.installed

fail() {
    echo "setup: $*" >&2
    exit 1
}

wanted() {
    echo "$PWD"
    cksum "$lock" pyproject.toml tools/setup.sh
}

new_enough() {
    "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if command -v "$candidate" >/dev/null 2>&1 && new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer found (tried ${PYTHON:-python3, python3.14 … python3.11, python});" \
        "install one, or name it: make setup PYTHON=/path/to/python3.11"
}

make_venv() {
    python=$(find_python) || exit 1
    echo "setup: creating $venv with $("$python" --version)"
    rm -rf "$venv"
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv "$venv"
    elif command -v uv >/dev/null 2>&1 || "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m venv --without-pip "$venv"
        echo "$python" >"$venv/.outer-python"
    else
        fail "$python has neither ensurepip nor pip; install your system's python3-venv package, or uv"
    fi
}

install_with_uv() {
    command -v uv >/dev/null 2>&1 || return 1
    export UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV="$PWD/$venv"
    uv pip install --quiet --require-hashes -r "$lock" &&
        uv pip install --quiet --no-deps --no-build-isolation -e .
}

install_with_pip() {
    if [ -f "$venv/.outer-python" ]; then
        set -- "$(cat "$venv/.outer-python")" -m pip --python "$venv/bin/python"
    else
        set -- "$venv/bin/python" -m pip
    fi
    set -- "$@" --disable-pip-version-check install --quiet --quiet --root-user-action=ignore
    "$@" --require-hashes -r "$lock"
    "$@" --no-deps --no-build-isolation -e .
}

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted)" ] && [ -x "$venv/bin/twinraven" ]; then
    exit 0
fi
# An environment that was copied here with its folder still points at the old place.
if ! new_enough "$venv/bin/python" || { [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" != "$PWD" ]; }; then
    make_venv
fi
echo "setup: installing what $lock names"
install_with_uv || install_with_pip
wanted >"$stamp"
echo "setup: done; the command is $venv/bin/twinraven"
