#!/usr/bin/env bash
# clusters.sh: runs that a scheduler stops and starts again. The Slurm script is the one of docs/guide/train-on-a-cluster.md; sbatch, srun and scontrol are
# stand-ins that do what Slurm's do as far as the script can tell. tools/relaunch has hosts that answer and hosts that do not.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/../train/common.bash"

bin=$scratch/bin
mkdir "$bin"
experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --warmup 5 --lr-schedule constant --eval-every 0)

case_begin "the undisturbed run"
train "${experiment[@]}" --steps 300 --out "$scratch/whole"
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }

case_begin "--resume auto begins a run, goes on with it, and does no harm to one that is done"
train "${experiment[@]}" --steps 100 --out "$scratch/auto" --resume auto
expect_status 0
train "${experiment[@]}" --steps 300 --out "$scratch/auto" --resume=auto --dp 2
expect_weights "$final"
train "${experiment[@]}" --steps 300 --out "$scratch/auto" --resume auto
expect_weights "$final"
train "${experiment[@]}" --steps 3 --resume auto
expect_status 2
expect_said 'resume-auto true: name the run: --out DIR'

# ---- Slurm -------------------------------------------------------------------------------------------------------------

# The script of the page, with a model and a program of this test.
awk '/^## /{slurm = /Slurm/} slurm && /^```sh/{on = 1; next} /^```/{on = 0} on' docs/guide/train-on-a-cluster.md |
    sed "s|hosts\.\\$|$scratch/&|g; s|lockstep train --model gpt2-124m --tokenizer /shared/gpt2 |lockstep train $(printf '%q ' "${experiment[@]}") --steps 300 --save-every 50 |" >"$scratch/job"
grep -q -- '--resume auto' "$scratch/job" || fail "docs/guide/train-on-a-cluster.md has no such script"

# Starts its command as one task and sends it on what the step gets; dies as it does. --nodelist with the name apart is relaunch's question.
cat >"$bin/srun" <<'STAND_IN'
#!/bin/bash
nodes=
while case "$1" in --*) true ;; *) false ;; esac do
    case "$1" in
    --nodelist) shift; nodes=$1 ;;
    --nodelist=*) nodes=${1#*=} ;;
    esac
    shift
done
[ "$1" = lockstep ] || { echo "$nodes"; exit; }
echo "start $nodes" >>"$FAKE_SLURM/starts"
"$@" &
echo $! >"$FAKE_SLURM/task"
wait $!
STAND_IN
cat >"$bin/scontrol" <<'STAND_IN'
#!/bin/bash
[ "$1" != show ] || printf '%s\n' node1 node2
[ "$1" = requeue ] && [ "$2" = "$SLURM_JOB_ID" ] && touch "$FAKE_SLURM/requeued"
STAND_IN
# Runs the script until it ends without having been requeued. The signal that the script asks for comes once the run is at the step of
# $FAKE_SLURM/signal-at, if there is such a file; SIGKILL for the task at that of kill-at; SIGCONT and SIGTERM, as from preemption with a
# grace time, at that of preempt-at: a script that ends within that time is not requeued by Slurm.
cat >"$bin/sbatch" <<'STAND_IN'
#!/bin/bash
export SLURM_JOB_ID=7 SLURM_RESTART_COUNT=0 SLURM_JOB_NODELIST='node[1-2]'
signal=$(sed -n 's/^#SBATCH --signal=\(.*\)@.*/\1/p' "$1")
step() { grep -c '"loss"' "$RUN/metrics.jsonl" 2>/dev/null || echo 0; }
while :; do
    rm -f "$FAKE_SLURM/requeued"
    bash "$1" &
    script=$!
    while kill -0 $script 2>/dev/null; do
        for what in signal-at kill-at preempt-at; do
            [ -e "$FAKE_SLURM/$what" ] && [ "$(step | tail -n 1)" -ge "$(cat "$FAKE_SLURM/$what")" ] || continue
            rm "$FAKE_SLURM/$what"
            case $what in
            signal-at) kill -s "$signal" "$(cat "$FAKE_SLURM/task")" ;;
            kill-at) kill -KILL "$(cat "$FAKE_SLURM/task")" ;;
            preempt-at) kill -CONT "$(cat "$FAKE_SLURM/task")"; kill -TERM "$(cat "$FAKE_SLURM/task")" ;;
            esac
        done
        sleep 0.02
    done
    wait $script
    code=$?
    [ -e "$FAKE_SLURM/requeued" ] || exit $code
    SLURM_RESTART_COUNT=$((SLURM_RESTART_COUNT + 1))
    echo "$SLURM_RESTART_COUNT" >"$FAKE_SLURM/restarts"
done
STAND_IN
ln -s "$LOCKSTEP" "$bin/lockstep"
chmod +x "$bin"/*

# job NAME EVENT STEP: what became of the job is in $scratch/out.
job() {
    export FAKE_SLURM=$scratch/slurm RUN=$scratch/$1 DATA=$text
    rm -rf "$FAKE_SLURM"
    mkdir "$FAKE_SLURM"
    [ -z "${2:-}" ] || echo "$3" >"$FAKE_SLURM/$2"
    PATH=$bin:$PATH timeout 120 sbatch "$scratch/job" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
}

case_begin "Slurm: time runs out: saved, requeued, gone on with"
job limit signal-at 20
expect_weights "$final"
[ "$(cat "$FAKE_SLURM/restarts" 2>/dev/null)" = 1 ] || fail "it was not requeued once"

case_begin "Slurm: preempted: saved within the grace time, requeued, gone on with"
job preempted preempt-at 20
expect_weights "$final"
[ "$(cat "$FAKE_SLURM/restarts" 2>/dev/null)" = 1 ] || fail "it was not requeued once"

case_begin "Slurm: the task is killed: the script starts it again"
job killed kill-at 60
expect_weights "$final"
[ "$(cat "$FAKE_SLURM/starts")" = "$(printf 'start node1,node2\nstart node1,node2')" ] || fail "its starts were: $(cat "$FAKE_SLURM/starts")"

# Each task of the job has recorded the worker that it waited for in vain.
case_begin "Slurm: a node that was to blame twice is left out"
mkdir -p "$scratch/blamed/ends"
for start in 1 2; do
    echo '{"start":"'$start'","step":3,"host":"node1","worker":0,"found":"hung","persistent":false,"text":""}' >"$scratch/blamed/ends/$start-1.json"
done
job blamed
expect_weights "$final"
[ "$(cat "$FAKE_SLURM/starts")" = 'start node2' ] || fail "its starts were: $(cat "$FAKE_SLURM/starts")"
[ "$(tools/relaunch --left-out "$RUN" 2>/dev/null)" = node1 ] || fail "--left-out does not say node1"

# ---- relaunch ----------------------------------------------------------------------------------------------------------

# A host answers unless there is a file that says no.
cat >"$bin/ask" <<'STAND_IN'
#!/bin/bash
[ ! -e "$FAKE_HOSTS/$1" ]
STAND_IN
# Runs its command with as many workers as there are slots; the first start is killed on the way, and its last host goes with it.
cat >"$bin/launch" <<'STAND_IN'
#!/bin/bash
echo "$1 $(tr '\n' ' ' <"$2")" >>"$FAKE_HOSTS/starts"
workers=$1 hosts=$2
shift 2
"$@" --workers "$workers" &
child=$!
trap 'kill -TERM $child' TERM
if [ "$(wc -l <"$FAKE_HOSTS/starts")" -eq 1 ]; then
    until [ "$(grep -c '"loss"' "$RUN/metrics.jsonl" 2>/dev/null)" -ge 20 ] 2>/dev/null; do sleep 0.02; done
    touch "$FAKE_HOSTS/$(tail -n 1 "$hosts" | cut -d ' ' -f 1)"
    read -r worker _ <"/proc/$child/task/$child/children"
    kill -KILL "${worker:-$child}"
fi
wait $child
code=$?
while kill -0 $child 2>/dev/null; do
    wait $child
    code=$?
done
exit $code
STAND_IN
chmod +x "$bin"/*
export FAKE_HOSTS=$scratch/hosts
restarts=()
"$LOCKSTEP" train --help-all | grep -q -- '--restarts' && restarts=(--restarts 0)

# relaunch NAME ARGS…
relaunch() {
    export RUN=$scratch/$1
    shift
    rm -rf "$FAKE_HOSTS"
    mkdir "$FAKE_HOSTS"
    timeout 120 tools/relaunch "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
}
printf '# all of them\none slots=2\ntwo\n' >"$scratch/hostfile"

case_begin "relaunch: a host is lost, and the run goes on with those that answer"
relaunch lost --hostfile "$scratch/hostfile" --probe "$bin/ask" --pause 0 -- "$bin/launch" '{workers}' '{hostfile}' \
    "$LOCKSTEP" train "${experiment[@]}" --steps 300 --save-every 5 --out "$scratch/lost" --resume auto "${restarts[@]}"
expect_weights "$final"
expect_said '^relaunch: two does not answer, it is left out'
[ "$(cat "$FAKE_HOSTS/starts")" = "$(printf '3 one slots=2 two slots=1 \n2 one slots=2 ')" ] || fail "its starts were: $(cat "$FAKE_HOSTS/starts")"

case_begin "relaunch: fewer workers than asked for"
relaunch few --hostfile "$scratch/hostfile" --probe false --least 2 --pause 0 -- true --out "$scratch/few" --resume auto
expect_status 3

case_begin "relaunch: bad input is not tried again"
relaunch bad --pause 0 -- "$LOCKSTEP" train --no-such-option --out "$scratch/bad" --resume auto
expect_status 2
[ "$(grep -c error "$scratch/err")" -eq 1 ] || fail "it was started again"

case_begin "relaunch: a run that gets nowhere is given up"
relaunch vain --times 2 --pause 0 -- sh -c 'echo started; exit 4' --out "$scratch/vain" --resume auto
expect_status 4
[ "$(grep -c started "$scratch/out")" -eq 2 ] || fail "it was not started twice"

# srun --kill-on-bad-exit=1 kills the tasks that have not ended yet, and ends with their status.
for code in 2 75; do
    case_begin "relaunch: the status $code of the task that ended first counts, not that of those that srun then killed"
    relaunch first --hostfile "$scratch/hostfile" --probe true --pause 0 -- sh -c "echo started
        echo 'srun: error: one: task 0: Exited with exit code $code' >&2
        echo 'srun: error: two: tasks 1-2: Killed' >&2
        exit 137" --out "$scratch/first" --resume auto
    expect_status $code
    [ "$(grep -c started "$scratch/out")" -eq 1 ] || fail "it was started again"
done

case_begin "relaunch: without --resume auto it refuses"
relaunch no -- "$LOCKSTEP" train --out "$scratch/no"
expect_status 2

case_begin "relaunch: SIGTERM is passed on, and nothing is started again"
export RUN=$scratch/term
tools/relaunch --pause 0 -- "$LOCKSTEP" train "${experiment[@]}" --steps 1000000 --out "$scratch/term" --resume auto \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
child=$!
await_steps "$scratch/term" 3 && kill -TERM "$child"
reap
expect_status 143
expect_said '^lockstep: stopped at step [0-9]+, checkpoint saved'
finished
