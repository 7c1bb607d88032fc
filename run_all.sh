#!/usr/bin/env bash
# The five steps in order. Kill it at any moment and run it again: it resumes.
#
#   bash run_all.sh                      the bundled tiny model: on a CPU, minutes
#   bash run_all.sh MODEL A B [A B ...]  calibrate on A, select on B, and the
#                                        other way round if B can be checked
#   bash run_all.sh --paper MODEL        every table of the paper; without
#                                        MODEL for the bundled one, small
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
#   FLAGS_01= ... FLAGS_05=   more flags for a step than these settings, such as
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

find_python() { # print the path of a Python with the packages, new enough; make .venv if there is none
    local python venv=$here/.venv look_for_packages='
from importlib.metadata import version # importing them would take seconds
def number(name):
    return [int(part) for part in version(name).split(".")[:2]]
assert number("torch") >= [2, 11] and number("transformers") >= [5, 17]
assert version("numpy") and version("tqdm")'
    for python in "$venv/bin/python" python3; do
        if "$python" -c "$look_for_packages" 2>/dev/null; then command -v "$python"; return; fi
    done
    echo "making .venv and installing requirements.txt (once, minutes) ..." >&2
    python3 -m venv "$venv" >&2 &&
        "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt" >&2 ||
        fail "could not make .venv (see above); it takes Python 3.10 or newer, python3-venv and pip"
    echo "$venv/bin/python"
}

# ---- Steps

run() { # in the background, because bash handles a signal at once only while it waits
    "$@" &
    wait $!
}

step() { run "$PYTHON" "$here/$1" "${@:2}"; }

say() { echo "[$1/5] $2" >&2; }

look() { # ARGUMENTS OF 01 -- OF 03: refuse what is wrong, and print a line for each A and B: the folder of
    # all runs, theirs in it, A, B, and what a B that can neither teach nor be judged is asked as
    local said
    said=$("$PYTHON" - "$here" "$@" 2>&1 <<'PY'
import importlib, os, sys
from pathlib import Path
here, *words = sys.argv[1:]
sys.path.insert(0, here)
import common

BY_HAND = "call the script yourself for this"
OWN = {  # flags that run_all.sh gives by itself, and what to do instead
    "01_generate": {"--seed": "set RUNS", "--out": "set OUT", "-n": "set N", "--limit": "set LIMIT",
                    "--greedy": "leave it out", "--plan": BY_HAND, "--requests": BY_HAND,
                    "--responses": "give it to 01_generate.py first"},
    "02_label": {"--self-check": "say: python 02_label.py A --self-check"},
    "03_train_scorer": {"--seed": "set SEEDS", "--separate": "leave it out", "--study": BY_HAND},
    "04_select": {"--scorer": BY_HAND},
    "05_baselines": {"--out": "set OUT"},
}

def check():
    end = words.index("--")
    given = {"01_generate": words[:end], "03_train_scorer": words[end + 1:]}
    for script, own in OWN.items():
        setting = f"FLAGS_{script[:2]}"
        flags = os.environ.get(setting, "").split()
        for flag in (word.partition("=")[0] for word in flags):
            if flag in own:
                common.die(f"{setting}: run_all.sh gives {flag} by itself; {own[flag]}")
        sys.argv[0] = f"{script}.py"  # argparse begins its message with it
        given[script] = importlib.import_module(script).parse_args(given.get(script, ["RUN", *flags]))
    sampling = given["01_generate"]
    check_vectors(sampling, given["03_train_scorer"])
    base = Path(sampling.out, common.model_name(sampling.model))
    for pair in zip(sampling.datasets[::2], sampling.datasets[1::2]):
        found = look_at(*pair, sampling, given["04_select"].strategy)
        print("pair", base, *map(common.short_name, pair), *pair, *found, sep="\t")

def check_vectors(sampling, training):
    for design in training.design:
        vector = importlib.import_module("03_train_scorer").make_recipe(training, (), 0, design).vector
        layer, _, token = vector.partition("/")
        if layer in sampling.layers and token in common.TOKENS:
            continue
        if vector in common.EXTRA_INPUTS:
            is_kept, flag = vector in sampling.extra, f"--extra {vector}"
        else:
            config = common.load_config(sampling.model, sampling.revision)
            n_layers = config.get_text_config().num_hidden_layers
            kept = importlib.import_module("01_generate").layers_of(sampling.layers, n_layers)
            is_kept = len(kept) > 2 if layer == "all" else common.vector_key(vector, n_layers)[0] in kept
            flag = f"--layers {','.join(sampling.layers)},{layer}"
        if not is_kept:
            common.die(f"FLAGS_03: step 1 would not keep the vector {vector}; set FLAGS_01='{flag}'")

def look_at(a, b, sampling, strategy):
    to_learn, to_answer = (common.load_problems(file, sampling.limit, sampling.kind) for file in (a, b))
    if strategy == "weighted-vote" and all(problem["kind"] == "code" for problem in to_answer):
        common.die(f"FLAGS_04: {b} asks for programs, which cannot be equal; leave out --strategy {strategy}")
    fields, fields_of_b = ({name for row in rows for name in row} for rows in (to_learn, to_answer))
    is_checked = not fields_of_b.isdisjoint(("answer", "tests"))
    if fields.isdisjoint(("answer", "tests")):
        swapped = f" ({b} has them: give MODEL {b} {a}?)" if is_checked else ""
        only = ", ".join(sorted(fields - {"id", "kind"}))
        common.die(f"{a}: no problem has an `answer` or `tests` to learn from, only {only}{swapped}")
    if is_checked:
        return []
    kinds = [sampling.kind] if sampling.kind else sorted({problem["kind"] for problem in to_learn})
    kind = kinds[0] if len(kinds) == 1 else "text"
    return kind, f"{b}: problems without a kind are {kind}, as those of {a} are {', '.join(kinds)}"

common.entry(check, "no step was started")
PY
    ) || { said=${said##*$'\n'}; fail "${said/error: /}"; }
    echo "$said"
}

plan() { # FILE...: refuse too long prompts, and a run that cannot go on
    local said
    said=$("$PYTHON" "$here/01_generate.py" "${arguments_01[@]}" --plan "$@" 2>&1) || fail "${said##*error: }"
}

generate() { # in as many processes as `processes` says, which share the problems
    local rank pid pids=() code=0 other=0 command=("$PYTHON" "$here/01_generate.py" "${arguments_01[@]}" "$@")
    [ "$processes" = 1 ] || local -x WORLD_SIZE=$processes RANK=0
    for ((rank = 1; rank < processes; rank++)); do
        RANK=$rank "${command[@]}" >/dev/null 2>>"$log" &
        pids+=($!)
    done
    run "${command[@]}" >/dev/null || code=$?
    for pid in "${pids[@]}"; do wait "$pid" || other=$?; done
    [ $code = 0 ] || return $code
    [ $other = 0 ] || echo "error: a process of 01 ended too early; $log says why" >&2
    return $other
}

for_all_files() { # plan or generate, and ARGUMENT...: the checked files at once, the open ones as their kinds
    local i
    "$@" "${checked_files[@]}"
    for i in "${!open_files[@]}"; do "$@" "${open_files[i]}" --kind ${open_kinds[i]}; done
}

runs_of() { # DATA_SET...: print their runs, a line each
    local name seed
    for name in "$@"; do
        for seed in "${run_seeds[@]}"; do echo "$base/$name/$seed"; done
    done
}

has_labels() { grep -qE '"label": *[01]' "$base/$1/${run_seeds[0]}/labels.jsonl"; } # DATA_SET

train() { # ARGUMENT...: run 03, and add the scorers that are now as it was asked for to `made`
    local begin=$(($(wc -l <"$log") + 1))
    step 03_train_scorer.py "$@" >>"$log" || return
    mapfile -t -O ${#made[@]} made < <(tail -n "+$begin" "$log" | sed -n 's/^scorer: //p')
}

scorers_of() { # DATA_SET [BEGINNING]: print those that learned from its runs, whose names begin so
    local file
    for file in "${made[@]}"; do
        [[ $file != "$base/$1/"*/"${2:-}"* ]] || echo "$file"
    done
}

say_missing() { # EXIT_CODE WHAT
    [ $1 = 2 ] || exit $1
    echo "missing: $2" >&2
}

stop() { # EXIT_CODE: end all processes; a second Ctrl-C does not wait for them
    trap - INT TERM
    kill -INT $(jobs -p) 2>/dev/null || true
    wait
    exit "$1"
}

# ---- Arguments and settings

case "${1:-}" in
    -h | --help) sed -n '2,24s/^# \{0,1\}//p' "$here/run_all.sh"; exit ;;
    --python) find_python; exit ;;
esac
paper=0 openthoughts= processes= # processes of step 1: a GPU each, unless something else is said
if [ "${1:-}" = --paper ]; then
    paper=1
    shift
    [ $# -le 1 ] || fail "--paper takes a model, or nothing for the demo's (bash run_all.sh -h)"
fi
[[ ${1:-} != -* ]] || fail "$1 is no option (bash run_all.sh -h)"
if [ $# -eq 0 ]; then # the demo's model
    cores=$(env -u OMP_NUM_THREADS nproc)
    export OMP_NUM_THREADS=1 # threads of so small a model only wait for each other
    FLAGS_03=${FLAGS_03:---configs 2 --rollouts 8} # the paper: 100 configurations, all rollouts
fi
if [ $paper = 1 ]; then
    source "$here/demo/paper.sh"
    choose_sets $#
    set -- "${1:-$here/demo/model}" "${sets[@]}"
elif [ $# -eq 0 ]; then
    set -- "$here/demo/model" "$here/demo/"{math_a,math_b,code_a,code_b}.jsonl
    processes=$((cores < 4 ? cores : 4)) # each keeps one core busy, not more
elif [ $# -lt 3 ] || [ $(($# % 2)) -eq 0 ]; then
    fail "give MODEL A B, or nothing for the demo (bash run_all.sh -h)"
else
    FLAGS_03="--configs 30 ${FLAGS_03:-}" # more picked no more right answers (tests/README.md)
fi
RUNS=${RUNS:-1} SEEDS=${SEEDS:-32 42 52} BOTH=${BOTH:-1}
[[ $RUNS =~ ^[1-9][0-9]*$ ]] || fail "RUNS is '$RUNS'; give a whole number from 1"
[[ $BOTH = [01] ]] || fail "BOTH is '$BOTH'; give 1 or 0"
export FLAGS_01 FLAGS_02 FLAGS_03 FLAGS_04 FLAGS_05

PYTHON=$(find_python)
files=("${@:2}")
arguments_01=("$1" ${N:+-n "$N"} --out "${OUT:-runs}" ${LIMIT:+--limit "$LIMIT"} ${FLAGS_01:-})
arguments_03=(--separate --design scatr scatr+ logistic --seed $SEEDS ${FLAGS_03:-})
facts=$(look "${arguments_01[@]}" "${files[@]}" -- RUN "${arguments_03[@]}") || exit

# Direction i calibrates on the runs of the data set calibrate_on[i] and selects on those of select_on[i].
names=() calibrate_on=() select_on=() run_seeds=() made=()
checked_files=() open_files=() open_kinds=() greedy_files=() greedy_runs=()
while IFS=$'\t' read -r mark folder a b file_a file_b kind note; do
    [ "$mark" = pair ] || continue # else something that a script has said
    base=$folder
    names+=("$a" "$b") calibrate_on+=("$a") select_on+=("$b") checked_files+=("$file_a")
    if [ -n "$kind" ]; then
        echo "$note" >&2
        open_files+=("$file_b") open_kinds+=("$kind")
        continue
    fi
    checked_files+=("$file_b") greedy_files+=("$file_b") greedy_runs+=("$base/$b/greedy")
    if [ "$BOTH" = 1 ]; then
        calibrate_on+=("$b") select_on+=("$a") greedy_files+=("$file_a") greedy_runs+=("$base/$a/greedy")
    fi
done <<<"$facts"
twice=$(printf '%s\n' "${names[@]}" | sort | uniq -d | head -n 1)
[ -z "$twice" ] || fail "two are named '$twice'; rename one (select on other problems than you calibrate on)"
if [ $paper = 1 ]; then name_sets; fi
learn_from=("${calibrate_on[@]}" $openthoughts)
for ((i = 0; i < RUNS; i++)); do run_seeds+=($((32 + 10 * i))); done
for_all_files plan

log=$base/run_all.log studies=$base/studies
mkdir -p "$base" 2>/dev/null && [ -w "$base" ] || fail "cannot write to $base; choose another OUT"
trap 'stop 130' INT
trap 'stop 143' TERM
exec 9>>"$log" # the file to lock, as a folder cannot be locked on NFS; a killed process loses its lock
flock -n 9 || echo "waiting for another run_all.sh that is at work in $base" >&2
until flock -n 9; do sleep 1; done # a waiting flock would not let bash handle a signal
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# ---- The five steps

say 1 "generate: ${names[*]}"
if [ -z "$processes" ]; then
    gpus=$("$PYTHON" -c 'import torch; print(max(1, torch.cuda.device_count()))')
    processes=$gpus
    [[ ${FLAGS_01:-} != *--@(device|engine)* ]] || processes=1 # these say what samples
fi
for seed in "${run_seeds[@]}"; do for_all_files generate --seed "$seed"; done
[ ${#greedy_files[@]} -eq 0 ] || generate "${greedy_files[@]}" --greedy

say 2 "label: ${names[*]}"
mapfile -t runs < <(runs_of "${names[@]}")
step 02_label.py "${runs[@]}" "${greedy_runs[@]}" ${FLAGS_02:-} >&2

say 3 "train scorers: ${learn_from[*]}"
mapfile -t runs < <(runs_of "${learn_from[@]}")
train "${runs[@]}" "${arguments_03[@]}" || {
    code=$?
    [ "$(tail -n 1 "$log")" = "nothing to learn" ] || exit $code
    say_missing $code "scorers (the reason stands above)"
}

if [ $paper = 1 ]; then # answers.jsonl is of the last scorers, so those of step 4 come after these
    train_studies
    score_beyond_pairs
fi

say 4 "select: ${select_on[*]}"
report_runs=() said=
for i in "${!select_on[@]}"; do
    mapfile -t scorers < <(scorers_of "${calibrate_on[i]}")
    mapfile -t selected < <(runs_of "${select_on[i]}")
    if [ ${#scorers[@]} -gt 0 ]; then
        scorers=(--scorer "${scorers[@]}")
    else
        echo "${select_on[i]}: no scorer picks, as none has learned from ${calibrate_on[i]} (see step 3)" >&2
    fi
    begin=$(($(wc -l <"$log") + 1))
    step 04_select.py "${selected[@]}" "${scorers[@]}" ${FLAGS_04:-} >>"$log"
    said+=$(tail -n "+$begin" "$log")$'\n'
    if has_labels "${select_on[i]}"; then
        report_runs+=("${selected[@]}") # the report shows what 04 prints
    else
        tail -n "+$begin" "$log"
        echo "${selected[*]}: no labels to judge the answers by, so no report"
    fi
done

[ ${#report_runs[@]} -gt 0 ] || exit 0
say 5 "report: ${select_on[*]}"
mapfile -t only < <(printf '%s\n' "${made[@]##*/}" | sed 's/\.pt$//')
if [ $paper = 1 ]; then
    report_as_paper
    exit
fi
out=$base/$(IFS=-; echo "${names[*]}")
step 05_baselines.py "${report_runs[@]}" --only "${only[@]}" --out "$out" ${FLAGS_05:-}
sed -nE 's/^(.*answers\.jsonl): .* picked by$/one answer a problem: \1/p
    /^the scorer that picked: /p' <<<"$said"
