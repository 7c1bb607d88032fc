#!/usr/bin/env bash
# The five steps in order, resumable: kill it at any moment and run it again.
#
#   bash run_all.sh                      the bundled tiny model: maths and code, on a laptop CPU, minutes
#   bash run_all.sh MODEL A B [A B ...]  Hub id or folder; pairs of data set names or .jsonl files: calibrate
#                                        on A, select on B, then on B and A (BOTH=0 leaves this direction out)
#   bash run_all.sh --python             only make the environment and print its Python
#
# By environment: N=16 rollouts a problem, SETS=1 times that each set is sampled (the paper: 3), scorer seeds
# SEEDS="32 42 52", LIMIT= problems of each set, OUT=runs, flags for steps FLAGS_01, _02, _03, _05, e.g.
#   SETS=3 FLAGS_01="--max-new-tokens 0" bash run_all.sh Qwen/Qwen3-1.7B humaneval kodcode
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { echo "error: $1" >&2; exit 2; }

usable() { # has this Python the four packages, new enough? (metadata only: importing them takes seconds)
    "$1" - 2>/dev/null <<'PY'
import sys
from importlib.metadata import version
number = lambda name: tuple(int(part) for part in version(name).split("+")[0].split(".")[:2])
new = sys.version_info >= (3, 10) and number("torch") >= (2, 11) and number("transformers") >= (5, 17)
sys.exit(not (new and version("numpy") and version("tqdm")))
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
    "$python" -m venv "$here/.venv" >&2 || fail "$python cannot make .venv (Debian: apt install python3-venv)"
    "$here/.venv/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt" >&2 ||
        fail "pip could not install requirements.txt (see above)"
    echo "$here/.venv/bin/python"
}

run() { "$@" & wait $!; } # bash hears of a signal while it waits for a job, not while one is in front of it
step() { run "$PYTHON" "$here/$1" "${@:2}"; }
say() { local IFS=,; local names="${*:3}"; echo "[$1/5] $2: ${names//,/, }" >&2; }
name_of() { local name; name=$(basename "$1"); echo "${name%%.json*}"; } # the run folder's, as 01 names it
has_labels() { grep -q '"label": [01]' "$1/labels.jsonl"; }

generate() { # the demo's model is too small to fill more than a core: there each has a worker of its own
    local rank pid pids=() command=("$PYTHON" "$here/01_generate.py" "$model" "$@" -n "$N" --out "$OUT")
    command+=(${LIMIT:+--limit "$LIMIT"} ${FLAGS_01:-})
    [ "$workers" = 1 ] || local -x WORLD_SIZE=$workers RANK=0 OMP_NUM_THREADS=1
    for ((rank = 1; rank < workers; rank++)); do
        RANK=$rank "${command[@]}" >/dev/null 2>>"$log" &
        pids+=($!)
    done
    run "${command[@]}" >/dev/null
    for pid in "${pids[@]}"; do wait "$pid" || fail "a worker of 01 ended too early; see $log"; done
}

check() { # SCRIPT FLAGS ARGUMENTS: are a later step's flags right? Then all it says is that there is no run
    [ -n "${2// /}" ] || return 0
    local said
    said=$(step "$1" no-such-run "${@:3}" $2 2>&1 >/dev/null) || true
    said=${said##*$'\n'}
    [[ $said == *no-such-run* ]] || fail "FLAGS_${1:0:2}: ${said##*error: }"
}

case "${1:-}" in
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$here/run_all.sh"; exit ;;
    --python) find_python; exit ;;
esac
if [ $# -eq 1 ] || [ $# -gt 0 -a $(($# % 2)) -eq 0 ]; then
    fail "give MODEL A B, or nothing for the demo (bash run_all.sh -h)"
fi
workers=1 N=${N:-16} SETS=${SETS:-1} BOTH=${BOTH:-1} OUT=${OUT:-runs} SEEDS=${SEEDS:-32 42 52}
[[ "$N $SETS ${LIMIT:-1}  $SEEDS" =~ ^([1-9][0-9]*\ ){3}(\ +[1-9][0-9]*)+\ *$ ]] ||
    fail "N, SETS, SEEDS and LIMIT are whole numbers from 1, not '$N', '$SETS', '$SEEDS' and '${LIMIT:-}'"
[ -z "$(printf '%s\n' $SEEDS | sort | uniq -d)" ] || fail "SEEDS are different whole numbers, not '$SEEDS'"
[[ $BOTH =~ ^[01]$ ]] || fail "BOTH is 1, both directions, or 0, not '$BOTH'"
if [ $# -eq 0 ]; then
    set -- "$here/demo/model" "$here/demo/"{math_a,math_b,code_a,code_b}.jsonl
    workers=$(env -u OMP_NUM_THREADS nproc) && workers=$((workers < 4 ? workers : 4))
    FLAGS_03=${FLAGS_03:---configs 2 --rollouts 8} # the paper: 100 configurations, all rollouts
fi

# Calibrate on the runs of each A, select on those of its B, and the other way round; then one report of all.
model=$1 sets=("${@:2}") names=() cals=() evals=() evaluated=() seeds=() runs=() learned=() judged=() made=()
base=$OUT/$(basename "$model"); [ ! -d "$model" ] || base=$OUT/$(basename "$(cd "$model" && pwd -P)")
log=$base/run_all.log
for ((i = 0; i < SETS; i++)); do seeds+=($((32 + 10 * i))); done
for ((i = 0; i < ${#sets[@]}; i += 2)); do
    a=$(name_of "${sets[i]}") b=$(name_of "${sets[i + 1]}")
    [ "$a" != "$b" ] || fail "'$a' and '$b' would be one run: to calibrate on what is judged proves nothing"
    names+=("$a" "$b") cals+=("$a") evals+=("$b") evaluated+=("${sets[i + 1]}")
    [ "$BOTH" = 0 ] || { cals+=("$b") evals+=("$a") evaluated+=("${sets[i]}"); }
done
PYTHON=$(find_python)
check 02_label.py "${FLAGS_02:-}"
check 03_train_scorer.py "${FLAGS_03:-}" -o no-such-run.pt
check 05_baselines.py "${FLAGS_05:-}"

stop() { # a step that has not ended a second and a half after Ctrl-C, which a job may not hear yet, is killed
    trap '' INT TERM
    kill -INT $(jobs -p) 2>/dev/null || true
    for _ in {1..15}; do kill -0 $(jobs -rp) 2>/dev/null || break; sleep 0.1; done
    kill -KILL $(jobs -p) 2>/dev/null || true
    exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
mkdir -p "$base" 2>/dev/null && [ -w "$base" ] || fail "cannot write to $base; choose another OUT"
exec 9>>"$log" # on NFS a folder cannot be locked
flock -n 9 || { # one at a time works on a model's runs; a killed one's lock is free
    echo "another run_all.sh is at work in $base: waiting for it; what it has made is not made again" >&2
    run flock 9
}
tidy() { # leave nothing where nothing came of it
    [ -s "$log" ] || rm -f "$log"; rmdir "$base" "$OUT" 2>/dev/null || true
}
trap 'kill $(jobs -p) 2>/dev/null || true; tidy' EXIT

say 1 generate "${names[@]}"
for seed in "${seeds[@]}"; do generate "${sets[@]}" --seed "$seed"; done
generate "${evaluated[@]}" --greedy
for name in "${names[@]}"; do runs+=("${seeds[@]/#/$base/$name/}"); done
for name in "${evals[@]}"; do runs+=("$base/$name/greedy"); done
for run in "${runs[@]}"; do
    [ -f "$run/rollouts.jsonl" ] || fail "$run: other workers still generate; run this again afterwards"
done

say 2 label "${names[@]}"
step 02_label.py "${runs[@]}" ${FLAGS_02:-} >>"$log"

say 3 "train scorers" "${cals[@]}"
for name in "${cals[@]}"; do for run in "${seeds[@]/#/$base/$name/}"; do
    if has_labels "$run"; then learned+=("$run"); fi
done; done
for method in scatr "scatr+ --inputs vector+stats" "logistic --design logistic"; do
    [ ${#learned[@]} -gt 0 ] || continue
    set -- $method
    out={run}/$1.{name}-{seed}.pt
    step 03_train_scorer.py "${learned[@]}" "${@:2}" --seed $SEEDS -o "$out" ${FLAGS_03:-} >>"$log"
done

say 4 select "${evals[@]}"
for i in "${!evals[@]}"; do
    cal=${cals[i]} scorers=()
    for sampled in "${seeds[@]}"; do for method in scatr scatr+ logistic; do for seed in $SEEDS; do
        file=$base/$cal/$sampled/$method.$cal@$sampled-$seed.pt
        [ ! -f "$file" ] || scorers+=("$file")
    done; done; done
    [ ${#scorers[@]} -gt 0 ] || { echo "$cal: nothing to learn from, none for ${evals[i]}" >&2; continue; }
    chosen=("${seeds[@]/#/$base/${evals[i]}/}") labelled=()
    for run in "${chosen[@]}"; do if has_labels "$run"; then labelled+=("$run"); fi; done
    if [ ${#labelled[@]} -gt 0 ]; then # 05 shows what 04 does, and more
        step 04_select.py "${chosen[@]}" --scorer "${scorers[@]}" >>"$log"
        judged+=("${labelled[@]}")
        for file in "${scorers[@]}"; do made+=("$(basename "$file" .pt)"); done
    else
        step 04_select.py "${chosen[@]}" --scorer "${scorers[@]}"
        echo "${chosen[*]}: no labels to judge the answers by, so no report"
    fi
done

[ ${#judged[@]} -gt 0 ] || exit 0
say 5 report "${evals[@]}"
step 05_baselines.py "${judged[@]}" --only "${made[@]}" --out "$base/$(IFS=-; echo "${names[*]}")" ${FLAGS_05:-}
printf 'one answer a problem: %s/answers.jsonl\n' "${judged[@]}"
