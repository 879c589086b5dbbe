#!/usr/bin/env bash
# mpi.sh: workers that fail under mpirun, in shared memory and between nodes. mpirun kills the others; lockstep must end soon,
# with the right status and the name of the worker.
# Runs alone: a failed run must end soon.
# shellcheck source=tests/faults/common.bash
. "$(dirname "$0")/common.bash"

if ! "$BUILD/lockstep" --version 2>/dev/null | grep -q '^MPI .*Open MPI' || ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    echo "skipped: needs Open MPI's mpirun and a build with it"
    exit 77
fi

# mpirun adds paragraphs of its own, so lines are not counted here.
names_worker() {
    grep -Eq "worker $1\b.*error: .*$2|error: .*worker $1\b.*$2" "$scratch/err" || fail "no line of error names worker $1 and says '$2'"
}

through=(mpirun --oversubscribe --allow-run-as-root -n 3)
node_sizes=(0 1)
[ "$TIER" != long ] || node_sizes=(0 1 2)
for node_size in "${node_sizes[@]}"; do
    common=(--op all_reduce --bytes 65536 --fail-rank 1 --fail-loop 20 --timeout 1 --node-size "$node_size")
    start "an error, $node_size a node" "${common[@]}" --fail-how error
    finish 10000 1 && names_worker 1 'the sky fell on this worker'
    start "too little memory, $node_size a node" "${common[@]}" --fail-how oom
    finish 10000 5 && names_worker 1 memory
    start "a worker stops answering, $node_size a node" "${common[@]}" --fail-how stop
    finish 10000 4 && names_worker 1 'did not answer'
    start "a crash, $node_size a node" "${common[@]}" --fail-how segv
    finish 10000 139
    start "a silent end, $node_size a node" "${common[@]}" --fail-how exit
    finish 10000 7
done
finished
