#!/usr/bin/env bash
# auto.sh: checks that `probe` writes a file that `plan` reads, in less than a minute; that `plan` predicts the bytes of a dry run; and that
# `train --auto-layout` reads the machine from the cache, keeps the user's options, reports its choice, and changes no bit.
# Runs alone: it measures the machine.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

model=$scratch/model.json
machine=$scratch/machine.json
echo '{"arch": "gpt2", "vocab": 256, "width": 64, "layers": 4, "heads": 4, "hidden": 128, "positions": 32}' >"$model"
base=(--model "$model" --data "$text" --tokenizer bytes --steps 3 --seq 32 --global-batch 8 --eval-every 0)

run() { "$LOCKSTEP" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null; status=$?; }

case_begin "probe writes a cluster file"
# With a libcuda that plays a GPU, where it can be loaded: in a process of its own, and workers are forked all the same.
played=$(cd "$BUILD" && pwd)/tests/cuda gpu=cpu
if [ -e "$played/libcuda.so.1" ] && ! ldd "$LOCKSTEP" | grep -q libasan; then gpu=cuda; fi
begin=$(now_ms)
LS_CUDA_MEMORY=$((4 << 30)) LS_CUDA_OTHERS=$((3 << 30)) LD_LIBRARY_PATH=$played run probe --quick --workers 2 --json --device $gpu --out "$machine"
expect_status 0
[ $gpu = cpu ] || grep -q 'other programs hold 3.0 GiB' "$scratch/err" || fail "it does not name the other programs: $(cat "$scratch/err")"
for member in name capability matmul_flops_per_second copy_bytes_per_second to_bytes_per_second from_bytes_per_second \
    free_bytes unit_flops_per_second open_seconds read_seconds rates pass_elems layer_norm_sum bias_gelu bf16/hgmma link_bytes links; do
    [ $gpu = cpu ] || sed -n '/"gpu": {/,$p' "$machine" | grep -q "\"$member\"" || fail "$member of the GPU is not in the file"
done
[ $(($(now_ms) - begin)) -lt 60000 ] || fail "it took $(($(now_ms) - begin)) ms"
for member in cpu cores rates links products_seconds attention_dropout_pair_seconds passes_seconds launch_seconds; do
    grep -q "\"$member\"" "$machine" || fail "$member is not in the file"
    grep -q "\"$member\"" "$scratch/out" || fail "$member is not in the output"
done
for name in all-reduce reduce-scatter all-gather send adamw layer_norm; do
    grep -q "\"$name\"" "$machine" || fail "nothing of $name was measured"
done
grep -q '[:[ ]-[0-9]' "$machine" && fail "a figure is negative"
grep -qi 'nan\|inf' "$machine" && fail "a figure is no number"

if [ $gpu = cuda ]; then
    case_begin "probe of a GPU that is not there"
    LD_LIBRARY_PATH=$played run probe --quick --device cuda:3 --out "$scratch/never.json"
    expect_status 2
    grep -q 'there is no GPU 3' "$scratch/err" || fail "it does not say which"
fi

case_begin "probe cannot write"
run probe --quick --out "$scratch/nowhere/machine.json"
expect_status 2

case_begin "plan with the file"
run plan --model "$model" --cluster "$machine" --device cpu --seq 32 --global-batch 8 --out "$scratch/layout.json"
expect_status 0
grep -q '^best ' "$scratch/out" || fail "there is no best layout"
train "${base[@]}" --layout "$scratch/layout.json" --dry-run
expect_status 0

# A microsecond for each pair of a query and a key whose weight may be dropped: more than noise.
case_begin "plan with dropout"
sed '/"attention_dropout_pair_seconds"/,/}/s/[0-9.]*e-[0-9]*/1e-6/' "$machine" >"$scratch/dropout.json"
attention=()
for rate in 0 0.1; do
    run plan --model "$model" --cluster "$scratch/dropout.json" --device cpu --seq 32 --global-batch 8 --dp 1 --tp 1 --pp 1 --dropout $rate
    expect_status 0
    attention+=("$(awk '$1 == "attention" { print $2 }' "$scratch/out")")
done
grep -q 'dropout 0.1;' "$scratch/out" || fail "it does not say the rate"
awk -v none="${attention[0]}" -v some="${attention[1]}" 'BEGIN { exit !(some > none && none > 0) }' || fail "attention takes ${attention[*]} ms"

case_begin "no link of a measured machine is slower than measured"
run plan --model "$model" --cluster "$machine" --device cpu --seq 32 --global-batch 8 --robust
expect_status 2
grep -q -- '--robust.*: does not apply to a measured machine' "$scratch/err" || fail "--robust is not refused by name: $(cat "$scratch/err")"

# One number a line, by worker.
bytes_of() { grep -o "\"bytes\": *[0-9]*, *\"$2\"" "$1" | grep -o '[0-9]*'; }

# same FLAGS…: plan's bytes are those of the dry run.
same() {
    case_begin "memory of $*"
    run plan --model "$model" --cluster "$machine" --device "$device" --seq 32 --global-batch 8 --json "$@"
    expect_status 0
    bytes_of "$scratch/out" outside_bytes >"$scratch/planned"
    train "${base[@]}" --device "$device" --json --dry-run "$@"
    expect_status 0
    bytes_of "$scratch/out" kinds >"$scratch/dry"
    [ -s "$scratch/dry" ] || fail "the dry run tells no bytes"
    cmp -s "$scratch/planned" "$scratch/dry" || fail "plan says $(tr '\n' ' ' <"$scratch/planned"), the dry run $(tr '\n' ' ' <"$scratch/dry")"
}

device=cpu
same --dp 2 --tp 1 --pp 1 --zero 3 --micro-batch 1
same --dp 1 --tp 2 --pp 1 --no-sequence-parallel --micro-batch 4 --recompute full
same --dp 1 --tp 1 --pp 2 --schedule zero-bubble --micro-batch 1
same --dp 2 --tp 1 --pp 2 --zero 1 --schedule 1f1b --micro-batch 2 --precision bf16

# No GPU is needed to plan for those that were measured elsewhere.
device=cuda
if [ $gpu = cuda ]; then
    same --dp 1 --tp 1 --pp 1 --micro-batch 8
    same --dp 1 --tp 2 --pp 1 --no-sequence-parallel --micro-batch 4 --recompute full --precision bf16
    case_begin "plan takes the GPUs of the file"
    run plan --model "$model" --cluster "$machine" --device auto --seq 32 --global-batch 8 --precision bf16 --json
    expect_status 0
    grep -q '"device": *"cuda"' "$scratch/out" || fail "it is not for GPUs"
    grep -q '"matrix_unit": *"hgmma"' "$scratch/out" || fail "it has another matrix unit"
    run plan --model "$model" --cluster "$machine" --device auto --seq 32 --global-batch 8
    grep -q '^machine *1 × a CPU that plays a GPU, .*fp32, matrix unit chain' "$scratch/out" || fail "it does not say which machine"

    case_begin "plan says what of the reductions is hidden"
    run plan --model "$model" --cluster "$machine" --device auto --seq 32 --global-batch 8 --dp 2 --tp 1 --pp 1 --json
    awk 'match($0, /"dp_link_seconds": *[0-9.e-]+/) { link = substr($0, RSTART + 18, RLENGTH - 18) + 0 }
         match($0, /"dp_hidden_seconds": *[0-9.e-]+/) { hidden = substr($0, RSTART + 20, RLENGTH - 20) + 0 }
         END { exit !(hidden > 0 && link > hidden) }' "$scratch/out" || fail "nothing is, or all"

    case_begin "plan for slices and groups, and a warning where there are many on a worker"
    ask=(plan --model "$model" --cluster "$machine" --device auto --seq 32 --global-batch 8 --precision bf16 --groups 4)
    run "${ask[@]}" --slices 4 --tp 1 --dp 1 --pp 1
    expect_status 0
    grep -q '4 groups, 4 slices' "$scratch/out" || fail "it planned for others"
    grep -q '^warning  --slices 4: a worker adds up 4 slices' "$scratch/out" || fail "it does not warn"
    run "${ask[@]}" --slices 4 --tp 4 --dp 1 --pp 1 --json
    expect_status 0
    grep -q '"warnings": *\[\]' "$scratch/out" || fail "it warns where each worker has one slice"
    run "${ask[@]}" --tp 4 --dp 1 --pp 1
    expect_status 2
    grep -q 'slices' "$scratch/err" || fail "it does not name the slices"
    LD_LIBRARY_PATH=$played train "${base[@]}" --steps 1 --device cuda --precision bf16 --slices 4 --out "$scratch/slices"
    grep -q '^warning  *--slices 4: a worker adds up 4 slices' "$scratch/out" || fail "train does not warn"
fi
case_begin "plan for a GPU that was not measured"
sed '/"gpu": {/,$s/"rates"/"was"/' "$machine" >"$scratch/before.json" # a file of before
run plan --model "$model" --cluster "$scratch/before.json" --device cuda --seq 32 --global-batch 8
expect_status 2
grep -q 'lockstep probe' "$scratch/err" || fail "it does not say what to do"
run plan --model "$model" --cluster "$scratch/before.json" --device auto --seq 32 --global-batch 8
expect_status 0
run plan --model "$model" --cluster "$machine" --device gpu0 --seq 32 --global-batch 8
expect_status 2
grep -q 'no device is called gpu0' "$scratch/err" || fail "it takes any device"

case_begin "plan with figures that are none"
sed 's/"launch_seconds": [0-9.e-]*/"launch_seconds": -1/' "$machine" >"$scratch/bad.json"
run plan --model "$model" --cluster "$scratch/bad.json"
expect_status 2

case_begin "train as usual"
train "${base[@]}" --out "$scratch/plain"
expect_status 0
plain=$(weights)

case_begin "train --auto-layout"
mkdir -p "$XDG_CACHE_HOME/lockstep" && cp "$machine" "$XDG_CACHE_HOME/lockstep/probe-$(uname -n).json"
train "${base[@]}" --auto-layout --out "$scratch/auto"
expect_weights "$plain"
grep -q '^auto .* s per step predicted' "$scratch/out" || fail "it does not say what it chose"
grep -q 'measured earlier' "$scratch/out" || fail "it did not take the machine from the cache"

case_begin "train --auto keeps what is given"
train "${base[@]}" --auto --pp 2 --micro-batch 2 --out "$scratch/given"
expect_weights "$plain"
grep -q '^auto *dp [0-9]* × tp [0-9]* × pp 2, .*micro-batch 2:' "$scratch/out" || fail "it chose another layout"

if [ $gpu = cuda ]; then
    case_begin "train --auto on a GPU, and doctor"
    few=(--model "$model" --data "$text" --tokenizer bytes --steps 3 --seq 4 --global-batch 2 --groups 2 --eval-every 0)
    train "${few[@]}" --device cpu --out "$scratch/few"
    plain_few=$(weights)
    LD_LIBRARY_PATH=$played train "${few[@]}" --auto --device cuda --out "$scratch/on-gpu"
    expect_weights "$plain_few"
    grep -q '^auto *dp 1 × tp 1 × pp 1, ' "$scratch/out" || fail "it chose several workers for one GPU"
    grep -q 'on 1 × a CPU that plays a GPU, measured earlier' "$scratch/out" || fail "it did not take the GPU from the cache"
    run doctor "$scratch/on-gpu"
    grep -q '^device: 1 × a CPU that plays a GPU, fp32, matrix unit chain$' "$scratch/out" || fail "doctor does not name the GPU"
    grep -q 'MFU .* TFLOP/s that were measured' "$scratch/out" || fail "doctor tells no MFU"
    grep -q 'waited for the GPU for [0-9]* % of a step' "$scratch/out" || fail "doctor does not name the side that waited"
    run doctor "$scratch/on-gpu" --json
    grep -q '"host_waits": *0*\.*[0-9]' "$scratch/out" || fail "--json does not name the side that waited"
    case_begin "the same folder on a CPU"
    train --out "$scratch/on-gpu" --resume --no-auto-layout --device cpu
    expect_status 0
    run doctor "$scratch/on-gpu"
    grep -q '^device:' "$scratch/out" && fail "doctor speaks of a GPU"
fi

case_begin "what cannot be"
train "${base[@]}" --auto --tp 3 --out "$scratch/never"
expect_status 2
train "${base[@]}" --probe-again --out "$scratch/never"
expect_status 2
[ -e "$scratch/never" ] && fail "a folder was made"

case_begin "a cache of another machine is measured again"
if [ "$TIER" = long ]; then
    sed -i 's/"cpu": "[^"]*"/"cpu": "another"/' "$XDG_CACHE_HOME"/lockstep/probe-*.json
    train "${base[@]}" --auto --out "$scratch/again"
    expect_weights "$plain"
    grep -q 'measured now' "$scratch/out" || fail "it took the figures of another machine"
fi
finished
