# What run_all.sh --paper does beyond calibrating and selecting in pairs, which reads this file: its data sets,
# the studies, LoRA, reward models, routing, the paper's page. The names of functions and variables that are not
# here are those of run_all.sh.

lora_flags=() paper_folder=
choose_sets() { # NUMBER: of its arguments; without any the paper's experiment is the demo's, small
    sets=(humaneval kodcode math500 aime25 aime24 openthoughts)
    if [ "$1" -eq 0 ]; then # the demo's files in these places; two are made of the last of their problems
        OUT=${OUT:-runs/demo} N=${N:-8} LIMIT=${LIMIT:-16} RUNS=${RUNS:-1} SEEDS=${SEEDS:-32 42} PRMS=${PRMS-}
        paper_folder=$OUT/paper lora_flags=(--limit 4) # LoRA is most of the work
        mkdir -p "$OUT"
        tail -n 100 "$here/demo/math_b.jsonl" >"$OUT/math_c.jsonl"
        tail -qn 8 "$here/demo/math_a.jsonl" "$here/demo/code_a.jsonl" >"$OUT/both_c.jsonl"
        sets=("$here/demo/"{code_a,code_b,math_a,math_b}.jsonl "$OUT/"{math_c,both_c}.jsonl)
    fi
    RUNS=${RUNS:-3} BOTH=1 FLAGS_01="--max-new-tokens 0 ${FLAGS_01:-}"
    PRMS=${PRMS-Gen-Verse/ReasonFlux-PRM-1.5B Gen-Verse/ReasonFlux-PRM-7B}
}

name_sets() { # the last two are in no pair: nothing calibrates on one and selects on the other
    read -r humaneval kodcode math500 aime25 aime24 openthoughts <<<"${names[*]}"
    pairs=("${names[@]:0:4}") calibrate_on=("${calibrate_on[@]:0:4}") select_on=("${select_on[@]:0:4}")
    greedy_files=("${greedy_files[@]:0:4}") greedy_runs=("${greedy_runs[@]:0:4}")
}

part() { # NAME COMMAND...: if it is refused, say so and go on with the rest
    "${@:2}" >>"$log" || say_missing $? "$1 (the reason stands above)"
}

begun=0 pid_on=() part_on=()
part_on_a_gpu() { # NAME ARGUMENT...: begin a part of 05, on the next GPU, while those on the others go on
    local gpu=$((begun++ % gpus)) errors=2 place=above
    wait_for $gpu
    [ $gpu = 0 ] || errors=9 place="in $log"
    LOCAL_RANK=$gpu "$PYTHON" "$here/05_baselines.py" "${@:2}" >>"$log" 2>&$errors &
    pid_on[gpu]=$! part_on[gpu]="$1 (the reason stands $place)"
}

wait_for() { # GPU...: until their parts have ended
    local gpu
    for gpu in "$@"; do
        [ -z "${pid_on[gpu]:-}" ] || wait ${pid_on[gpu]} || say_missing $? "${part_on[gpu]}"
        pid_on[gpu]=
    done
}

study() { # NAME SET...: train the scorers of one of 03's studies on the runs of these data sets
    mapfile -t runs < <(runs_of "${@:2}")
    part "the study of $1 on ${*:2}" train "${runs[@]}" --study "$1" --seed $SEEDS ${FLAGS_03:-} -o "$studies"
}

reuse() { # SET ROW...: rows of studies whose search is the one that made the scorers of this data set
    local scorer row
    scorers_of "$1" scatr. | while read -r scorer; do
        for row in "${@:2}"; do cp -p "$scorer" "$studies/$row.${scorer##*/scatr.}"; done
    done
}

train_studies() {
    say 3 "train scorers of the studies"
    local seed set name flags=(--layers .15,.3,.45,.6,.75,.9,penultimate,final --extra last10,special)
    [[ ${FLAGS_01:-} != *--engine*vllm* ]] || flags=(--layers .15,.3,.45,.6,.75,.9,penultimate)
    for seed in "${run_seeds[@]}"; do # one pass over the tokens reads all for the studies, or what vLLM can
        part "vectors for studies, seed $seed" generate "${sets[@]:0:2}" --seed "$seed" "${flags[@]}"
    done
    mkdir -p "$studies"
    for set in "${pairs[@]}"; do reuse "$set" "mixed-$set" halves-other; done
    for set in $humaneval $kodcode; do reuse $set layers-L-1 fraction-100% designs-scatr; done
    for name in layers fraction designs; do study $name $humaneval $kodcode; done
    study mixed $math500 $humaneval
    study mixed $math500 $kodcode
    study halves $humaneval $kodcode
    study halves $kodcode $humaneval
    study halves $aime25 $math500
}

score() { # "SET ..." SCORER...
    [ $# -gt 1 ] || return 0 # their study is missing
    mapfile -t runs < <(runs_of $1)
    part "scores of $1" step 04_select.py "${runs[@]}" --scorer "${@:2}"
}

score_by_studies() { # SET OTHER: by the scorers that learned from the other data set, and from its half
    local file scorers=()
    for file in "${made[@]}"; do
        case ${file##*/} in
            layers-*."$2"@* | fraction-*."$2"@* | designs-*."$2"@*) scorers+=("$file") ;;
            mixed-mixed.*+"$2"@* | halves-other."$2"@* | halves-same."$1"@*) scorers+=("$file") ;;
        esac
    done
    score "$1" "${scorers[@]}"
}

score_by_lora() {
    local seed set epochs
    for set in "${pairs[@]}"; do
        epochs=1
        [ "$set" != "$aime25" ] || epochs=6 # as in the authors' code
        for seed in "${run_seeds[@]}"; do
            mapfile -t runs < <(runs_of "${pairs[@]}" | grep "/$seed$" | grep -vxF "$base/$set/$seed")
            part_on_a_gpu "LoRA on $set, run $seed" lora "$base/$set/$seed" --eval "${runs[@]}" \
                --seed $SEEDS --epochs $epochs ${lora_flags[@]}
        done
    done
}

score_by_reward_models() { # the first one reads all, others maths; each GPU takes a share of the runs
    local prm share of=("${pairs[@]}" "$aime24")
    [ -n "$PRMS" ] || echo "missing: reward models, as PRMS names none" >&2
    for prm in $PRMS; do
        for ((share = 1; share <= gpus; share++)); do
            mapfile -t runs < <(runs_of "${of[@]}" | sed -n "$share~${gpus}p")
            [ ${#runs[@]} = 0 ] || part_on_a_gpu "reward model $prm" prm "${runs[@]}" --prm "$prm"
        done
        of=($math500 $aime25 $aime24)
    done
}

route() { # MATH_SET CODE_SET SET...: pick for the others by the scorers that learned from the first two
    local math code
    mapfile -t math < <(scorers_of "$1" scatr.)
    mapfile -t code < <(scorers_of "$2" scatr.)
    mapfile -t runs < <(runs_of "${@:3}")
    part_on_a_gpu "routing on ${*:3}" route "${runs[@]}" --math "${math[@]}" --code "${code[@]}"
}

score_beyond_pairs() {
    say 4 "score: by the studies, by $openthoughts, by LoRA, reward models and routing"
    score_by_studies $humaneval $kodcode
    score_by_studies $kodcode $humaneval
    score_by_studies $math500 $aime25
    mapfile -t scorers < <(scorers_of $openthoughts scatr.)
    score "$math500 $aime25 $aime24" "${scorers[@]}"
    score_by_lora
    score_by_reward_models
    # No data set is routed to scorers that learned from it, but to those of its partner
    route $math500 $kodcode $humaneval $aime25 $aime24
    route $math500 $humaneval $kodcode
    route $aime25 $humaneval $math500
    wait_for "${!pid_on[@]}"
}

report_as_paper() {
    local flags prm run seed
    # Hundreds of names of studies would stand in the command that the report quotes
    mapfile -t only < <(printf '%s\n' "${only[@]}" | sed -E 's/^([a-z]+)-.*@/\1-*@/' | sort -u)
    flags=(--study layers --study fraction --study designs --study mixed --study halves)
    for prm in $PRMS; do only+=("prm.$(basename "$prm")*"); done
    for run in "${run_seeds[@]}"; do
        for seed in $SEEDS; do only+=("lora.*@$run-$seed" "routed.*@$run+$run-$seed"); done
    done
    mapfile -t -O ${#report_runs[@]} report_runs < <(runs_of $aime24)
    step 05_baselines.py "${report_runs[@]}" "${flags[@]}" --only "${only[@]}" --sets "${names[@]}" \
        --out "${paper_folder:=$base/paper}" ${FLAGS_05:-} >>"$log"
    step 05_baselines.py paper "$paper_folder/results.json"
}
