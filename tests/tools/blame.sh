#!/usr/bin/env bash
# blame.sh: which host was to blame for the end of a run under mpirun is in the run directory, and tools/relaunch leaves out one that was
# to blame twice, or computes wrongly. The hosts are names: mpirun starts all workers on this machine, each with the host name of its
# own that the hostfile of this start gives it (unshare --uts), two a host. The program has a fault in it (tests/spoil).
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/../train/common.bash"
skip() {
    echo "skipped: $*"
    exit 77
}
"$LOCKSTEP" --version 2>/dev/null | grep -q '^MPI .*Open MPI' && mpirun --version 2>/dev/null | grep -q 'Open MPI' ||
    skip "needs Open MPI's mpirun and a build with it"
unshare --uts true 2>/dev/null || skip "giving processes a host name of their own is not permitted here"
LOCKSTEP=$BUILD/tests/spoil/lockstep
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

printf 'up slots=2\ndown slots=2\n' >"$scratch/hostfile"
# A host answers with the name that it has itself.
printf '#!/bin/sh\necho "$1.test"\n' >"$scratch/ask"
# launch HOSTFILE WORKERS COMMAND: one start; $scratch/faults-N is the fault of the Nth.
cat >"$scratch/launch" <<LAUNCH
#!/bin/bash
export HOSTS=\$1
echo "\$2 \$(cut -d ' ' -f 1 "\$1" | paste -s -d ' ')" >>"$scratch/starts"
export LS_FAULT_POINT=\$(cat "$scratch/faults-\$(wc -l <"$scratch/starts")" 2>/dev/null)
[ -n "\$LS_FAULT_POINT" ] || unset LS_FAULT_POINT
exec mpirun --oversubscribe --bind-to none -n "\$2" "$scratch/worker" "\${@:3}"
LAUNCH
cat >"$scratch/worker" <<'WORKER'
#!/bin/bash
host=$(sed -n "$((OMPI_COMM_WORLD_RANK / 2 + 1))s/ .*//p" "$HOSTS")
exec unshare --uts sh -c 'hostname "$1" && shift && exec "$@"' sh "$host.test" "$@"
WORKER
chmod +x "$scratch/ask" "$scratch/launch" "$scratch/worker"

experiment=(--model "$deep" --data "$text" --seq 11 --global-batch 16 --groups 8 --lr 0.01 --lr-schedule constant --eval-every 0 --threads 1 --steps 8)
case_begin "the undisturbed run"
train "${experiment[@]}" --out "$scratch/whole"
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }

# again NAME OPTIONS… -- FLAGS…: relaunch has its way with a run.
again() {
    local run=$scratch/$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    rm -f "$scratch/starts"
    timeout 100 tools/relaunch --hostfile "$scratch/hostfile" --probe "$scratch/ask" --pause 0 "${options[@]}" -- "$scratch/launch" '{hostfile}' '{workers}' \
        "$LOCKSTEP" train "${experiment[@]}" --save-every 1 --keep 0 --out "$run" --resume auto "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
}
expect_starts() { [ "$(cat "$scratch/starts")" = "$1" ] || fail "its starts were: $(cat "$scratch/starts")"; }

case_begin "a host that computes wrongly again and again is left out at once"
LS_SPOIL='rank=2 step=3+1 place=product tensor=mlp.in.weight add=0.001 times=0' again wrong -- --audit 1
expect_weights "$final"
expect_starts "$(printf '4 up down\n2 up')"
expect_said '^relaunch: to blame for this end is down: a worker there computes wrongly'
expect_said '^relaunch: down is left out: it was found to compute wrongly again and again'
grep -q '^{"start":"[0-9]*","step":4,"host":"down.test","worker":[23],"found":"wrong","persistent":true,"text":"' "$scratch/wrong/ends"/*-0.json ||
    fail "its record is: $(cat "$scratch/wrong/ends"/*)"
grep -q '"hosts":\["up.test","up.test"\]' "$scratch/wrong/hosts.json" || fail "its hosts are: $(cat "$scratch/wrong/hosts.json")"

case_begin "of a run that waits for hosts that are left out: exit status 5"
again wrong --least 3 -- --audit 1
expect_status 5
expect_said '^relaunch: without the hosts that are left out there are 2 slots, --least is 3'
[ ! -e "$scratch/starts" ] || fail "it was started"
[ "$(tools/relaunch --left-out "$scratch/wrong" 2>"$scratch/err")" = down.test ] || fail "--left-out does not say down.test"

case_begin "a host whose workers were killed twice is left out"
echo forward:2:2:0 >"$scratch/faults-1"
echo forward:3:4:0 >"$scratch/faults-2"
again killed -- --audit 0
expect_weights "$final"
expect_starts "$(printf '4 up down\n4 up down\n2 up')"
expect_said '^relaunch: to blame for this end is down: a worker there was killed'
expect_said '^relaunch: down is left out: it was to blame for 2 ends of the run \(--host-losses 2\)'
[ "$(tools/relaunch --host-losses 3 --left-out "$scratch/killed" 2>"$scratch/err")" = "" ] || fail "two losses are taken for three"

case_begin "workers of different hosts that are lost in the same step: it is not the hosts"
echo forward:2:2:0 >"$scratch/faults-1"
echo forward:0:2:0 >"$scratch/faults-2"
again step -- --audit 0
expect_status 3
expect_starts "$(printf '4 up down\n4 up down')"
expect_said '^relaunch: workers of different hosts were lost in the same step'

case_begin "a worker that is stopped is named with its host"
echo forward:3:2:0:1:stop >"$scratch/faults-1"
rm "$scratch/faults-2"
again hung --host-losses 1 -- --timeout 2s
expect_weights "$final"
expect_starts "$(printf '4 up down\n2 up')"
expect_said 'worker 3 did not answer within 2 s'
expect_said '^relaunch: down is left out: it was to blame for 1 end'

case_begin "copies of the state end with a job of mpirun, and the header says so"
LS_STATE_COPIES=1 mpirun --oversubscribe -x LS_STATE_COPIES -n 2 "$LOCKSTEP" train "${experiment[@]}" --steps 1 --out "$scratch/copies" >"$scratch/out" 2>"$scratch/err" </dev/null
status=$?
expect_status 0
grep -q '^copies .*mpirun.*none are made, and a lost state is read from the newest checkpoint' "$scratch/out" || fail "the header does not say it"
finished
