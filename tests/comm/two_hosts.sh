#!/usr/bin/env bash
# two_hosts.sh: MPI between two hosts (hosts.bash). Four workers, two a host, must give the bits that shared memory gives. CABLE_TEST=program runs
# that MPI program instead.
#
#     host a: mpirun, workers 0 1              host b: orted, workers 2 3
# Runs alone: its hosts and their network are of this machine.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
program=$(cd "$BUILD/tests/comm" 2>/dev/null && pwd)/conformance
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-hosts.XXXXXX") || exit 1
# shellcheck source=tests/comm/hosts.bash
. tests/comm/hosts.bash
cleanup() {
    end_hosts
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

fail() {
    echo "FAIL $*"
    cat "$scratch/out" "$scratch/err" 2>/dev/null
    exit 1
}

if [ -z "${CABLE_TEST:-}" ]; then
    "$BUILD/lockstep" --version 2>/dev/null | grep -q '^MPI .*Open MPI' || skip "the build has no Open MPI"
    [ -x "$program" ] || fail "$program is missing: run \`make programs\`"
fi
make_hosts

# four COMMAND: four processes, two on each host, which have only the cable between them.
four() { timeout --kill-after=5 100 "${across[@]}" --hostfile "$scratch/hosts" -n 4 "$@" >"$scratch/out" 2>"$scratch/err"; }

four hostname || fail "mpirun cannot start a program on both hosts"
[ "$(sort "$scratch/out" | uniq -c | tr -s ' \n' ' ')" = " 2 $a 2 $b " ] || fail "the four processes are not on two hosts"

if [ -n "${CABLE_TEST:-}" ]; then
    four "$CABLE_TEST" || fail "exit status $?"
    cat "$scratch/out"
    exit 0
fi

wanted=$("$program" --reference | sed 's/^reference/bits/')
for options in "--only bits" "--only in_flight" "--only all_to_all" "--only bits --node-size 1"; do
    # shellcheck disable=SC2086 # options are words
    four "$program" $options || fail "conformance $options: exit status $?"
    cat "$scratch/out"
    grep -q '^conformance: transport=mpi workers=4 ' "$scratch/out" || fail "conformance $options did not run on four workers"
    case "$options" in
    *bits*) [ "$(grep '^bits ' "$scratch/out")" = "$wanted" ] || fail "the bits are not those of one process: $wanted" ;;
    esac
done
