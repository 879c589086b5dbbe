#!/usr/bin/env bash
# host_lost.sh: a run over two hosts loses one of them: the second, or the first, on which the launcher runs. The hosts are those of
# hosts.bash; the cable is cut, or all processes of a host are frozen: an error that says so within --timeout, and after tools/relaunch the bits
# of an undisturbed run, on the host that is left.
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

# What relaunch asks: a host answers with its own name unless it is the one that is gone.
cat >"$scratch/ask" <<ASK
#!/bin/sh
[ "\$(cat "$scratch/gone" 2>/dev/null)" != "\$1" ] || exit 1
case \$1 in $net.1) echo $a ;; *) echo $b ;; esac
ASK
# launch WORKERS HOSTFILE COMMAND: as \`mpirun\` typed on the first host of the start.
cat >"$scratch/launch" <<LAUNCH
#!/bin/bash
workers=\$1 hosts=\$2 from=$a
shift 2
[ "\$(head -n 1 "\$hosts" | cut -d ' ' -f 1)" = $net.1 ] || from=$b
exec "$scratch/on" \$from ${across[*]:2} --hostfile "\$hosts" -n "\$workers" --mca odls_base_sigkill_timeout 20 -x XDG_CACHE_HOME -x LS_DEVICE "\$@"
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
    grep -q "$2" "$scratch/err" || fail "within $1 ms no process said '$2'"
}

# The host of the launcher, a, is lost, or the other one.
for case in "$b $net.2 $a" "$a $net.1 $b"; do
    read -r host address other <<<"$case"
    side=second
    [ "$host" = "$b" ] || side=first
    case_begin "the cable is cut, and the $side host is out of reach"
    if begin "cut-$side"; then
        echo "$address" >"$scratch/gone"
        ip -n "$host" link set "v$host" down
        await_error 15000 'did not answer within 4 s\|lost communication\|exit status'
    fi
    kill_host "$host"
    reap
    expect_weights "$final"
    expect_said "^relaunch: $address does not answer"
    ip -n "$host" link set "v$host" up

    case_begin "the $side host is frozen"
    if begin "frozen-$side"; then
        echo "$address" >"$scratch/gone"
        for pid in $(of_host "$host"); do kill -STOP "$pid" 2>/dev/null; done
        # What is told on the first host goes through the launcher, which is frozen with it: relaunch finds out.
        [ "$host" = "$a" ] || await_error 15000 "worker [23] did not answer within 4 s.*$b, may be gone"
        [ "$host" = "$b" ] || await_error 40000 "relaunch: $address does not answer any more"
        kill_host "$host"
    fi
    reap
    expect_weights "$final"
    [ "$(sed -n 's/.*"host":"\([^"]*\)".*/\1/p' "$scratch/frozen-$side/ends"/*.json | sort -u)" = "$host" ] ||
        fail "its records are: $(cat "$scratch/frozen-$side/ends"/*)"
    grep -q "\"hosts\":\[\"$other\"" "$scratch/frozen-$side/hosts.json" || fail "it did not go on with $other"
done
finished
