#!/usr/bin/env bash
# Run the tests; on a fresh clone this makes the environment first. Arguments go to pytest, for example
#   bash tests/run.sh tests/test_math.py
# The tests run in one process a core, eight at most; with -n 0 or --pdb in a single process.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(bash run_all.sh --python)
if ! "$python" -c 'import pytest, xdist' 2>/dev/null; then
    # pytest is never installed into a Python that is not ours, but into a .venv that sees its packages
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    packages=$("$python" -c 'import site; print(*site.getsitepackages(), sep="\n")')
    echo "$packages" >"$(echo .venv/lib/python3*/site-packages)/outer.pth"
    python=.venv/bin/python
    "$python" -m pip install --quiet --disable-pip-version-check pytest==9.2.0 pytest-xdist==3.8.0
fi
# torch's attention in bfloat16 packs for AMX where oneDNN finds it, and fails if torch itself is to do without
[ "${ATEN_CPU_CAPABILITY-}" != default ] || export ONEDNN_MAX_CPU_ISA=AVX2
export OMP_NUM_THREADS=1 # the models of the tests are too tiny to share their work between cores
exec "$python" -m pytest -c tests/pytest.ini -n logical --maxprocesses 8 --dist worksteal "$@"
