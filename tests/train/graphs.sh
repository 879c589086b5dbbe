#!/usr/bin/env bash
# graphs.sh: a GPU that a CPU plays (tests/cuda) is given its kernels as CUDA graphs, unless it is told not to: the weights are those of the CPU in every
# layout, in fp32 and bf16, with checks and audits, traced, one by one, and where graphs are missing or fail, which is not reported; and nearly all launches go through graphs.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
played=$(cd "$BUILD" && pwd)/tests/cuda
[ -e "$played/libcuda.so.1" ] || { echo "skipped: $played/libcuda.so.1 is not built"; exit 77; }
# The sanitizers' own library would have to come first.
if ldd "$LOCKSTEP" | grep -q libasan; then echo "skipped: not with sanitizers"; exit 77; fi

# count CALL: how often the driver was called so by all workers of the last run.
count() { awk -v call="$1" '$1 == call { n += $2 } END { print n + 0 }' "$scratch/calls"; }

n=0
# same VARIABLES… -- FLAGS…: the run of $experiment with these flags has the weights $right.
same() {
    local set=()
    while [ "$1" != -- ]; do set+=("$1") && shift; done
    shift
    n=$((n + 1))
    case_begin "graphs ${set[*]} $*"
    rm -f "$scratch/calls"
    env "${set[@]}" LS_CUDA_CALLS="$scratch/calls" LD_LIBRARY_PATH="$played" "$LOCKSTEP" train "${experiment[@]}" --device cuda \
        --out "$scratch/run-$n" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_weights "$right"
    ! grep -v ' tokens, tokenized \|NVRTC compiles GPU kernels\|^GPU kernels for .* are ready' "$scratch/err" || fail "it has something to say"
}
# by_graphs: that run did make them, took them more than once, and set what had changed.
by_graphs() {
    [ "$(count cuGraphLaunch)" -gt "$(count cuGraphInstantiateWithFlags)" ] || fail "no graph was used twice: $(count cuGraphLaunch) launches"
    [ "$(count cuGraphExecKernelNodeSetParams)" -gt 0 ] || fail "no argument was set"
}
# by_launches: it launched all kernels one by one.
by_launches() { [ "$(count cuGraphLaunch)" = 0 ] || fail "$(count cuGraphLaunch) launches of graphs"; }

echo '{"arch": "gpt2", "vocab": 256, "width": 12, "layers": 2, "heads": 2, "hidden": 10, "positions": 8}' >"$gpt2"
experiment=(--model "$gpt2" --data "$text" --steps 4 --seq 3 --global-batch 2 --groups 2 --lr 0.01 --dropout 0.1)
train "${experiment[@]}" --out "$scratch/cpu"
right=$(weights)

same -- --micro-batch 1
by_graphs
same -- --dp 2 --zero 3 --check state --audit 1
by_graphs
same -- --tp 2 --sequence-parallel
by_graphs
same -- --pp 2 --schedule zero-bubble --micro-batch 1
by_graphs
same -- --cuda-graphs off
by_launches
same LS_CUDA_FAULT=cuGraphInstantiateWithFlags:2:2 --
same LS_CUDA_FAULT=cuFuncGetParamInfo:1 --
by_launches
same LS_CUDA_MISSING=cuGraphLaunch --
by_launches

# In 16 bits norms have dropout among them, forward and backward.
experiment+=(--precision bf16 --matrix-unit hgmma)
train "${experiment[@]}" --out "$scratch/cpu-bf16"
right=$(weights)
same -- --micro-batch 1
by_graphs
same -- --tp 2 --sequence-parallel
same -- --pp 2 --schedule zero-bubble --micro-batch 1

case_begin "a traced run"
same -- --trace "$scratch/trace.json"
by_launches
grep -q '"name":"adamw"' "$scratch/trace.json" || fail "no kernel of the optimizer is in the trace"

# Launches of a step: all but a few are in graphs, and lists that are on the GPU already are not copied again.
case_begin "launches of a step"
experiment=(--model "$gpt2" --data "$text" --seq 3 --global-batch 2 --groups 2)
declare -A calls
for steps in 5 6; do
    rm -f "$scratch/calls"
    LS_CUDA_CALLS=$scratch/calls LD_LIBRARY_PATH=$played train "${experiment[@]}" --steps $steps --device cuda --out "$scratch/steps-$steps"
    for call in cuLaunchKernel cuGraphLaunch cuGraphInstantiateWithFlags cuMemcpyHtoDAsync; do calls[$call]=$(($(count $call) - ${calls[$call]:-0})); done
done
# The check of memory before an update has a launch and two lists of its own.
[ "${calls[cuLaunchKernel]}" -le 5 ] || fail "${calls[cuLaunchKernel]} kernels were launched one by one"
[ "${calls[cuGraphLaunch]}" -ge 1 ] && [ "${calls[cuGraphLaunch]}" -le 4 ] || fail "${calls[cuGraphLaunch]} launches of graphs"
[ "${calls[cuGraphInstantiateWithFlags]}" = 0 ] || fail "graphs were made in step 6"
[ "${calls[cuMemcpyHtoDAsync]}" -le 7 ] || fail "${calls[cuMemcpyHtoDAsync]} copies to the GPU"

case_begin "verify"
LD_LIBRARY_PATH=$played "$LOCKSTEP" verify --model "$gpt2" --data "$text" --steps 3 --seq 3 --global-batch 2 --groups 2 --workers 2 --device cuda \
    >"$scratch/out" 2>"$scratch/err" </dev/null || fail "exit status $?"

case_begin "a kernel that fails"
LS_CUDA_FAULT=kernel:700:300 LD_LIBRARY_PATH=$played train "${experiment[@]}" --steps 9 --restarts 0 --device cuda --out "$scratch/bad"
expect_status 1
expect_said "GPU 0 failed: .*illegal memory access"
finished
