#!/usr/bin/env bash
# heads_and_gates.sh: models with norms of q and k (QK-norm), with a GELU gate (GEGLU), with biases of q, k and v alone, and with heads of which a
# part is rotated, in some layers, train to the same bits under every layout and in every
# precision, on CPU and GPU; audits find nothing, and generated text does not depend on threads.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

played=$(cd "$BUILD" && pwd)/tests/cuda
cd "$scratch" || exit 1
for i in $(seq 300); do echo "line $i of the text, $((i * i))"; done >text.txt
sizes='"vocab": 256, "width": 20, "layers": 3, "heads": 4, "kv-heads": 2, "head-size": 6, "hidden": 34, "positions": 16'
echo "{\"arch\": \"llama\", $sizes}" >plain.json
echo "{\"arch\": \"llama\", $sizes, \"qk-norm\": true}" >normed.json
echo "{\"arch\": \"qwen3\", $sizes}" >qwen3.json
echo "{\"arch\": \"llama\", $sizes, \"gelu-gate\": true}" >geglu.json
echo "{\"arch\": \"qwen2\", $sizes}" >qwen2.json
echo "{\"arch\": \"starcoder2\", $sizes, \"rope-share\": 0.67, \"rope-bases\": \"10000,0,500\"}" >partial.json
experiment=(--data text.txt --seq 12 --global-batch 6 --groups 2 --slices 2 --steps 3 --lr 0.01 --eval-every 0 --matrix-unit chain --threads 1)

# train_one MODEL OPTIONS…: trains; the weights' hash is in $found.
train_one() {
    local model=$1
    shift
    rm -rf run
    train --model "$model.json" "${experiment[@]}" --out run "$@"
    expect_status 0
    found=$(weights)
}

declare -A one
for model in plain normed qwen3 geglu qwen2 partial; do
    for type in fp32 bf16 fp16; do
        case_begin "$model, $type, one worker"
        train_one $model --precision $type
        one[$model-$type]=$found
    done
done
case_begin "Qwen3 is a Llama with QK-norm"
[ "${one[qwen3-fp32]}" = "${one[normed-fp32]}" ] || fail "the weights are ${one[qwen3-fp32]}, not ${one[normed-fp32]}"
case_begin "each model and precision gives other weights"
unset 'one[normed-fp32]' 'one[normed-bf16]' 'one[normed-fp16]'
[ "$(printf '%s\n' "${one[@]}" | sort -u | wc -l)" -eq 15 ] || fail "some are equal: ${one[*]}"

# in_layout MODEL TYPE OPTIONS…
in_layout() {
    case_begin "$*"
    train_one "$1" --precision "${@:2}"
    [ "$found" = "${one[$1-$2]}" ] || fail "the weights are $found, not ${one[$1-$2]}"
}
for model in qwen3 geglu qwen2 partial; do
    for type in fp32 bf16 fp16; do
        in_layout $model $type --tp 2 --sequence-parallel --recompute full
        more in_layout $model $type --tp 2
        more in_layout $model $type --dp 2 --zero 3 --recompute selective
        more in_layout $model $type --dp 2 --pp 2 --micro-batch 1 --schedule zero-bubble
        more in_layout $model $type --pp 3 --micro-batch 1 --stages 1,2,2 --recompute full
    done
    # Every group is computed twice, by two workers.
    in_layout $model fp32 --dp 2 --tp 2 --audit 1
    in_layout $model bf16 --dp 2 --tp 2 --sequence-parallel --zero 2 --audit 1
    ! grep -q '"event":"audit"' run/metrics.jsonl || fail "an audit found something: $(grep '"event"' run/metrics.jsonl)"
    [ "$(grep -c '"audited":2' run/metrics.jsonl)" -eq 3 ] || fail "2 groups were not audited in each step"
done

case_begin "text is generated from keys that are normed and rotated once"
for threads in 1 2; do
    "$LOCKSTEP" generate --model run --prompt "line 1" --seed 3 --max-tokens 8 --temperature 0 --threads $threads >text-$threads 2>err </dev/null || fail "$(cat err)"
done
cmp -s text-1 text-2 || fail "the texts differ: $(cat text-1 text-2)"

# A GPU that the CPU plays: threads of a block are fibers there, so small runs alone.
if [ -e "$played/libcuda.so.1" ] && ! ldd "$LOCKSTEP" | grep -q libasan; then
    tiny=(--data text.txt --seq 4 --global-batch 2 --groups 2 --slices 2 --steps 1 --lr 0.01 --eval-every 0 --threads 1)
    for model in qwen3 geglu qwen2 partial; do
        for unit in 'fp32 chain' 'bf16 chain' 'fp16 chain' 'bf16 hgmma'; do
            case_begin "$model on a GPU, $unit"
            for device in cpu cuda; do
                rm -rf run
                LD_LIBRARY_PATH="$played" train --model $model.json "${tiny[@]}" --precision "${unit% *}" --matrix-unit "${unit#* }" --device $device --out run
                expect_status 0
                [ $device = cpu ] && found=$(weights)
            done
            expect_weights "$found"
        done
    done
fi

finished
