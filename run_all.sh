#!/usr/bin/env bash
# The five steps in order, resumable: kill it at any moment and run it again.
#
#   bash run_all.sh                      the bundled tiny model: maths and code, on a laptop CPU, minutes
#   bash run_all.sh MODEL CAL EVAL       a Hub id or folder; data set names or .jsonl files
#   bash run_all.sh --python             only make the environment and print its Python
#
# By environment: N=16 rollouts a problem, SETS=1 calibration sets (the paper: 3), SEEDS="32 42 52" scorer seeds,
# LIMIT= problems of each set, OUT=runs, and flags for single steps: FLAGS_01 FLAGS_02 FLAGS_03 FLAGS_04 FLAGS_05, e.g.
#   SETS=3 FLAGS_01="--max-new-tokens 8192" bash run_all.sh Qwen/Qwen3-1.7B humaneval kodcode
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usable() { # does this Python have the four packages, new enough? (metadata only: importing them takes seconds)
    "$1" - 2>/dev/null <<'PY'
import sys
from importlib.metadata import version
number = lambda name: tuple(int(part) for part in version(name).split("+")[0].split(".")[:2])
version("numpy"), version("tqdm")
sys.exit(not (sys.version_info >= (3, 10) and number("torch") >= (2, 11) and number("transformers") >= (5, 17)))
PY
}

find_python() {
    local python
    for python in "$here/.venv/bin/python" python3 python; do
        if command -v "$python" >/dev/null && usable "$python"; then command -v "$python"; return; fi
    done
    python=$(command -v python3) || { echo "error: no python3 on the PATH; install Python 3.10 or newer" >&2; exit 2; }
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        { echo "error: $python is older than Python 3.10; put a newer one first on the PATH" >&2; exit 2; }
    echo "making .venv and installing requirements.txt (once, minutes) ..." >&2
    "$python" -m venv "$here/.venv" >&2 || { echo "error: $python cannot make a virtual environment (Debian: apt install python3-venv)" >&2; exit 2; }
    "$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2 ||
        { echo "error: pip could not install requirements.txt (see above)" >&2; exit 2; }
    echo "$here/.venv/bin/python"
}

case "${1:-}" in -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$here/run_all.sh"; exit ;; esac
if [ $# -ne 0 ] && [ $# -ne 3 ] && [ "$1" != --python ]; then
    echo "error: give MODEL CAL EVAL, or nothing for the demo (bash run_all.sh -h)" >&2; exit 2
fi
N=${N:-16} SETS=${SETS:-1} OUT=${OUT:-runs} SEEDS=${SEEDS:-32 42 52}
for number in "$N" "$SETS" $SEEDS ${LIMIT:-1}; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || { echo "error: N, SETS, SEEDS and LIMIT are whole numbers from 1, not '$number'" >&2; exit 2; }
done
if [ -z "${SEEDS// /}" ] || [ "$(printf '%s\n' $SEEDS | sort | uniq -d)" ]; then
    echo "error: SEEDS are different whole numbers, not '$SEEDS'" >&2; exit 2
fi
PYTHON=$(find_python)
if [ "${1:-}" = --python ]; then echo "$PYTHON"; exit; fi

step() { local script=$1; shift; "$PYTHON" "$here/$script" "$@"; }

generate() { # SEED MODEL DATASET ... -> the run folders, a line each; first what is about to be made, on stderr
    local seed=$1; shift
    step 01_generate.py "$@" --seed "$seed" -n "$N" --out "$OUT" ${LIMIT:+--limit "$LIMIT"} ${FLAGS_01:-} | tail -n $(($# - 1))
}

# Calibrate on SETS runs of CAL, select on one run of EVAL, report.
experiment() { # MODEL CAL EVAL
    local model=$1 eval_run cal_runs=() cal_name eval_name set run runs scorers=()
    cal_name=$(basename "$2"); cal_name=${cal_name%%.json*}; eval_name=$(basename "$3")
    if [ "$cal_name" = "${eval_name%%.json*}" ]; then
        echo "error: $2 and $3 have one name and so one run: calibrating on the rollouts that are judged proves nothing" >&2; exit 2
    fi
    runs=$(generate 32 "$model" "$2" "$3")
    if [ "$(grep -c . <<<"$runs")" -ne 2 ]; then
        echo "error: other workers still generate; run this again when they have ended" >&2; exit 2
    fi
    cal_runs=("${runs%%$'\n'*}") eval_run=${runs#*$'\n'}
    for ((set = 1; set < SETS; set++)); do
        run=$(generate $((32 + 10 * set)) "$model" "$2"); cal_runs+=("$run")
    done
    step 02_label.py "${cal_runs[@]}" "$eval_run" ${FLAGS_02:-}
    for run in "${cal_runs[@]}"; do
        for design in mlp logistic; do
            local name=scatr; [ "$design" = mlp ] || name=$design
            step 03_train_scorer.py "$run" --design "$design" --seed $SEEDS -o "$run/$name.$cal_name@$(basename "$run")-{seed}.pt" ${FLAGS_03:-}
            for seed in $SEEDS; do scorers+=("$run/$name.$cal_name@$(basename "$run")-$seed.pt"); done
        done
    done
    if grep -q '"label": [01]' "$eval_run/labels.jsonl"; then
        step 04_select.py "$eval_run" --scorer "${scorers[@]}" ${FLAGS_04:-} >/dev/null # 05 shows the same and more
        step 05_baselines.py "$eval_run" ${FLAGS_05:-}
    else
        step 04_select.py "$eval_run" --scorer "${scorers[@]}" ${FLAGS_04:-}
        echo "$eval_run: nothing to judge by, so no comparison; the answers chosen are in selected.jsonl"
    fi
}

if [ $# -eq 0 ]; then
    FLAGS_03=${FLAGS_03:---configs 10 --search halving} # ten of the paper's hundred configurations: a minute instead of twenty
    FLAGS_05=${FLAGS_05:---window 16 --tail 16} # the demo's answers are some 40 tokens long
    experiment "$here/demo/model" "$here/demo/math_a.jsonl" "$here/demo/math_b.jsonl"
    experiment "$here/demo/model" "$here/demo/code_a.jsonl" "$here/demo/code_b.jsonl"
else
    experiment "$@"
fi
