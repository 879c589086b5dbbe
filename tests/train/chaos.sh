#!/usr/bin/env bash
# chaos.sh: workers die and are stopped again and again, alone and all at once, runs are resized and suspended, parents are killed, and so
# are the page and the writer of event files beside a run: in every phase of a step, of
# what follows it, of resuming and of recovery itself, under many layouts. Each run ends with the weights, losses and evaluations of
# an undisturbed one, or with a named error and a checkpoint from which --resume gets there. No third end, no process left over.
#
# Some runs are disturbed by failpoints (src/base/fault.h), so that every place is hit; others from outside, by chance. KILLS=n sets how
# often (`make test-chaos`: 1000 disturbances of all kinds; in the short tier 100 deaths, 20 with sanitizers), SEED=n the draws, LANES=n how
# many runs there are at a time.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

lanes=${LANES:-1}
stops_max=1000 pauses_max=1000 # each takes seconds: in the short tier there is one of each
case "$TIER:$BUILD" in
long:*) kills=${KILLS:-1000} lanes=${LANES:-$(nproc)} ;;
*:*asan* | *:*tsan* | *:*ubsan*) kills=${KILLS:-20} stops_max=0 pauses_max=0 ;;
*) kills=${KILLS:-100} stops_max=0 pauses_max=0 ;;
esac
: "${SEED:=$((${EPOCHREALTIME/[.,]/} % 30000))}"
echo "$kills disturbances, seed $SEED, $lanes at a time"

steps=10
each=7 # disturbances of a run at most
model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --dropout 0.1 --warmup 5 --lr-schedule constant
            --threads 1 --steps $steps --eval-every 2 --eval-batches 1 --sample-every 0 --save-every 3 --no-pin)
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
         '6 --dp 3 --tp 2 --zero 2' '8 --dp 8 --zero 3' '5 --dp 5')
points=(forward reduce reduce reduced given commit update update update publish stepped evaluate save part name saved adopt ready start finish end)
resume_points=(start load ready forward update save name)
copies=
live=
"$LOCKSTEP" --version | grep -q '^microhttpd  *[0-9]' && live="--live 127.0.0.1:0"
"$LOCKSTEP" train --help 2>/dev/null | grep -q -- --state-copies && copies="--state-copies 1"

evaluations() { sed -n 's/^{"step":\([0-9]*\),"val_loss":.*"val_loss_hex":"\([^"]*\)".*/\1 \2/p' "$1/metrics.jsonl"; }

case_begin "the undisturbed runs"
declare -A final
for kind in "${kinds[@]}"; do
    # shellcheck disable=SC2046 # flags are words
    train "${experiment[@]}" --restarts 0 --out "$scratch/whole-$kind" $(options_of "$kind")
    expect_status 0
    final[$kind]=$(weights)
    losses "$scratch/whole-$kind" >"$scratch/$kind.losses"
    evaluations "$scratch/whole-$kind" >"$scratch/$kind.evaluations"
done
[ "$failures" -eq 0 ] || finished
common=$scratch

pick() {
    local -n list=$1
    picked=${list[RANDOM % ${#list[@]}]}
}

draw_layout() {
    pick layouts
    workers=${picked%% *} layout=${picked#* }
    [ $((RANDOM % 3)) -gt 0 ] || layout+=" $copies"
}

# What happens at a point: most often a death.
draw_kind() {
    drawn=kill
    case $((RANDOM % 14)) in
    0 | 1) [ "$stops" -lt "$stops_max" ] && drawn=stop && stops=$((stops + 1)) ;;
    2) [ "$TIER" = long ] && drawn=parent ;;
    esac
}

# draw_points WORKERS POINTS…: one for each attempt, mostly after a further step: a second loss in a step at another place ends the run.
draw_points() {
    local workers=$1 attempt rank count at
    shift
    # shellcheck disable=SC2034 # pick reads it
    local choice=("$@")
    deaths=
    for ((attempt = 0; attempt < each; attempt++)); do
        pick choice
        rank=$((RANDOM % workers)) count=1 at=+$(((RANDOM % 5 + 3) / 4))
        case $picked in
        adopt | finish) at=-1 count=$((RANDOM % 9 + 1)) ;;
        start | ready | load | save | part | saved | end) at=-1 ;;
        name) at=-1 rank=0 ;;
        evaluate) at=-1 count=$((RANDOM % 2 + 1)) ;;
        update) count=$((RANDOM % 20 + 1)) ;;
        reduce) count=$((RANDOM % 5 + 1)) ;;
        esac
        draw_kind
        deaths+="$picked:$rank:$at:$attempt:$count:$drawn,"
        [ $drawn = parent ] && break
        # Where that one does not come by, another will.
        deaths+="forward:0:+4:$attempt,"
    done
    deaths=${deaths%,}
}

children() { # into `pids`
    pids=()
    { read -r -a pids <"/proc/$child/task/$child/children"; } 2>/dev/null || true
}

# The whole run is stopped for longer than a worker may go without a heartbeat, and continues.
suspend() {
    kill -STOP "$child" 2>/dev/null || return
    children
    [ ${#pids[@]} -gt 0 ] && kill -STOP "${pids[@]}" 2>/dev/null
    sleep 2.6
    [ ${#pids[@]} -gt 0 ] && kill -CONT "${pids[@]}" 2>/dev/null
    kill -CONT "$child"
    pauses=$((pauses + 1))
    echo "pause chance" >>"$scratch/events"
}

# The page and the writer of event files are programs of their own.
name_child() { # into `name`
    case $(tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null) in
    "lockstep watch "*) name=page ;;
    "lockstep metrics "*) name=writer ;;
    *) name=worker ;;
    esac
}

# One of `pids`, of the kind that was stopped alone least often so far: as `victim`, with its kind.
pick_child() {
    local i pid least='' from=$RANDOM
    for ((i = 0; i < ${#pids[@]}; i++)); do
        pid=${pids[(from + i) % ${#pids[@]}]}
        name_child "$pid"
        [ -z "$least" ] || [ "${alone[$name]}" -lt "$least" ] || continue
        victim=$pid kind_of=$name least=${alone[$name]}
    done
}

# From outside, until the run is over or has had enough.
disturb() {
    local out=$1 turn victim
    if [ "$TIER$pauses" = short0 ]; then
        sleep 0.3
        suspend
    fi
    for ((turn = 0; turn < each; turn++)); do
        sleep "0.$((RANDOM % 40 + 5))"
        is_alive "$child" || return
        children
        [ ${#pids[@]} -gt 0 ] || continue
        victim=${pids[RANDOM % ${#pids[@]}]}
        case $((RANDOM % 16)) in
        0)
            [ -e "$out/identity.json" ] && kill -KILL "$child" 2>/dev/null && parent_killed=1 && echo "parent chance" >>"$scratch/events" && return
            ;;
        1 | 2 | 3) "$LOCKSTEP" resize "$out" --workers $((RANDOM % 8 + 1)) >/dev/null 2>&1 && echo "resize chance" >>"$scratch/events" ;;
        4 | 5)
            pick_child
            if [ "$stops" -lt "$stops_max" ] && kill -STOP "$victim" 2>/dev/null; then
                stops=$((stops + 1)) alone[$kind_of]=$((alone[$kind_of] + 1))
                echo "stop $kind_of" >>"$scratch/events"
                sleep 2 # or something else would end it first
            fi
            ;;
        7) # every child at once: workers, the page, the writer of event files
            if [ "$stops" -lt "$stops_max" ] && kill -STOP "${pids[@]}" 2>/dev/null; then
                stops=$((stops + 1))
                echo "stop all" >>"$scratch/events"
                sleep 2
            fi
            ;;
        6) [ "$pauses" -lt "$pauses_max" ] && suspend ;;
        *) kill -KILL "$victim" 2>/dev/null ;;
        esac
    done
}

# Processes of the run that are there; workers have the environment of their parent.
marked() { grep -lsz "^$mark\$" /proc/[0-9]*/environ 2>/dev/null | wc -l; }

# How often it was disturbed so far, in this lane; of a short tier only deaths count.
disturbed() {
    if [ "$TIER" = long ]; then wc -l; else grep -c '^kill\|^parent'; fi <"$scratch/events"
}

# After the run: no process is left, and it ended in one of the allowed ways.
judge_end() {
    local out=$1 named seen left stopped end
    seen=$(grep -c 'was killed by signal 9' "$scratch/err")
    stopped=$(grep -c 'has sent no heartbeat.*it is stopped\|made no progress for' "$scratch/err")
    if [ -z "$deaths" ]; then for ((; seen > 0; seen--)); do echo "kill chance"; done >>"$scratch/events"; fi
    [ -z "$deaths" ] || [ ! -e "$scratch/points" ] || cat "$scratch/points" >>"$scratch/events"
    grep -qs '^parent' "$scratch/points" && parent_killed=1
    rm -f "$scratch/points"
    grep '^lockstep: warning: worker .* no heartbeat\|made no progress' "$scratch/err" >>"$scratch/alarms"
    if [ "$parent_killed" -eq 1 ] && [ "$status" -eq 137 ]; then
        end=$(($(now_ms) + 2000))
        while [ "$(marked)" -gt 0 ] && [ "$(now_ms)" -lt $end ]; do sleep 0.01; done
    fi
    left=$(marked)
    leftovers=$((leftovers + left))
    [ "$left" -eq 0 ] || fail "$left processes are left"
    [ "$stopped" -le "$((stops - stops_before))" ] || fail "$stopped workers were taken to hang, $((stops - stops_before)) were stopped"
    ! grep -q 'goes back to its newest' "$scratch/err" || fail "a state in memory was not taken"
    named=$(grep -c '^lockstep: error: worker [0-9]' "$scratch/err")
    if [ "$status" -eq 0 ]; then
        return 0
    elif [ "$parent_killed" -eq 1 ]; then
        [ "$status" -eq 137 ] || fail "exit status $status after the parent was killed"
    else
        [ "$status" -eq 3 ] || fail "exit status $status"
        [ "$named" -eq 1 ] || fail "not one named error"
    fi
    for folder in "$out"/checkpoints/step-*[0-9]; do
        [ ! -e "$folder" ] || [ -e "$folder/complete.json" ] || fail "$folder has no marker"
    done
    return 1
}

# go OUT FLAGS…: the run, disturbed by `deaths`, or from outside where there are none and `calm` is 0. Whether it came to its end.
go() {
    local out=$1
    shift
    parent_killed=0 stops_before=$stops_drawn
    mark=CHAOS_RUN=$$-$lane-$((++starts))
    # shellcheck disable=SC2046,SC2086 # flags are words
    CHAOS_RUN=${mark#*=} LS_FAULT_POINT=$deaths LS_FAULT_LOG=$scratch/points start "${experiment[@]}" --restarts 1000 --out "$out" "$@" \
        $layout $(options_of "$kind") $helpers
    [ -n "$deaths" ] || [ "$calm" -eq 1 ] || disturb "$out"
    reap
    judge_end "$out"
}

one_run() {
    local out=$scratch/run flags tries=0
    runs=$((runs + 1))
    rm -rf "$out"
    draw_layout
    pick kinds
    kind=$picked calm=0 deaths='' stops_drawn=$stops helpers=
    # Programs beside the run, which are stopped and killed like its workers.
    [ "$TIER" = short ] || [ $((RANDOM % 2)) -eq 0 ] || helpers="$live --tensorboard $scratch/board"
    if [ "$TIER" = long ] && [ $((runs % 2)) -eq 0 ] || [ $((runs % 5)) -eq 4 ]; then :; else draw_points "$workers" "${points[@]}"; fi
    if [ "$TIER$runs" = short3 ]; then # the one that is stopped in the short tier
        deaths="update:$((RANDOM % workers)):+1:0:1:stop,${deaths#*,}"
        stops=$((stops + 1))
    fi
    case_begin "run $runs of lane $lane, $kind, $layout, LS_FAULT_POINT=$deaths"
    echo "$what" >>"$scratch/runs"
    if go "$out"; then
        ended=$((ended + 1))
    else
        errors=$((errors + 1))
        # Under another layout, and disturbed again, but for the last time.
        while
            flags=()
            [ ! -e "$out/identity.json" ] || flags=(--resume)
            draw_layout
            deaths='' calm=1 stops_drawn=$stops
            [ $((tries++)) -ge 3 ] || draw_points "$workers" "${resume_points[@]}"
            case_begin "run $runs of lane $lane, $kind, then ${flags[*]} $layout, LS_FAULT_POINT=$deaths"
            echo "$what" >>"$scratch/runs"
            ! go "$out" "${flags[@]}"
        do
            resumes=$((resumes + 1))
            grep -q 'was skipped' "$scratch/err" && fail "a checkpoint is damaged"
            [ "$tries" -lt 9 ] || break
        done
    fi
    expect_weights "${final[$kind]}"
    expect_losses "$out" "$common/$kind.losses"
    evaluations "$out" | cmp -s - "$common/$kind.evaluations" || fail "other evaluations: $(evaluations "$out" | tr '\n' ' ')"
    expect_no_leftovers "$out"
}

lane() {
    lane=$1 scratch=$common/lane-$1
    trap stop_child EXIT
    mkdir "$scratch"
    : >"$scratch/events"
    RANDOM=$((SEED + 7919 * lane))
    leftovers=0 runs=0 ended=0 errors=0 resumes=0 starts=0 stops=0 pauses=0
    declare -gA alone=([worker]=0 [page]=0 [writer]=0)
    local runs_min=$((12 / lanes))
    [ "$kills" -ge 100 ] || runs_min=1
    while [ "$(disturbed)" -lt $((kills / lanes)) ] || [ "$runs" -lt "$runs_min" ]; do
        one_run
        [ "$failures" -lt 10 ] || break
    done
    echo "$runs $ended $errors $resumes $leftovers $failures $cases" >"$scratch/counts"
    trap - EXIT
}

for ((i = 1; i < lanes; i++)); do (lane "$i") & done
(lane 0)
wait
scratch=$common
awk '{ runs += $1; ended += $2; errors += $3; resumes += $4; left += $5; failures += $6 }
     END { printf "%d runs: %d ended on the undisturbed hash by themselves, %d with a named error or a killed parent, and then by --resume (%d further ends on the way); %d third states, %d processes left\n",
           runs, ended, errors, resumes, failures, left }' "$scratch"/lane-*/counts
echo "disturbances: $(cat "$scratch"/lane-*/events | awk '{ n[$1]++; all++ } END { for (k in n) printf "%s %d, ", k, n[k]; printf "%d in all", all }')"
echo "by place:"
cat "$scratch"/lane-*/events | awk '{ n[$2 " " $1]++ } END { for (k in n) print k, n[k] }' | sort |
    awk '{ if ($1 != last) printf "%s  %-9s", last ? "\n" : "", $1; printf " %s %d", $2, $3; last = $1 } END { print "" }'
echo "hangs that were named: $(cat "$scratch"/lane-*/alarms | wc -l)"
for counts in "$scratch"/lane-*/counts; do
    read -r _ _ _ _ _ failed some <"$counts"
    failures=$((failures + failed)) cases=$((cases + some))
done
[ "$(cat "$scratch"/lane-*/counts | wc -l)" -eq "$lanes" ] || fail "a lane did not end"
# Of so many disturbances each kind of child was stopped alone, and all together.
for name in worker all page writer; do
    [ "$kills" -ge 1000 ] || break
    [ "$name$live" != page ] || continue # a build without it
    cat "$scratch"/lane-*/events | grep -q "^stop $name$" || fail "$name was never stopped from outside"
done
[ -z "$(find /dev/shm -maxdepth 1 -type f -name '*lockstep*' 2>/dev/null)" ] || fail "something is left in shared memory"
finished
