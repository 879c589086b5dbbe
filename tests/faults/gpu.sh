#!/usr/bin/env bash
# gpu.sh: checks the errors of a GPU or driver that fails, with a libcuda that emulates it (tests/cuda): a named error, the right exit
# status, no hang; and that a run on it has the bits of the CPU, with one worker and with two.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/../train/common.bash"
played=$(cd "$BUILD" && pwd)/tests/cuda
[ -e "$played/libcuda.so.1" ] || { echo "skipped: $played/libcuda.so.1 is not built"; exit 77; }
# The sanitizers' own library would have to come first.
if ldd "$LOCKSTEP" | grep -q libasan; then echo "skipped: not with sanitizers"; exit 77; fi

# fails STATUS TEXT VARIABLES…: a run on a GPU with these variables ends with this status, and says this.
fails() {
    local status=$1 text=$2
    shift 2
    case_begin "$text ($*)"
    env "$@" LD_LIBRARY_PATH="$played" timeout 60 "$LOCKSTEP" train --model "$gpt2" --data "$text_file" --steps 1 --seq 4 --global-batch 1 --groups 1 \
        --device "${device:-cuda}" --out "$scratch/bad" >"$scratch/out" 2>"$scratch/err"
    local got=$?
    [ "$got" = "$status" ] || fail "exit status $got, not $status"
    grep -qF -- "$text" "$scratch/err" || fail "does not say: $text"
    rm -rf "$scratch/bad"
}
text_file=$text

fails 2 "is for CUDA 11.8, and 12.0 is needed" LS_CUDA_VERSION=11080
fails 2 "has no cuStreamWaitValue64" LS_CUDA_MISSING=cuStreamWaitValue64
fails 2 "sees no GPU" LS_CUDA_GPUS=0
fails 2 "compute capability 7.5, and 8.0 is needed" LS_CUDA_CAPABILITY=75
fails 5 "out of memory" LS_CUDA_MEMORY=1000000
fails 1 "GPU 0 failed" LS_CUDA_FAULT=cuMemcpyHtoDAsync:719:3
fails 1 "uncorrectable ECC error" LS_CUDA_FAULT=kernel:214:5
fails 1 "illegal memory access" LS_CUDA_FAULT=kernel:700:2
fails 1 "CUDA_ERROR" LS_CUDA_FAULT=cuDevicePrimaryCtxRetain:3
fails 1 "GPU 0 failed: waiting: " LS_CUDA_FAULT=cuEventQuery:999:4
fails 1 "it may have fallen off the bus" LS_CUDA_FAULT=cuEventQuery:999:4
fails 1 "GPU 0 has not finished its work for 0.5 seconds" LS_CUDA_HANG=1 LS_CUDA_WAIT_S=0.5
device=cuda:3 fails 2 "there is no GPU 3" LS_CUDA_GPUS=2
device=gpu fails 2 "no device is called gpu"
case_begin "no driver"
"$LOCKSTEP" train --model "$gpt2" --data "$text" --steps 1 --device cuda --out "$scratch/none" >"$scratch/out" 2>"$scratch/err"
got=$?
if ! ldconfig -p 2>/dev/null | grep -q libcuda.so.1; then
    [ "$got" = 2 ] || fail "exit status $got, not 2"
    grep -q "no NVIDIA driver here" "$scratch/err" || fail "does not say that there is no driver"
fi

# other STATUS TEXT VARIABLES…: of two workers, each with its GPU, the second meets this; both end, soon.
other() {
    local begin
    case_begin "worker 1: $2 (${*:3})"
    begin=$(now_ms)
    env "${@:3}" LS_CUDA_GPUS=2 LS_CUDA_GPU=1 LD_LIBRARY_PATH="$played" "$LOCKSTEP" train --model "$gpt2" --data "$text_file" --steps 50 --seq 4 --global-batch 2 \
        --groups 2 --dp 2 --device cuda --out "$scratch/bad" >"$scratch/out" 2>"$scratch/err"
    status=$?
    expect_status "$1"
    expect_said "worker 1: $2"
    [ $(($(now_ms) - begin)) -lt 20000 ] || fail "it took $(($(now_ms) - begin)) ms"
    rm -rf "$scratch/bad"
}
other 1 "GPU 1 failed: .*uncorrectable ECC error .*reset it, or take another" LS_CUDA_FAULT=kernel:214:40
other 1 "GPU 1 failed: .*illegal memory access" LS_CUDA_FAULT=cuLaunchKernel:700:40
other 1 "GPU 1 failed: .*illegal memory access" LS_CUDA_FAULT=cuLaunchKernel:700:40 LS_CUDA_GRAPHS=off
other 5 "GPU 1 is out of memory .cuMemAlloc.: use a smaller micro-batch" LS_CUDA_FAULT=cuMemAlloc:2:2
other 1 "GPU 1 has not finished its work for 1 seconds" LS_CUDA_HANG=1 LS_CUDA_WAIT_S=1

# A worker is killed while GPUs compute: it is named, and not the GPU of another, which has lost the memory that it read (LS_CUDA_ORPHAN).
for rank in 0 1; do
    case_begin "worker $rank is killed"
    # shellcheck disable=SC2030,SC2031 # for the child alone
    LS_CUDA_ORPHAN=1 LD_LIBRARY_PATH=$played start --model "$gpt2" --data "$text" --steps 500 --seq 4 --global-batch 2 --groups 2 --dp 2 --device cuda \
        --restarts 0 --out "$scratch/killed"
    await_steps "$scratch/killed" 1
    read -r -a pids <"/proc/$child/task/$child/children"
    begin=$(now_ms)
    kill -KILL "${pids[rank]}"
    reap
    expect_status 3
    expect_said "error: worker $rank \(process ${pids[rank]}\) was killed by signal 9, SIGKILL"
    ! grep -q 'GPU [0-9]* failed' "$scratch/err" || fail "it blames a GPU"
    [ $(($(now_ms) - begin)) -lt 10000 ] || fail "it took $(($(now_ms) - begin)) ms"
    rm -rf "$scratch/killed"
done

# A result of one of two replicas is wrong: both compute it again with other kernels, and it is known whose it was.
for rank in 0 1; do
    case_begin "worker $rank computes wrongly"
    LS_SPOIL="rank=$rank step=0 place=product tensor=mlp.in.weight add=0.01 times=0" LD_LIBRARY_PATH=$played "$BUILD/tests/spoil/lockstep" train \
        --model "$gpt2" --data "$text" --steps 1 --seq 5 --global-batch 2 --groups 2 --dp 2 --audit 1 --device cuda --out "$scratch/spoiled" \
        >"$scratch/out" 2>"$scratch/err"
    grep -q "\"event\":\"audit\".*\"wrong\":$rank,\"persistent\":true" "$scratch/spoiled/metrics.jsonl" || fail "it does not name the worker"
    rm -rf "$scratch/spoiled"
done

# Threads of a block are fibers there: small runs alone.
tiny=(--model "$gpt2" --data "$text" --steps 2 --seq 5 --global-batch 2 --groups 2 --lr 0.01)
train "${tiny[@]}" --out "$scratch/cpu"
right=$(sed -n 's/.*weights=xxh128:\([0-9a-f]*\).*/\1/p' "$scratch/out" | tail -n 1)
for flags in "" "--dp 2"; do
    case_begin "the bits of the CPU $flags"
    # shellcheck disable=SC2086 # flags are words
    LD_LIBRARY_PATH=$played train "${tiny[@]}" --device cuda --out "$scratch/gpu" $flags
    expect_weights "$right"
    rm -rf "$scratch/gpu"
done

# A compiler has four seconds on the way, while the other worker waits: two without progress are a hang elsewhere.
case_begin "kernels that take long to load are no hang"
LS_CUDA_FAULT=cuModuleLoadData:-3:5 LS_CUDA_GPUS=2 LS_CUDA_GPU=1 LD_LIBRARY_PATH=$played train "${tiny[@]}" --dp 2 --device cuda --out "$scratch/gpu"
expect_weights "$right"
grep -q '"step":1,.*"ms":[4-9][0-9][0-9][0-9]\.' "$scratch/gpu/metrics.jsonl" || fail "the first step did not wait for them"
! grep -q '"restart":1' "$scratch/gpu/metrics.jsonl" || fail "a worker was replaced"
finished
