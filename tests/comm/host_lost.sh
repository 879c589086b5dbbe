#!/usr/bin/env bash
# host_lost.sh: a run over two hosts loses one of them. The hosts are network namespaces joined by a virtual cable, as in two_hosts.sh; the
# cable is cut, or all processes of the second host are frozen: an error that says so within --timeout, and after tools/relaunch the bits of
# an undisturbed run, on the host that is left.
# Runs alone: its hosts and their network are of this machine.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/../train/common.bash"

a=lsc$$ b=lsd$$ net=10.88.$(($$ % 250))
made=()
cleanup() {
    local host pid
    stop_child
    for host in "${made[@]}"; do
        for pid in $(ip netns pids "$host" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
        ip netns del "$host" 2>/dev/null
    done
    rm -rf "$scratch"
}
trap cleanup EXIT
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$TIER" = long ] || skip "in the long tier only"
[ "$(id -u)" -eq 0 ] || skip "making network namespaces needs root"
for tool in ip unshare mpirun hostname; do command -v $tool >/dev/null || skip "there is no $tool"; done
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
"$LOCKSTEP" --version 2>/dev/null | grep -q '^MPI .*Open MPI' || skip "the build has no Open MPI"
for host in $a $b; do
    ip netns add "$host" 2>/dev/null || skip "making a network namespace is not permitted here"
    made+=("$host")
done
ip link add "v$a" netns $a type veth peer name "v$b" netns $b 2>/dev/null || skip "making a virtual cable is not permitted here"
for end in "$a 1" "$b 2"; do
    read -r host number <<<"$end"
    ip -n "$host" link set lo up && ip -n "$host" link set "v$host" up && ip -n "$host" addr add "$net.$number/24" dev "v$host" ||
        skip "the virtual cable cannot be set up here"
done

# on HOST COMMAND: as if typed on that host.
cat >"$scratch/on" <<'ON'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$1" && shift && eval "exec $*"' sh "$host" "$@"
ON
cat >"$scratch/agent" <<AGENT
#!/bin/sh
[ "\$1" = "$net.2" ] || exit 255
shift
exec "$scratch/on" $b "\$@"
AGENT
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
exec "$scratch/on" $a mpirun --allow-run-as-root --hostfile "\$hosts" -n "\$workers" --map-by slot --bind-to none --mca odls_base_sigkill_timeout 20 \\
    --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include "$net.0/24" \\
    --mca oob_tcp_if_include "$net.0/24" -x XDG_CACHE_HOME -x LS_DEVICE "\$@"
LAUNCH
chmod +x "$scratch/on" "$scratch/agent" "$scratch/ask" "$scratch/launch"
printf '%s slots=2\n%s slots=2\n' "$net.1" "$net.2" >"$scratch/hosts"

experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --warmup 5 --lr-schedule constant --eval-every 0 --threads 1)
steps=200
case_begin "the undisturbed run"
train "${experiment[@]}" --steps $steps --out "$scratch/whole"
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }

# begin NAME: the run is under way on both hosts.
begin() {
    rm -f "$scratch/gone"
    tools/relaunch --hostfile "$scratch/hosts" --probe "$scratch/ask" --pause 1 --watch 2 -- "$scratch/launch" '{workers}' '{hostfile}' \
        "$LOCKSTEP" train "${experiment[@]}" --steps $steps --save-every 10 --timeout 4s --out "$scratch/$1" --resume auto \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
    await_steps "$scratch/$1" 20
}
# Every process of the second host.
of_second() { ip netns pids "$b"; }
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
for pid in $(of_second); do kill -KILL "$pid" 2>/dev/null; done
reap
expect_weights "$final"
ip -n $b link set "v$b" up

case_begin "one host is frozen"
if begin frozen; then
    touch "$scratch/gone"
    for pid in $(of_second); do kill -STOP "$pid" 2>/dev/null; done
    await_error 15000 'worker [23] did not answer within 4 s'
    for pid in $(of_second); do kill -KILL "$pid" 2>/dev/null; done
fi
reap
expect_weights "$final"
finished
