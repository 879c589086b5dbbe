#!/usr/bin/env bash
# two_hosts.sh: MPI between two hosts. They are network namespaces with names of their own on this machine, joined by one virtual
# cable; Open MPI reaches the second through a script instead of ssh. Four workers, two a host, must give the bits that shared
# memory gives. CABLE_TEST=program runs that MPI program instead.
#
#     host a  10.87.N.1 ──────── veth ──────── 10.87.N.2  host b
#     mpirun, workers 0 1                      orted, workers 2 3
# Runs alone: its hosts and their network are of this machine.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
program=$(cd "$BUILD/tests/comm" 2>/dev/null && pwd)/conformance
a=lsa$$ b=lsb$$ net=10.87.$(($$ % 250))
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-hosts.XXXXXX") || exit 1
made=()

cleanup() {
    local host pid
    for host in "${made[@]}"; do
        for pid in $(ip netns pids "$host" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
        ip netns del "$host" 2>/dev/null
    done
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

skip() {
    echo "skipped: $*"
    exit 77
}
fail() {
    echo "FAIL $*"
    cat "$scratch/out" "$scratch/err" 2>/dev/null
    exit 1
}

[ "$(id -u)" -eq 0 ] || skip "making network namespaces needs root"
for tool in ip unshare mpirun hostname; do command -v $tool >/dev/null || skip "there is no $tool"; done
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
if [ -z "${CABLE_TEST:-}" ]; then
    "$BUILD/lockstep" --version 2>/dev/null | grep -q '^MPI .*Open MPI' || skip "the build has no Open MPI"
    [ -x "$program" ] || fail "$program is missing: run \`make programs\`"
fi

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
# What mpirun calls instead of ssh: ADDRESS COMMAND.
cat >"$scratch/agent" <<AGENT
#!/bin/sh
[ "\$1" = "$net.2" ] || exit 255
shift
exec "$scratch/on" $b "\$@"
AGENT
chmod +x "$scratch/on" "$scratch/agent"
printf '%s slots=2\n%s slots=2\n' "$net.1" "$net.2" >"$scratch/hosts"

# across COMMAND: four processes, two on each host, which have only the cable between them.
across() {
    timeout --kill-after=5 100 "$scratch/on" $a mpirun --allow-run-as-root --hostfile "$scratch/hosts" -n 4 --map-by slot --bind-to none \
        --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self --mca pml ob1 \
        --mca btl_tcp_if_include "$net.0/24" --mca oob_tcp_if_include "$net.0/24" "$@" >"$scratch/out" 2>"$scratch/err"
}

across hostname || fail "mpirun cannot start a program on both hosts"
[ "$(sort "$scratch/out" | uniq -c | tr -s ' \n' ' ')" = " 2 $a 2 $b " ] || fail "the four processes are not on two hosts"

if [ -n "${CABLE_TEST:-}" ]; then
    across "$CABLE_TEST" || fail "exit status $?"
    cat "$scratch/out"
    exit 0
fi

wanted=$("$program" --reference | sed 's/^reference/bits/')
for options in "--only bits" "--only in_flight" "--only all_to_all" "--only bits --node-size 1"; do
    # shellcheck disable=SC2086 # options are words
    across "$program" $options || fail "conformance $options: exit status $?"
    cat "$scratch/out"
    grep -q '^conformance: transport=mpi workers=4 ' "$scratch/out" || fail "conformance $options did not run on four workers"
    case "$options" in
    *bits*) [ "$(grep '^bits ' "$scratch/out")" = "$wanted" ] || fail "the bits are not those of one process: $wanted" ;;
    esac
done
