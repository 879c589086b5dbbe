# hosts.bash: two hosts for a test: network namespaces with names of their own on this machine, joined by one virtual cable; Open MPI reaches the
# second through a script instead of ssh. Sourced by tests that have a folder `scratch` and run alone.
#
#     host a  10.87.N.1 ──────── veth ──────── 10.87.N.2  host b
# shellcheck shell=bash disable=SC2034,SC2154
a=lsa$$ b=lsb$$ net=10.87.$(($$ % 250))
made=()

skip() {
    echo "skipped: $*"
    exit 77
}

# Every process of a host.
of_host() { ip netns pids "$1" 2>/dev/null; }
kill_host() {
    local pid
    for pid in $(of_host "$1"); do kill -KILL "$pid" 2>/dev/null; done
}

end_hosts() {
    local host
    for host in "${made[@]}"; do
        kill_host "$host"
        ip netns del "$host" 2>/dev/null
    done
}

# What is missing is said, and the test skipped. $scratch/on HOST COMMAND is as if typed on that host; $scratch/agent ADDRESS COMMAND is what
# mpirun calls; $scratch/hosts names both, two workers each; across is how mpirun is called.
make_hosts() {
    local tool host end number
    [ "$(id -u)" -eq 0 ] || skip "making network namespaces needs root"
    for tool in ip unshare mpirun hostname; do command -v $tool >/dev/null || skip "there is no $tool"; done
    mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
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
    cat >"$scratch/on" <<'ON'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$1" && shift && eval "exec $*"' sh "$host" "$@"
ON
    cat >"$scratch/agent" <<AGENT
#!/bin/sh
host=$b
[ "\$1" != "$net.1" ] || host=$a
shift
exec "$scratch/on" \$host "\$@"
AGENT
    chmod +x "$scratch/on" "$scratch/agent"
    printf '%s slots=2\n%s slots=2\n' "$net.1" "$net.2" >"$scratch/hosts"
    across=("$scratch/on" "$a" mpirun --allow-run-as-root --map-by slot --bind-to none --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self
        --mca pml ob1 --mca btl_tcp_if_include "$net.0/24" --mca oob_tcp_if_include "$net.0/24")
}
