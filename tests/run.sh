#!/usr/bin/env bash
# The tests, on a fresh clone too: makes the environment if needed. Arguments go to pytest, e.g. bash tests/run.sh tests/test_math.py
# A worker a core, eight at most; with -n 0 or --pdb all in one process.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(bash run_all.sh --python)
if ! "$python" -c 'import pytest, xdist' 2>/dev/null; then
    # they never go into a Python that is not ours: a .venv that sees its packages takes them
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    "$python" -c 'import site; print(*site.getsitepackages(), sep="\n")' >"$(echo .venv/lib/python3*/site-packages)/outer.pth"
    python=.venv/bin/python
    "$python" -m pip install --quiet --disable-pip-version-check pytest==9.2.0 pytest-xdist==3.8.0
fi
export OMP_NUM_THREADS=1 # the models of the tests are tiny: sharing their work between cores only costs
exec "$python" -m pytest -c tests/pytest.ini -n logical --maxprocesses 8 --dist worksteal "$@"
