#!/usr/bin/env bash
# host_lost.sh: a run over two hosts loses one of them. The hosts are those of hosts.bash; the
# cable is cut, or all processes of the second host are frozen: an error that says so within --timeout, and after tools/relaunch the bits of
# an undisturbed run, on the host that is left.
# Runs alone: its hosts and their network are of this machine.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/../train/common.bash"

# shellcheck source=tests/comm/hosts.bash
. "$(dirname "$0")/hosts.bash"
cleanup() {
    stop_child
    end_hosts
    rm -rf "$scratch"
}
trap cleanup EXIT
[ "$TIER" = long ] || skip "in the long tier only"
"$LOCKSTEP" --version 2>/dev/null | grep -q '^MPI .*Open MPI' || skip "the build has no Open MPI"
make_hosts

# What relaunch asks: the first host is here, the second answers while the cable is whole and it is not frozen.
cat >"$scratch/ask" <<ASK
#!/bin/sh
[ "\$1" = "$net.1" ] && exit 0
[ ! -e "$scratch/gone" ]
ASK
# launch WORKERS HOSTFILE COMMAND: as \`mpirun\` typed on the first host.
cat >"$scratch/launch" <<LAUNCH
#!/bin/bash
workers=\$1 hosts=\$2
shift 2
exec ${across[*]} --hostfile "\$hosts" -n "\$workers" --mca odls_base_sigkill_timeout 20 -x XDG_CACHE_HOME -x LS_DEVICE "\$@"
LAUNCH
chmod +x "$scratch/ask" "$scratch/launch"

experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --warmup 5 --lr-schedule constant --eval-every 0 --threads 1)
steps=200
case_begin "the undisturbed run"
train "${experiment[@]}" --steps $steps --out "$scratch/whole"
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }

# begin NAME: the run is under way on both hosts.
begin() {
    rm -f "$scratch/gone"
    tools/relaunch --hostfile "$scratch/hosts" --probe "$scratch/ask" --pause 1 --watch 6 -- "$scratch/launch" '{workers}' '{hostfile}' \
        "$LOCKSTEP" train "${experiment[@]}" --steps $steps --save-every 10 --timeout 4s --out "$scratch/$1" --resume auto \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
    await_steps "$scratch/$1" 20
}
await_error() {
    local end=$(($(now_ms) + $1))
    until grep -q "$2" "$scratch/err" || [ "$(now_ms)" -gt $end ]; do sleep 0.05; done
    grep -q "$2" "$scratch/err" || fail "within $1 ms nobody said '$2'"
}

case_begin "the cable is cut"
if begin cut; then
    touch "$scratch/gone"
    ip -n $b link set "v$b" down
    await_error 15000 'did not answer within 4 s\|lost communication\|exit status'
fi
kill_host "$b"
reap
expect_weights "$final"
ip -n $b link set "v$b" up

case_begin "one host is frozen"
if begin frozen; then
    touch "$scratch/gone"
    for pid in $(of_host "$b"); do kill -STOP "$pid" 2>/dev/null; done
    await_error 15000 'worker [23] did not answer within 4 s'
    kill_host "$b"
fi
reap
expect_weights "$final"
finished
