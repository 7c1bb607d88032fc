#!/usr/bin/env bash
# The five steps in order, resumable: kill it at any moment and run it again.
#
#   bash run_all.sh                      the bundled tiny model: maths and code, on a laptop CPU, minutes
#   bash run_all.sh MODEL A B [A B ...]  a Hub id or folder; pairs of data set names or .jsonl files: calibrate on A and
#                                        select on B, then on B and A (BOTH=0 leaves this direction out)
#   bash run_all.sh --python             only make the environment and print its Python
#
# By environment: N=16 rollouts a problem, SETS=1 times that each set is sampled (the paper: 3), SEEDS="32 42 52" scorer
# seeds, LIMIT= problems of each set, OUT=runs, and flags for single steps: FLAGS_01 FLAGS_02 FLAGS_03 FLAGS_04 FLAGS_05, e.g.
#   SETS=3 FLAGS_01="--max-new-tokens 0" bash run_all.sh Qwen/Qwen3-1.7B humaneval kodcode
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { echo "error: $1" >&2; exit 2; }

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
    python=$(command -v python3) || fail "no python3 on the PATH; install Python 3.10 or newer"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        fail "$python is older than Python 3.10; put a newer one first on the PATH"
    echo "making .venv and installing requirements.txt (once, minutes) ..." >&2
    "$python" -m venv "$here/.venv" >&2 || fail "$python cannot make a virtual environment (Debian: apt install python3-venv)"
    "$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2 ||
        fail "pip could not install requirements.txt (see above)"
    echo "$here/.venv/bin/python"
}

case "${1:-}" in -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$here/run_all.sh"; exit ;; esac
if [ "${1:-}" != --python ] && [ $# -ne 0 ] && { [ $# -lt 3 ] || [ $(($# % 2)) -eq 0 ]; }; then
    fail "give MODEL A B, or nothing for the demo (bash run_all.sh -h)"
fi
N=${N:-16} SETS=${SETS:-1} BOTH=${BOTH:-1} OUT=${OUT:-runs} SEEDS=${SEEDS:-32 42 52}
for number in "$N" "$SETS" $SEEDS ${LIMIT:-1}; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || fail "N, SETS, SEEDS and LIMIT are whole numbers from 1, not '$number'"
done
if [ -z "${SEEDS// /}" ] || [ "$(printf '%s\n' $SEEDS | sort | uniq -d)" ]; then
    fail "SEEDS are different whole numbers, not '$SEEDS'"
fi
[[ $BOTH =~ ^[01]$ ]] || fail "BOTH is 1, both directions, or 0, not '$BOTH'"
PYTHON=$(find_python)
if [ "${1:-}" = --python ]; then echo "$PYTHON"; exit; fi

step() { local script=$1; shift; "$PYTHON" "$here/$script" "$@"; }
say() { local IFS=,; local names="${*:3}"; echo "[$1/5] $2: ${names//,/, }" >&2; }
name_of() { local name; name=$(basename "$1"); echo "${name%%.json*}"; } # the run folder's, as 01 names it
scorer() { echo "$1/$2.$(basename "$(dirname "$1")")@$(basename "$1")-$3.pt"; } # RUN METHOD SEED
has_labels() { grep -q '"label": [01]' "$1/labels.jsonl"; }

check() { # SCRIPT FLAGS ARGUMENTS: are a later step's flags understood? A run that is not there must be all that is wrong
    local script=$1 flags=$2 said; shift 2
    [ -n "${flags// /}" ] || return 0
    said=$(step "$script" no-such-run "$@" $flags 2>&1 >/dev/null) || true
    said=${said##*$'\n'}
    [[ $said == *no-such-run* ]] || fail "FLAGS_${script:0:2}: ${said##*error: }"
}

take_turns() { # one at a time works on a model's runs; a killed one's lock is free
    local lock='import fcntl, sys; fcntl.flock(9, fcntl.LOCK_EX | int(sys.argv[1]))'
    mkdir -p "$base" 2>/dev/null && [ -w "$base" ] || fail "cannot write to $base; choose another OUT"
    trap 'rmdir "$base" "$OUT" 2>/dev/null || true' EXIT # where nothing came of it
    exec 9<"$base"
    "$PYTHON" -c "$lock" 4 2>/dev/null || {
        echo "another run_all.sh is at work in $base: waiting for it; what it has made is not made again" >&2
        "$PYTHON" -c "$lock" 0
    }
}

generate() { step 01_generate.py "$model" "$@" -n "$N" --out "$OUT" ${LIMIT:+--limit "$LIMIT"} ${FLAGS_01:-} >/dev/null; }

train() { # RUNS: three kinds of scorers for each, kept beside it
    local method
    for method in scatr "scatr+ --inputs vector+stats" "logistic --design logistic"; do
        step 03_train_scorer.py "$@" ${method#"${method%% *}"} --seed $SEEDS -o "{run}/${method%% *}.{name}-{seed}.pt" ${FLAGS_03:-} >>"$log"
    done
}

if [ $# -eq 0 ]; then
    set -- "$here/demo/model" "$here/demo/"{math_a,math_b,code_a,code_b}.jsonl
    FLAGS_03=${FLAGS_03:---configs 2 --rollouts 8} # the paper: 100 configurations, all rollouts
    FLAGS_05=${FLAGS_05:---window 16 --tail 16} # the demo's answers are some 40 tokens long
fi

# Calibrate on the runs of each A, select on those of its B, and the other way round; then one report of all.
model=$1 sets=("${@:2}") names=() cals=() evals=() evaluated=() seeds=() judged=()
base=$OUT/$(basename "$model"); [ ! -d "$model" ] || base=$OUT/$(basename "$(cd "$model" && pwd -P)")
log=$base/run_all.log
for ((i = 0; i < SETS; i++)); do seeds+=($((32 + 10 * i))); done
for ((i = 0; i < ${#sets[@]}; i += 2)); do
    a=$(name_of "${sets[i]}") b=$(name_of "${sets[i + 1]}")
    [ "$a" != "$b" ] ||
        fail "${sets[i]} and ${sets[i + 1]} have one name and so one run: calibrating on the rollouts that are judged proves nothing"
    names+=("$a" "$b") cals+=("$a") evals+=("$b") evaluated+=("${sets[i + 1]}")
    [ "$BOTH" = 0 ] || { cals+=("$b") evals+=("$a") evaluated+=("${sets[i]}"); }
done
check 02_label.py "${FLAGS_02:-}"
check 03_train_scorer.py "${FLAGS_03:-}" -o no-such-run.pt
check 04_select.py "${FLAGS_04:-}" --scorer no-such-run.pt
check 05_baselines.py "${FLAGS_05:-}"
take_turns

say 1 generate "${names[@]}"
for seed in "${seeds[@]}"; do generate "${sets[@]}" --seed "$seed"; done
generate "${evaluated[@]}" --greedy
runs=()
for name in "${names[@]}"; do for seed in "${seeds[@]}"; do runs+=("$base/$name/$seed"); done; done
for name in "${evals[@]}"; do runs+=("$base/$name/greedy"); done
for run in "${runs[@]}"; do
    [ -f "$run/rollouts.jsonl" ] || fail "$run: other workers still generate; run this again when they have ended"
done

say 2 label "${names[@]}"
step 02_label.py "${runs[@]}" ${FLAGS_02:-} >>"$log"

say 3 "train scorers" "${cals[@]}"
learned=()
for name in "${cals[@]}"; do for seed in "${seeds[@]}"; do
    if has_labels "$base/$name/$seed"; then learned+=("$base/$name/$seed"); fi
done; done
[ ${#learned[@]} -eq 0 ] || train "${learned[@]}"

say 4 select "${evals[@]}"
for ((i = 0; i < ${#evals[@]}; i++)); do for seed in "${seeds[@]}"; do
    run=$base/${evals[i]}/$seed scorers=()
    for cal in "${seeds[@]/#/$base/${cals[i]}/}"; do for method in scatr scatr+ logistic; do for trained in $SEEDS; do
        file=$(scorer "$cal" "$method" "$trained")
        [ ! -f "$file" ] || scorers+=("$file")
    done; done; done
    [ ${#scorers[@]} -gt 0 ] || { echo "${cals[i]}: nothing to learn from, so no selection on ${evals[i]}" >&2; continue; }
    if has_labels "$run"; then # 05 shows what 04 does, and more
        step 04_select.py "$run" --scorer "${scorers[@]}" ${FLAGS_04:-} >>"$log"; judged+=("$run")
    else
        step 04_select.py "$run" --scorer "${scorers[@]}" ${FLAGS_04:-}
        echo "$run: nothing to judge by, so no comparison; the answers chosen are in selected.jsonl"
    fi
done; done

[ ${#judged[@]} -gt 0 ] || exit 0
say 5 report "${evals[@]}"
step 05_baselines.py "${judged[@]}" --out "$base/$(IFS=-; echo "${names[*]}")" ${FLAGS_05:-}
