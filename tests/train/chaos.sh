#!/usr/bin/env bash
# chaos.sh: workers die again and again, in every phase of a step, of what follows it and of recovery itself, under many layouts;
# each run ends with the weights and losses of one that nobody disturbed, or with a named error and a checkpoint from which
# --resume gets there. No third end, no process left over. KILLS=n sets the number of deaths, SEED=n the draws.
#
# In the short tier deaths come from failpoints (src/base/fault.h). In the long tier (`make test-chaos`) every other run is
# disturbed from outside instead: kill -9 of any worker, resizes, kill -9 of the parent.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

case "$TIER:$BUILD" in
long:*) kills=${KILLS:-1000} ;;
*:*asan* | *:*tsan* | *:*ubsan*) kills=${KILLS:-20} ;;
*) kills=${KILLS:-100} ;;
esac
RANDOM=${SEED:=$((${EPOCHREALTIME/[.,]/} % 30000))}
echo "$kills deaths, seed $SEED"

steps=10
each=7 # deaths of a run at most
model=$scratch/model.json
echo '{"arch": "gpt2", "vocab": 256, "width": 36, "layers": 3, "heads": 4, "head-size": 9, "hidden": 50, "positions": 24}' >"$model"
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --dropout 0.1 --warmup 5 --lr-schedule constant
            --threads 1 --steps $steps --eval-every 3 --eval-batches 1 --sample-every 0 --save-every 4 --no-pin)
kinds=(plain bf16 fp16)
options_of() {
    case $1 in
    plain) echo ;;
    bf16) echo "--precision bf16" ;;
    fp16) echo "--precision fp16 --optimizer sgd --momentum 0.9" ;;
    esac
}
layouts=('1 --dp 1' '2 --dp 2' '2 --dp 2 --zero 3' '3 --dp 3 --zero 2' '2 --tp 2' '4 --dp 2 --tp 2' '4 --dp 2 --pp 2 --zero 3'
         '2 --pp 2' '4 --tp 2 --pp 2' '4 --dp 4 --zero 0' '4 --dp 4 --zero 1' '8 --dp 2 --tp 2 --pp 2' '2 --dp 2 --spares 1'
         '6 --dp 3 --tp 2 --zero 2')
points=(forward forward reduced commit update update update publish stepped evaluate save saved adopt ready start finish)

case_begin "the undisturbed runs"
declare -A final
for kind in "${kinds[@]}"; do
    # shellcheck disable=SC2046 # flags are words
    train "${experiment[@]}" --restarts 0 --out "$scratch/whole-$kind" $(options_of "$kind")
    expect_status 0
    final[$kind]=$(weights)
    losses "$scratch/whole-$kind" >"$scratch/$kind.losses"
done

pick() {
    local -n list=$1
    picked=${list[RANDOM % ${#list[@]}]}
}

# One death for each attempt; steps go on, so that most of them happen.
draw_deaths() {
    local workers=$1 attempt step=0
    deaths=
    for ((attempt = 0; attempt < each; attempt++)); do
        pick points
        step=$((step + RANDOM % 2))
        case $picked in
        adopt | finish) deaths+="$picked:$((RANDOM % workers)):-1:$attempt:$((RANDOM % 9 + 1))," ;;
        start | ready) deaths+="$picked:$((RANDOM % workers)):-1:$attempt," ;;
        update) deaths+="update:$((RANDOM % workers)):$step:$attempt:$((RANDOM % 20 + 1))," ;;
        evaluate) deaths+="evaluate:$((RANDOM % workers)):-1:$attempt," ;;
        save | saved) deaths+="$picked:$((RANDOM % workers)):-1:$attempt," ;;
        *) deaths+="$picked:$((RANDOM % workers)):$step:$attempt," ;;
        esac
        # Where that one does not come by, another will.
        deaths+="forward:0:$((step + 2)):$attempt,"
    done
    deaths=${deaths%,}
}

children() { # into `pids`
    pids=()
    { read -r -a pids <"/proc/$child/task/$child/children"; } 2>/dev/null || true
}

# From outside, until the run is over or has had enough.
disturb() {
    local out=$1 turn
    parent_killed=0
    for ((turn = 0; turn < each; turn++)); do
        sleep "0.$((RANDOM % 40 + 5))"
        is_alive "$child" || return
        children
        case $((RANDOM % 12)) in
        0) [ -e "$out/identity.json" ] && parent_killed=1 && kill -KILL "$child" 2>/dev/null && return ;;
        1 | 2) "$LOCKSTEP" resize "$out" --workers $((RANDOM % 4 + 1)) >/dev/null 2>&1 && resizes=$((resizes + 1)) ;;
        *) [ ${#pids[@]} -gt 0 ] && kill -KILL "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null ;;
        esac
    done
}

# Processes of the run that are there; workers have the environment of their parent.
marked() { grep -lsz "^$mark\$" /proc/[0-9]*/environ 2>/dev/null | wc -l; }

leftovers=0
lost=0 runs=0 ended=0 errors=0 resizes=0 parents=0
while [ "$lost" -lt "$kills" ]; do
    runs=$((runs + 1))
    pick layouts
    workers=${picked%% *} layout=${picked#* }
    pick kinds
    kind=$picked out=$scratch/run
    rm -rf "$out"
    deaths='' parent_killed=0
    [ "$TIER" = long ] && [ $((runs % 2)) -eq 0 ] || draw_deaths "$workers"
    case_begin "run $runs, $kind, $layout, LS_FAULT_POINT=$deaths"
    mark=CHAOS_RUN=$$-$runs
    # shellcheck disable=SC2046,SC2086 # flags are words
    CHAOS_RUN=${mark#*=} LS_FAULT_POINT=$deaths start "${experiment[@]}" --restarts 1000 --out "$out" $layout $(options_of "$kind")
    [ -n "$deaths" ] || disturb "$out"
    reap
    lost=$((lost + $(grep -c 'was killed by signal 9' "$scratch/err")))
    if [ "$parent_killed" -eq 1 ] && [ "$status" -eq 137 ]; then
        parents=$((parents + 1))
        end=$(($(now_ms) + 2000))
        while [ "$(marked)" -gt 0 ] && [ "$(now_ms)" -lt $end ]; do sleep 0.01; done
    fi
    left=$(marked)
    leftovers=$((leftovers + left))
    [ "$left" -eq 0 ] || fail "$left processes are left"
    if [ "$status" -eq 0 ]; then
        ended=$((ended + 1))
    else
        errors=$((errors + 1))
        [ "$status" -eq 3 ] || [ "$parent_killed" -eq 1 ] || fail "exit status $status"
        [ "$parent_killed" -eq 1 ] || [ "$(grep -c '^lockstep: error: worker [0-9]' "$scratch/err")" -eq 1 ] || fail "not one named error"
        for folder in "$out"/checkpoints/step-*[0-9]; do
            [ ! -e "$folder" ] || [ -e "$folder/complete.json" ] || fail "$folder has no marker"
        done
        flags=()
        [ ! -e "$out/identity.json" ] || flags=(--resume)
        # shellcheck disable=SC2046 # flags are words
        train "${experiment[@]}" --out "$out" "${flags[@]}" $(options_of "$kind")
    fi
    expect_weights "${final[$kind]}"
    expect_losses "$out" "$scratch/$kind.losses"
done
echo "$lost deaths in $runs runs: $ended ended on the undisturbed hash by themselves, $errors with a named error or a killed parent ($parents)" \
     "and then by --resume; $resizes resizes; $failures third states, $leftovers processes left"
[ "$runs" -ge 12 ] || [ "$kills" -lt 100 ] || fail "only $runs runs"
finished
