#!/bin/sh
# Makes .venv hold what a lock names, and the project itself, editable: `setup.sh [LOCK]`.
#
# requirements.lock is everything a developer needs, requirements-run.lock what the project needs to run (`make demo`). An
# environment made for the second is completed by the first; one that has everything is not touched for the second.
# Needs a Python of at least 3.11 and nothing else; uses uv where it is installed, because it is faster. A stamp inside
# .venv remembers what was installed, so that every other target can call this first and pay nothing. Talks on stderr
# only: what a target prints belongs to that target.
set -eu
exec >&2
cd "$(dirname "$0")/.."

everything=requirements.lock
lock=${1:-$everything}
venv=.venv
stamp=$venv/.installed

fail() {
    echo "setup: $*" >&2
    exit 1
}

wanted() {
    echo "$PWD"
    cksum "$1" pyproject.toml tools/setup.sh
}

holds() {
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted "$1")" ] && [ -x "$venv/bin/twinraven" ]
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
    uv pip install --require-hashes -r "$lock" &&
        uv pip install --quiet --no-deps --no-build-isolation -e .
}

install_with_pip() {
    if [ -f "$venv/.outer-python" ]; then
        set -- "$(cat "$venv/.outer-python")" -m pip --python "$venv/bin/python"
    else
        set -- "$venv/bin/python" -m pip
    fi
    set -- "$@" --disable-pip-version-check install --no-compile --progress-bar off --root-user-action=ignore
    rm -f "$venv/.complete"
    # A pipe ends like its last command; the file says that the first one succeeded.
    { "$@" --require-hashes -r "$lock" 2>&1 && : >"$venv/.complete"; } | show_progress
    [ -f "$venv/.complete" ] || fail "pip could not install what $lock names; its message is above"
    "$@" --quiet --quiet --no-deps --no-build-isolation -e .
}

# Turns pip's lines into at most a dozen, each when it happens; from its first error on they are shown as they are.
show_progress() {
    count=0
    total=$(grep -c '==' "$lock")
    step=$((total / 10 + 1))
    failed=
    while read -r line; do
        case $failed$line in
        Collecting* | Processing* | Requirement* | Ignoring*)
            count=$((count + 1))
            [ $((count % step)) -ne 0 ] || echo "setup: fetched $count of $total"
            ;;
        Installing*) echo "setup: unpacking them" ;;
        ERROR* | failed*)
            failed=failed:
            echo "$line"
            ;;
        esac
    done
}

if holds "$everything" || holds "$lock"; then
    exit 0
fi
# An environment that was copied here with its folder still points at the old place.
if ! new_enough "$venv/bin/python" || { [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" != "$PWD" ]; }; then
    make_venv
fi
echo "setup: installing the $(grep -c '==' "$lock") packages of $lock"
install_with_uv || install_with_pip
wanted "$lock" >"$stamp"
echo "setup: done; the command is $venv/bin/twinraven"
