#!/bin/sh
# Branch coverage of what moves money and lets effects out, by the tests of these packages alone; fails below 100 %.
set -eu
python=$1
"$python" -m pip install --quiet 'coverage>=7.10' || uv pip install --quiet --python "$python" 'coverage>=7.10'
mkdir -p .cache/coverage
"$python" -m coverage erase
"$python" -m coverage run -m pytest -q -p no:cacheprovider \
    tests/contract/test_ledger.py tests/contract/test_effect*.py tests/contract/test_governed_*.py \
    tests/contract/test_inbox.py tests/contract/test_trace.py tests/integration/test_effect_providers.py \
    tests/unit/effects tests/unit/governance
"$python" -m coverage combine --quiet
"$python" -m coverage report
