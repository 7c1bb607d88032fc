#!/usr/bin/env bash
# The five steps in order. Kill it at any moment and run it again: it resumes.
#
#   bash run_all.sh                      the bundled tiny model: maths and code, on a laptop CPU, minutes
#   bash run_all.sh MODEL A B [A B ...]  calibrate on A and select on B, then calibrate on B and select on A
#   bash run_all.sh --python             only make the environment and print its Python
#
# MODEL is a Hub id or a folder, A and B are names of data sets or .jsonl files. Environment variables:
#
#   N=16              rollouts of each problem
#   RUNS=1            runs of each data set, which differ in their seed (the paper: 3)
#   SEEDS="32 42 52"  seeds of the scorers
#   BOTH=1            0: only calibrate on A and select on B
#   LIMIT=            take only so many problems of each data set
#   OUT=runs          folder for everything that is made
#   FLAGS_01= FLAGS_02= FLAGS_03= FLAGS_05=   more flags for a step, for example
#       RUNS=3 FLAGS_01="--max-new-tokens 0" bash run_all.sh Qwen/Qwen3-1.7B humaneval kodcode
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
    echo "error: $1" >&2
    exit 2
}

# ---- Python and its packages

has_packages() { # does this Python have the four packages, new enough? (importing them would take seconds)
    "$1" - 2>/dev/null <<'PY'
import sys
from importlib.metadata import version
def number(name):
    return tuple(int(part) for part in version(name).split("+")[0].split(".")[:2])
new = sys.version_info >= (3, 10) and number("torch") >= (2, 11) and number("transformers") >= (5, 17)
sys.exit(not (new and version("numpy") and version("tqdm")))
PY
}

find_python() { # print the path of a Python with the packages; make .venv if there is none
    local python venv=$here/.venv
    for python in "$venv/bin/python" python3 python; do
        if command -v "$python" >/dev/null && has_packages "$python"; then
            command -v "$python"
            return
        fi
    done
    echo "making .venv and installing requirements.txt (once, minutes) ..." >&2
    python3 -m venv "$venv" >&2 || fail "python3 cannot make .venv; install python3 and python3-venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt" >&2 ||
        fail "pip could not install requirements.txt (see above); it takes Python 3.10 or newer"
    echo "$venv/bin/python"
}

# ---- Steps

run() { # in the background, because bash handles a signal at once only while it waits
    "$@" &
    wait $!
}

step() { run "$PYTHON" "$here/$1" "${@:2}"; }

check_flags() { # SETTINGS SCRIPT ARGUMENT...: let the script parse its arguments, and do nothing else
    local message
    message=$("$PYTHON" - "$here" "${@:2}" 2>&1 <<'PY'
import importlib, sys
here, script, *arguments = sys.argv[1:]
sys.path.insert(0, here)
parse_args = importlib.import_module(script).parse_args
importlib.import_module("common").entry(lambda: parse_args(arguments), "no step was started")
PY
    ) || fail "$1: ${message##*error: }"
}

say() { echo "[$1/5] $2" >&2; }

generate() { # the demo's model is too small to keep more than one core busy, so each core gets a process
    local rank pid pids=() command=("$PYTHON" "$here/01_generate.py" "${arguments_01[@]}" "$@")
    if [ "$processes" -gt 1 ]; then
        local -x WORLD_SIZE=$processes RANK=0 OMP_NUM_THREADS=1
    fi
    for ((rank = 1; rank < processes; rank++)); do
        RANK=$rank "${command[@]}" >/dev/null 2>>"$log" &
        pids+=($!)
    done
    run "${command[@]}" >/dev/null
    for pid in "${pids[@]}"; do
        wait "$pid" || fail "a process of 01_generate.py ended too early; $log says why"
    done
}

kind_for() { # A B: the kind of all of A's problems, if B has some that do not say theirs, and none of another
    [ -f "$2" ] && [[ ${FLAGS_01:-} != *--kind* ]] || return 0
    "$PYTHON" - "$here" "$1" "$2" 2>/dev/null <<'PY' || true # 01_generate.py says what is wrong
import sys
sys.path.insert(0, sys.argv[1])
from common import load_problems
kinds, others = ({problem["kind"] for problem in load_problems(name)} for name in sys.argv[2:])
if len(kinds) == 1 and others - kinds == {"text"}:
    print(*kinds)
PY
}

sample() { # FLAGS FILE...: in one call for each kind that 01_generate.py must be told, as it loads the model
    local kind file some
    for kind in "" math code; do
        some=()
        for file in "${@:2}"; do
            if [ "${kinds[$file]:-}" = "$kind" ]; then some+=("$file"); fi
        done
        [ ${#some[@]} -eq 0 ] || generate "${some[@]}" $1 ${kind:+--kind "$kind"}
    done
}

name_of() { # the name of a data set's folder, as 01_generate.py gives it
    local name
    name=$(basename "$1")
    echo "${name%%.json*}"
}

runs_of() { # DATA_SET...: print their runs, a line each
    local name seed
    for name in "$@"; do
        for seed in "${run_seeds[@]}"; do echo "$base/$name/$seed"; done
    done
}

labelled() { # print only those runs of the input that have labels
    local run
    while read -r run; do
        if grep -q '"label": [01]' "$run/labels.jsonl"; then echo "$run"; fi
    done
}

stop() { # EXIT_CODE: end all processes, by force those that Ctrl-C has not ended after 5 seconds
    trap '' INT TERM
    kill -INT $(jobs -p) 2>/dev/null || true
    for _ in {1..50}; do
        kill -0 $(jobs -rp) 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL $(jobs -p) 2>/dev/null || true
    exit "$1"
}

tidy() { # remove the log and the folders if nothing is in them
    kill $(jobs -p) 2>/dev/null || true
    [ -s "$log" ] || rm -f "$log"
    rmdir "$base" "$OUT" 2>/dev/null || true
}

# ---- Arguments and settings

case "${1:-}" in
    -h | --help) sed -n '2,18s/^# \{0,1\}//p' "$here/run_all.sh"; exit ;;
    --python) find_python; exit ;;
esac
if [ $# -eq 1 ] || [ $# -gt 0 -a $(($# % 2)) -eq 0 ]; then
    fail "give MODEL A B, or nothing for the demo (bash run_all.sh -h)"
fi
N=${N:-16} RUNS=${RUNS:-1} SEEDS=${SEEDS:-32 42 52} BOTH=${BOTH:-1} OUT=${OUT:-runs}
[[ $RUNS =~ ^[1-9][0-9]*$ ]] || fail "RUNS is '$RUNS'; give a whole number from 1"
[ -z "${SETS:-}" ] || fail "SETS is now called RUNS"
processes=1
if [ $# -eq 0 ]; then
    set -- "$here/demo/model" "$here/demo/"{math_a,math_b,code_a,code_b}.jsonl
    processes=$(env -u OMP_NUM_THREADS nproc)
    [ "$processes" -le 4 ] || processes=4
    FLAGS_03=${FLAGS_03:---configs 2 --rollouts 8} # the paper: 100 configurations, all rollouts
fi

# Direction i calibrates on the runs of the data set calibrate_on[i] and selects on those of select_on[i].
model=$1 files=("${@:2}") names=() calibrate_on=() select_on=() select_files=() run_seeds=()
for ((i = 0; i < RUNS; i++)); do run_seeds+=($((32 + 10 * i))); done
for ((i = 0; i < ${#files[@]}; i += 2)); do
    a=$(name_of "${files[i]}") b=$(name_of "${files[i + 1]}")
    [ "$a" != "$b" ] || fail "A and B are both named '$a' (select on other problems than you calibrate on)"
    names+=("$a" "$b")
    calibrate_on+=("$a") select_on+=("$b") select_files+=("${files[i + 1]}")
    if [ "$BOTH" != 0 ]; then
        calibrate_on+=("$b") select_on+=("$a") select_files+=("${files[i]}")
    fi
done
arguments_01=("$model" -n "$N" --out "$OUT" ${LIMIT:+--limit "$LIMIT"} ${FLAGS_01:-})
designs=(scatr scatr+ logistic)
arguments_03=(--separate --design "${designs[@]}" --seed $SEEDS ${FLAGS_03:-})
PYTHON=$(find_python)
declare -A kinds # of the problems of B that do not say theirs
for ((i = 0; i < ${#files[@]}; i += 2)); do
    a=${files[i]} b=${files[i + 1]}
    kinds[$b]=$(kind_for "$a" "$b")
    [ -z "${kinds[$b]}" ] || echo "$b: problems that do not say their kind are ${kinds[$b]}, as those of $a" >&2
done
check_flags "N, LIMIT or FLAGS_01" 01_generate "${arguments_01[@]}" "${files[@]}"
check_flags FLAGS_02 02_label RUN ${FLAGS_02:-}
check_flags "SEEDS or FLAGS_03" 03_train_scorer RUN "${arguments_03[@]}"
check_flags FLAGS_05 05_baselines RUN ${FLAGS_05:-}

base=$OUT/$(basename "$model")
[ ! -d "$model" ] || base=$OUT/$(basename "$(realpath "$model")")
log=$base/run_all.log
mkdir -p "$base" 2>/dev/null && [ -w "$base" ] || fail "cannot write to $base; choose another OUT"
trap 'stop 130' INT
trap 'stop 143' TERM
exec 9>>"$log" # the file to lock, as a folder cannot be locked on NFS; a killed process loses its lock
flock -n 9 || {
    echo "another run_all.sh is at work in $base: waiting for it; what it has made is not made again" >&2
    run flock 9
}
trap tidy EXIT

# ---- The five steps

say 1 "generate: ${names[*]}"
for seed in "${run_seeds[@]}"; do sample "--seed $seed" "${files[@]}"; done
sample --greedy "${select_files[@]}"
mapfile -t all_runs < <(runs_of "${names[@]}")
for name in "${select_on[@]}"; do all_runs+=("$base/$name/greedy"); done

say 2 "label: ${names[*]}"
step 02_label.py "${all_runs[@]}" ${FLAGS_02:-} >>"$log"

say 3 "train scorers: ${calibrate_on[*]}"
mapfile -t calibration_runs < <(runs_of "${calibrate_on[@]}")
code=0
step 03_train_scorer.py "${calibration_runs[@]}" "${arguments_03[@]}" >>"$log" || code=$?
[ $code -eq 0 ] || [ $code -eq 3 ] || exit $code # 3: it says which runs it cannot learn from

say 4 "select: ${select_on[*]}"
report_runs=() scorer_names=()
for i in "${!select_on[@]}"; do
    from=${calibrate_on[i]} scorers=()
    mapfile -t calibrated < <(runs_of "$from")
    for run in "${calibrated[@]}"; do
        for design in "${designs[@]}"; do
            for seed in $SEEDS; do
                file=$run/$design.$from@$(basename "$run")-$seed.pt
                [ ! -f "$file" ] || scorers+=("$file")
            done
        done
    done
    [ ${#scorers[@]} -gt 0 ] || continue # nothing could be learned from these runs
    mapfile -t selected < <(runs_of "${select_on[i]}")
    mapfile -t labelled < <(runs_of "${select_on[i]}" | labelled)
    if [ ${#labelled[@]} -eq 0 ]; then
        step 04_select.py "${selected[@]}" --scorer "${scorers[@]}"
        echo "${selected[*]}: no labels to judge the answers by, so no report"
        continue
    fi
    step 04_select.py "${selected[@]}" --scorer "${scorers[@]}" >>"$log" # the report shows what it prints
    report_runs+=("${labelled[@]}")
    for file in "${scorers[@]}"; do scorer_names+=("$(basename "$file" .pt)"); done
done

[ ${#report_runs[@]} -gt 0 ] || exit 0
say 5 "report: ${select_on[*]}"
out=$base/$(IFS=-; echo "${names[*]}")
step 05_baselines.py "${report_runs[@]}" --only "${scorer_names[@]}" --out "$out" ${FLAGS_05:-}
printf 'one answer a problem: %s/answers.jsonl\n' "${report_runs[@]}"
