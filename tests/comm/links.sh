#!/usr/bin/env bash
# links.sh: tensors between machines. MPI starts workers on this one, --node-size makes several machines of it, and GPUs and NCCL are played
# (tests/cuda, tests/nccl). With links, and through the hosts where there are none, runs have the bits of the CPU; what NCCL cannot do is said
# once, and what fails later is a named error and no hang. TIER=long runs more layouts.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/../train/common.bash"
played=$(cd "$BUILD" && pwd)/tests
LOCKSTEP=$played/spoil/lockstep # for --device fake
[ -e "$played/cuda/libcuda.so.1" ] || { echo "skipped: $played/cuda/libcuda.so.1 is not built"; exit 77; }
if ldd "$LOCKSTEP" | grep -q libasan; then echo "skipped: not with sanitizers"; exit 77; fi
"$LOCKSTEP" --version 2>/dev/null | grep -q '^MPI .*Open MPI' || { echo "skipped: the build has no Open MPI"; exit 77; }
mpirun --version 2>/dev/null | grep -q 'Open MPI' || { echo "skipped: there is no mpirun of Open MPI"; exit 77; }

nccl=$played/nccl
# launched WORKERS COMMAND…
launched() {
    LD_LIBRARY_PATH=$played/cuda:$nccl timeout --kill-after=5 60 mpirun --allow-run-as-root --oversubscribe -n "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
}
# across WORKERS NODE_SIZE FLAGS…: a run with these flags; VARIABLES are of its environment.
across() {
    launched "$1" env "${variables[@]}" "$LOCKSTEP" train "${experiment[@]}" --node-size "$2" --threads 1 --out "$scratch/run" "${@:3}"
    rm -rf "$scratch/run"
}
variables=(A=)
hosts='tensors go from machine to machine through host memory'

# same WORKERS NODE_SIZE FLAGS…: it has the weights $right, and tensors go by links.
same() {
    case_begin "$device: $1 workers, $2 a machine, ${*:3}"
    across "$@" --device "$device"
    expect_weights "$right"
    [ "$device" = fake ] || ! grep -q "$hosts" "$scratch/err" || fail "there were no links"
}
# collectives WORKERS NODE_SIZE: random ones beside those of the host.
collectives() {
    case_begin "collectives of $1 workers, $2 a machine"
    launched "$1" env LS_TEST_CUDA=1 LS_TEST_LINKS=1 LS_TEST_NODE_SIZE="$2" "$BUILD/tests/unit/test_peers"
    expect_status 0
}

experiment=(--model "$gpt2" --data "$text" --steps 1 --seq 5 --global-batch 4 --groups 4 --lr 0.01)
train "${experiment[@]}"  --out "$scratch/cpu"
right=$(weights)
case_begin "a link with itself"
LS_TEST_CUDA=1 LD_LIBRARY_PATH=$played/cuda:$nccl "$BUILD/tests/unit/test_device_link" >"$scratch/out" 2>"$scratch/err"
status=$?
expect_status 0
collectives 3 2
device=cuda
same 2 1 --dp 2
device=fake
same 4 2 --dp 2 --tp 2
if [ "$TIER" = long ]; then
    for n in "2 1" "3 1" "4 1" "4 2" "5 2" "4 3"; do
        # shellcheck disable=SC2086 # two words
        collectives $n
    done
    for device in cuda fake; do
        same 3 1 --dp 3 --zero 1 --micro-batch 1
        same 4 2 --dp 2 --tp 2 --sequence-parallel
        same 4 2 --dp 4 --zero 3 --recompute full
        same 2 1 --pp 2 --schedule zero-bubble --micro-batch 1
        same 4 2 --pp 2 --tp 2 --micro-batch 1
        same 2 1 --pp 2 --virtual-stages 2 --micro-batch 1
    done
fi

# without TEXT VARIABLES…: there are no links, which is said once with this text; the bits are the same.
without() {
    case_begin "without links: $1"
    variables=("${@:2}")
    across "${workers:-2}" 1 --dp "${workers:-2}" --device cuda
    expect_weights "$right"
    [ "$(grep -c "$hosts" "$scratch/err")" = 1 ] || fail "it is not said once"
    expect_said "$1"
    variables=(A=)
}
# fails STATUS TEXT FLAGS… -- VARIABLES…
fails() {
    local begin
    case_begin "$2"
    local expected=$1 said=$2 flags=()
    shift 2
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    variables=("${@:2}")
    begin=$(now_ms)
    across 2 1 --device cuda "${flags[@]}"
    expect_status "$expected"
    expect_said "$said"
    [ $(($(now_ms) - begin)) -lt 20000 ] || fail "it took $(($(now_ms) - begin)) ms"
    variables=(A=)
}
if [ "$TIER" = long ]; then
    without 'NCCL has version 2\.12\.1, and 2\.14 is needed' LS_NCCL_VERSION=21201
    nccl=$played/nccl/without without 'libnccl.so.2 has no ncclRecv'
    mkdir "$scratch/none" && echo none >"$scratch/none/libnccl.so.2"
    nccl=$scratch/none without 'NCCL is not here'
    without 'worker 1: NCCL 2\.28\.9 failed: ncclCommInitRankConfig: invalid usage' LS_NCCL_FAULT=ncclCommInitRankConfig:5 LS_NCCL_RANK=1 LS_TIMEOUT=3
    without 'NCCL 2\.28\.9 failed: .*invalid usage' LS_NCCL_FAULT=init:5
    workers=3 without 'ncclGetUniqueId: an error that a test plays' LS_NCCL_FAULT=ncclGetUniqueId:3
    fails 1 'NCCL 2\.28\.9 failed: between machines: remote process exited or there was a network error' --dp 2 -- \
        LS_NCCL_FAULT=async:6:6 LS_NCCL_RANK=1
    fails 1 'ncclGroupEnd: an error that a test plays' --dp 2 -- LS_NCCL_FAULT=ncclGroupEnd:1:5 LS_NCCL_RANK=1
    fails 4 'no data moved between GPUs on different machines for 2 s in (all-reduce|reduce-scatter|all-gather) .collective number' --dp 2 --timeout 2 -- \
        LS_NCCL_FAULT=stop:1:6 LS_NCCL_RANK=1
    fails 4 'worker 1 did not answer within 2 s in receive|no data moved .* in (send|receive): the process or machine of worker 1' --pp 2 --timeout 2 -- \
        LS_NCCL_FAULT=stop:1:6 LS_NCCL_RANK=1
fi
finished
