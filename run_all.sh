#!/usr/bin/env bash
# The five steps in order. Kill it at any moment and run it again: it resumes.
#
#   bash run_all.sh                      the bundled tiny model: on a CPU, minutes
#   bash run_all.sh MODEL A B [A B ...]  calibrate on A, select on B, and the
#                                        other way round if B can be checked
#   bash run_all.sh --paper MODEL        every table of the paper, after a plan
#       (--plan: only the plan); without MODEL for the bundled one, small
#   bash run_all.sh --python             make the environment, print its Python
#
# MODEL is a Hub id or a folder; A and B are data sets' names or .jsonl files.
# A larger N, more RUNS and longer files add to what is there.
#
#   N=16              rollouts of each problem
#   RUNS=1            runs of each data set, by their seeds (--paper MODEL: 3)
#   SEEDS="32 42 52"  seeds of the scorers
#   BOTH=1            0: only calibrate on A and select on B
#   LIMIT=            take only so many problems of each data set
#   OUT=runs          folder for everything that is made
#   FLAGS_01= FLAGS_02= FLAGS_03= FLAGS_05=   more flags for a step, such as
#       FLAGS_01="--max-new-tokens 0" bash run_all.sh MODEL humaneval kodcode
#   PRMS="Gen-Verse/ReasonFlux-PRM-1.5B Gen-Verse/ReasonFlux-PRM-7B"   reward
#       models or their folders; the second one reads maths alone
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

count_gpus() { # where 01 may take any GPU: 1 if there is none
    [[ ${FLAGS_01:-} != *--@(device|engine)* ]] || { echo 1; return; }
    "$PYTHON" -c 'import torch; print(max(1, torch.cuda.device_count()))'
}

generate() { # in as many processes as `processes` says, which share the problems
    local rank pid pids=() command=("$PYTHON" "$here/01_generate.py" "${arguments_01[@]}" "$@")
    if [ "$processes" -gt 1 ]; then
        local -x WORLD_SIZE=$processes RANK=0
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

kind_for() { # A B: the kind of A's checkable problems, if B has some that say none, and none of another
    [ -f "$2" ] && [[ ${FLAGS_01:-} != *--kind* ]] || return 0
    "$PYTHON" - "$here" "$1" "$2" "${LIMIT:-0}" 2>/dev/null <<'PY' || true # 01_generate.py says what is wrong
import sys
sys.path.insert(0, sys.argv[1])
from common import load_problems
limit = int(sys.argv[4]) or None
calibrate_on, select_on = (load_problems(name, limit) for name in sys.argv[2:4])
kinds = {problem["kind"] for problem in calibrate_on if problem.keys() & {"answer", "tests"}}
others = {problem["kind"] for problem in select_on}
if len(kinds) == 1 and others - kinds == {"text"}:
    print(*kinds)
PY
}

sample() { # FLAGS FILE...: in one call, but for those whose kind 01_generate.py must be told
    local file others=()
    for file in "${@:2}"; do
        if [ -z "${kinds[$file]:-}" ]; then others+=("$file"); fi
    done
    [ ${#others[@]} -eq 0 ] || generate "${others[@]}" $1
    for file in "${@:2}"; do
        [ -z "${kinds[$file]:-}" ] || generate "$file" $1 --kind "${kinds[$file]}"
    done
}

name_of() { # the name of a data set's folder, as 01_generate.py gives it
    local name
    name=$(basename "$1")
    echo "${name%%.json*}"
}

runs_of() { # DATA_SET...: print those of their runs that there are, a line each
    local name seed
    for name in "$@"; do
        for seed in "${run_seeds[@]}"; do
            [ ! -d "$base/$name/$seed" ] || echo "$base/$name/$seed"
        done
    done
}

with_labels() { # print only those runs of the input that have labels
    local run
    while read -r run; do
        if grep -qE '"label": *[01]' "$run/labels.jsonl"; then echo "$run"; fi
    done
}

# ---- The paper's parts beyond calibrating and selecting in pairs

part() { # NAME COMMAND...: a part that cannot be had is named, and the rest goes on
    local code=0
    "${@:2}" >>"$log" || code=$?
    case $code in
        0) ;;
        2) echo "missing: $1 (the reason stands above)" >&2 ;;
        *) exit $code ;;
    esac
}

# The plan names the data sets that cannot be had. What needs one of them is left out in silence.

study() { # NAME SET...: train the scorers of one of 03's studies on the runs of these data sets
    local set
    for set in "${@:2}"; do [ -n "$(runs_of "$set")" ] || return 0; done
    mapfile -t runs < <(runs_of "${@:2}")
    part "the study of $1 on ${*:2}" step 03_train_scorer.py "${runs[@]}" --study "$1" --seed $SEEDS \
        ${FLAGS_03:-} -o "$studies"
}

of_this_command() { # FILE...: print those scorers whose runs and seed are this command's; others are older
    local IFS='|'
    local run="(${run_seeds[*]})" seed="(${SEEDS// /|})"
    printf '%s\n' "$@" | grep -E "@$run(\+$run)*-$seed\.pt$" || true
}

reuse() { # SET ROW...: rows of studies whose search is the one that made the scorers of this data set
    local scorer row
    of_this_command "$base/$1"/*/scatr."$1"@*.pt | while read -r scorer; do
        for row in "${@:2}"; do cp -p "$scorer" "$studies/$row.${scorer##*/scatr.}"; done
    done
}

train_studies() { # HUMANEVAL KODCODE MATH500 AIME25
    local seed set
    for seed in "${run_seeds[@]}"; do # one pass over the tokens reads all layers and tokens of the studies
        [ -d "$base/$1/$seed" ] || continue
        part "vectors for studies, seed $seed" step 01_generate.py "${arguments_01[@]}" "${sets[@]:0:2}" \
            --seed "$seed" --layers .15,.3,.45,.6,.75,.9,penultimate,final --extra last10,special
    done
    mkdir -p "$studies"
    for set in "$@"; do reuse "$set" "mixed-$set" halves-other; done
    for set in "$1" "$2"; do reuse "$set" layers-L-1 fraction-100% designs-scatr; done
    for set in layers fraction designs; do study $set "$1" "$2"; done
    study mixed "$3" "$1"
    study mixed "$3" "$2"
    study halves "$1" "$2"
    study halves "$2" "$1"
    study halves "$4" "$3"
}

score() { # "SET ..." SCORER...
    mapfile -t runs < <(runs_of $1)
    mapfile -t scorers < <(of_this_command "${@:2}")
    [ ${#runs[@]} -gt 0 ] && [ ${#scorers[@]} -gt 0 ] || return 0
    part "scores of $1" step 04_select.py "${runs[@]}" --scorer "${scorers[@]}"
}

score_by_studies() { # SET OTHER: by the scorers that learned from the other data set, and from its half
    score "$1" "$studies"/{layers,fraction,designs}-*."$2"@*.pt "$studies"/mixed-mixed.*+"$2"@*.pt \
        "$studies"/halves-other."$2"@*.pt "$studies"/halves-same."$1"@*.pt
}

score_by_lora() { # HUMANEVAL KODCODE MATH500 AIME25
    local seed set epochs
    for set in "$@"; do
        epochs=1
        [ "$set" != "$4" ] || epochs=6 # as in the authors' code
        for seed in "${run_seeds[@]}"; do
            [ -d "$base/$set/$seed" ] || continue
            mapfile -t runs < <(runs_of "$@" | grep "/$seed$" | grep -vxF "$base/$set/$seed")
            part "LoRA on $set, run $seed" step 05_baselines.py lora "$base/$set/$seed" --eval "${runs[@]}" \
                --seed $SEEDS --epochs $epochs ${lora_flags[@]}
        done
    done
}

score_by_reward_models() { # HUMANEVAL KODCODE MATH500 AIME25 AIME24: by the first one all, by others maths
    local prm of=("$@")
    [ -n "$PRMS" ] || echo "missing: reward models, as PRMS names none" >&2
    for prm in $PRMS; do
        mapfile -t runs < <(runs_of "${of[@]}")
        [ ${#runs[@]} -eq 0 ] || part "reward model $prm" step 05_baselines.py prm "${runs[@]}" --prm "$prm"
        of=("${@:3}")
    done
}

route() { # MATH_SET CODE_SET SET...: pick for the others by the scorers that learned from the first two
    local math code
    mapfile -t math < <(of_this_command "$base/$1"/*/scatr."$1"@*.pt)
    mapfile -t code < <(of_this_command "$base/$2"/*/scatr."$2"@*.pt)
    mapfile -t runs < <(runs_of "${@:3}")
    [ ${#math[@]} -gt 0 ] && [ ${#code[@]} -gt 0 ] && [ ${#runs[@]} -gt 0 ] || return 0
    part "routing on ${*:3}" step 05_baselines.py route "${runs[@]}" --math "${math[@]}" --code "${code[@]}"
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
    -h | --help) sed -n '2,24s/^# \{0,1\}//p' "$here/run_all.sh"; exit ;;
    --python) find_python; exit ;;
esac
paper=0 only_plan=0 lora_flags=()
if [ "${1:-}" = --paper ]; then
    paper=1
    shift
    for argument in "$@"; do
        shift
        if [ "$argument" = --plan ]; then only_plan=1; else set -- "$@" "$argument"; fi
    done
    [ $# -le 1 ] || fail "--paper takes a model, or nothing for the demo's (bash run_all.sh -h)"
    sets=(humaneval kodcode math500 aime25 aime24 openthoughts)
    if [ $# -eq 0 ]; then # the demo's files in these places; two are made of the last of their problems
        OUT=${OUT:-runs/demo} N=${N:-8} LIMIT=${LIMIT:-16} RUNS=${RUNS:-1} SEEDS=${SEEDS:-32 42} PRMS=${PRMS-}
        paper_folder=$OUT/paper lora_flags=(--limit 4) # LoRA is most of the work
        FLAGS_03=${FLAGS_03:---configs 2 --rollouts 8}
        export OMP_NUM_THREADS=1 # threads of so small a model only wait for each other
        mkdir -p "$OUT"
        tail -n 100 "$here/demo/math_b.jsonl" >"$OUT/math_c.jsonl"
        tail -qn 8 "$here/demo/math_a.jsonl" "$here/demo/code_a.jsonl" >"$OUT/both_c.jsonl"
        sets=("$here/demo/"{code_a,code_b,math_a,math_b}.jsonl "$OUT/"{math_c,both_c}.jsonl)
    fi
    set -- "${1:-$here/demo/model}" "${sets[@]:0:4}"
    RUNS=${RUNS:-3} BOTH=1 FLAGS_01="--max-new-tokens 0 ${FLAGS_01:-}"
    PRMS=${PRMS-Gen-Verse/ReasonFlux-PRM-1.5B Gen-Verse/ReasonFlux-PRM-7B}
    shopt -s nullglob
fi
if [ $# -eq 1 ] || [ $# -gt 0 -a $(($# % 2)) -eq 0 ]; then
    fail "give MODEL A B, or nothing for the demo (bash run_all.sh -h)"
fi
N=${N:-16} RUNS=${RUNS:-1} SEEDS=${SEEDS:-32 42 52} BOTH=${BOTH:-1} OUT=${OUT:-runs}
[[ $RUNS =~ ^[1-9][0-9]*$ ]] || fail "RUNS is '$RUNS'; give a whole number from 1"
processes= # of step 1
if [ $# -eq 0 ]; then
    set -- "$here/demo/model" "$here/demo/"{math_a,math_b,code_a,code_b}.jsonl
    processes=$(env -u OMP_NUM_THREADS nproc) # a process of this model keeps one core busy, not more
    [ "$processes" -le 4 ] || processes=4
    export OMP_NUM_THREADS=1
    FLAGS_03=${FLAGS_03:---configs 2 --rollouts 8} # the paper: 100 configurations, all rollouts
fi
[[ $1 != -* ]] || fail "$1 is no option (bash run_all.sh -h)"

PYTHON=$(find_python)
arguments_01=("$1" -n "$N" --out "$OUT" ${LIMIT:+--limit "$LIMIT"} ${FLAGS_01:-})
arguments_03=(--separate --design scatr scatr+ logistic --seed $SEEDS ${FLAGS_03:-})
check_flags "N, LIMIT or FLAGS_01" 01_generate "${arguments_01[@]}" "${@:2}"
[[ ${FLAGS_02:-} != *--self-check* ]] || fail "--self-check is of problems: python 02_label.py A --self-check"
check_flags FLAGS_02 02_label RUN ${FLAGS_02:-}
check_flags "SEEDS or FLAGS_03" 03_train_scorer RUN "${arguments_03[@]}"
check_flags FLAGS_05 05_baselines RUN ${FLAGS_05:-}
base=$OUT/$(PYTHONPATH=$here "$PYTHON" - "$1" <<<'import sys, common; print(common.model_name(sys.argv[1]))')
studies=$base/studies
more=() # data sets of the paper that are in no pair
if [ $paper = 1 ]; then
    there=$(step 05_baselines.py plan "$1" --sets "${sets[@]}" -n "$N" --runs "$RUNS" --seeds $SEEDS \
        ${LIMIT:+--limit "$LIMIT"})
    set -- "$1"
    for i in 0 2; do # pairs of sets that can both be had
        if grep -qxF "${sets[i]}" <<<"$there" && grep -qxF "${sets[i + 1]}" <<<"$there"; then
            set -- "$@" "${sets[@]:i:2}"
        else
            echo "left out: ${sets[*]:i:2}, as not both of them can be had" >&2
        fi
    done
    [ $# -gt 1 ] || fail "neither of the paper's pairs of data sets can be had"
    [ $only_plan = 0 ] || exit 0
    mapfile -t more < <(printf '%s\n' "${sets[@]:4}" | grep -xF "$there")
    set_names=()
    for set in "${sets[@]}"; do set_names+=("$(name_of "$set")"); done
fi

# Direction i calibrates on the runs of the data set calibrate_on[i] and selects on those of select_on[i].
files=("${@:2}") names=() calibrate_on=() select_on=() greedy_files=() run_seeds=()
declare -A kinds # of the files whose problems do not say theirs
for ((i = 0; i < RUNS; i++)); do run_seeds+=($((32 + 10 * i))); done
for ((i = 0; i < ${#files[@]}; i += 2)); do
    a=$(name_of "${files[i]}") b=$(name_of "${files[i + 1]}")
    [ "$a" != "$b" ] || fail "A and B are both named '$a' (select on other problems than you calibrate on)"
    names+=("$a" "$b")
    calibrate_on+=("$a") select_on+=("$b")
    file=${files[i + 1]}
    kinds[$file]=$(kind_for "${files[i]}" "$file")
    [ -z "${kinds[$file]}" ] || echo "$file: problems without a kind are ${kinds[$file]}, as those of $a" >&2
    [ ! -f "$file" ] || grep -qE '"(answer|tests)"' "$file" || continue # B can neither teach nor be judged
    greedy_files+=("$file")
    if [ "$BOTH" != 0 ]; then
        calibrate_on+=("$b") select_on+=("$a") greedy_files+=("${files[i]}")
    fi
done
learn_from=("${calibrate_on[@]}")
for file in "${more[@]}"; do
    names+=("$(name_of "$file")")
    [ "$file" != "${sets[5]}" ] || learn_from+=("$(name_of "$file")")
done

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
[ -n "$processes" ] || processes=$(count_gpus)
for seed in "${run_seeds[@]}"; do sample "--seed $seed" "${files[@]}" "${more[@]}"; done
sample --greedy "${greedy_files[@]}"
mapfile -t all_runs < <(runs_of "${names[@]}")
for file in "${greedy_files[@]}"; do all_runs+=("$base/$(name_of "$file")/greedy"); done

say 2 "label: ${names[*]}"
step 02_label.py "${all_runs[@]}" ${FLAGS_02:-} >&2

say 3 "train scorers: ${learn_from[*]}"
mapfile -t calibration_runs < <(runs_of "${learn_from[@]}")
step 03_train_scorer.py "${calibration_runs[@]}" "${arguments_03[@]}" >>"$log" # names runs that teach nothing

if [ $paper = 1 ]; then # answers.jsonl is of the last scorers, so those of step 4 come after these
    say 3 "train scorers of the studies"
    train_studies "${set_names[@]:0:4}"
    say 4 "score: by the studies, by ${set_names[5]}, by LoRA, reward models and routing"
    score_by_studies "${set_names[0]}" "${set_names[1]}"
    score_by_studies "${set_names[1]}" "${set_names[0]}"
    score_by_studies "${set_names[2]}" "${set_names[3]}"
    score "${set_names[*]:2:3}" "$base/${set_names[5]}"/*/scatr."${set_names[5]}"@*.pt
    score_by_lora "${set_names[@]:0:4}"
    score_by_reward_models "${set_names[@]:0:5}"
    # No data set is routed to scorers that learned from it, but to those of its partner
    route "${set_names[2]}" "${set_names[1]}" "${set_names[0]}" "${set_names[@]:3:2}"
    route "${set_names[2]}" "${set_names[0]}" "${set_names[1]}"
    route "${set_names[3]}" "${set_names[0]}" "${set_names[2]}"
fi

say 4 "select: ${select_on[*]}"
report_runs=() scorer_names=()
for i in "${!select_on[@]}"; do
    from=${calibrate_on[i]}
    mapfile -t scorers < <(of_this_command "$base/$from"/*/{scatr,scatr+,logistic}."$from"@*.pt)
    [ ${#scorers[@]} -gt 0 ] || continue # nothing could be learned from these runs
    mapfile -t selected < <(runs_of "${select_on[i]}")
    mapfile -t labelled < <(runs_of "${select_on[i]}" | with_labels)
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
if [ $paper = 1 ]; then
    flags=()
    for name in layers fraction designs mixed halves; do
        if compgen -G "$base/*/*/scores/$name-*.jsonl" >/dev/null; then flags+=(--study "$name"); fi
    done
    for prm in $PRMS; do flags+=(--only "prm.$(basename "$prm")*"); done
    for run in "${run_seeds[@]}"; do
        for seed in $SEEDS; do flags+=(--only "*@$run-$seed" "*@$run+$run-$seed"); done
    done
    mapfile -t labelled < <(runs_of "${set_names[4]}" | with_labels)
    step 05_baselines.py "${report_runs[@]}" "${labelled[@]}" "${flags[@]}" --sets "${set_names[@]}" \
        --out "${paper_folder:=$base/paper}" ${FLAGS_05:-} >>"$log"
    step 05_baselines.py paper "$paper_folder/results.json" $([[ ${FLAGS_05:-} != *--plots* ]] || echo --plots)
    exit
fi
out=$base/$(IFS=-; echo "${names[*]}")
step 05_baselines.py "${report_runs[@]}" --only "${scorer_names[@]}" --out "$out" ${FLAGS_05:-}
printf 'one answer a problem: %s/answers.jsonl\n' "${report_runs[@]}"
