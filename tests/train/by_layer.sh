#!/usr/bin/env bash
# by_layer.sh: a model whose layers differ trains to the same bits under every layout, and a field that older runs do not have leaves their
# identities alone.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

cd "$scratch" || exit 1
for i in $(seq 300); do echo "line $i of the text, $((i * i))"; done >text.txt
sizes='"arch": "llama", "vocab": 256, "width": 20, "layers": 5, "heads": 4, "kv-heads": 2, "head-size": 6, "hidden": 34, "positions": 16'
echo "{$sizes}" >uniform.json
echo "{$sizes, \"rope-bases\": \"10000\"}" >listed.json
echo "{$sizes, \"rope-bases\": \"10000,100\"}" >bases.json
echo "{$sizes, \"rope-bases\": \"10000,0\"}" >unrotated.json
echo "{$sizes, \"rope-bases\": \"10000,0,100.5\", \"rope-scaling\": {\"factor\": 4, \"original\": 8}}" >three.json
experiment=(--data text.txt --seq 12 --global-batch 6 --groups 2 --slices 2 --steps 4 --lr 0.01 --eval-every 0 --matrix-unit chain)

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
for model in uniform listed bases unrotated three; do
    case_begin "$model, one worker"
    train_one $model
    one[$model]=$found
    [ $model = uniform ] || identity_of_other=$(sed -n 's/^  "hash": "\(.*\)",$/\1/p' run/identity.json)
    [ $model = uniform ] || [ "$identity_of_other" != "$identity" ] || fail "the identity is that of layers without a list"
    [ $model != uniform ] || identity=$(sed -n 's/^  "hash": "\(.*\)",$/\1/p' run/identity.json)
done

case_begin "a list of one value is that value"
[ "${one[listed]}" = "${one[uniform]}" ] || fail "the weights are ${one[listed]}, not ${one[uniform]}"
case_begin "each list gives other weights"
[ "$(printf '%s\n' "${one[uniform]}" "${one[bases]}" "${one[unrotated]}" "${one[three]}" | sort -u | wc -l)" -eq 4 ] ||
    fail "some are equal: ${one[*]}"

for model in bases unrotated three; do
    for layout in '--pp 2 --stages 1,6 --micro-batch 1' '--pp 2 --stages 5,2 --schedule zero-bubble --micro-batch 1' \
        '--pp 2 --schedule interleaved --virtual-stages 2 --micro-batch 1' '--tp 2 --sequence-parallel' '--dp 2 --zero 3 --recompute full' \
        '--pp 2 --stages 2,5 --tp 2 --dp 2 --micro-batch 1 --recompute selective'; do
        case_begin "$model, $layout"
        # shellcheck disable=SC2086 # the options are words
        train_one $model $layout
        [ "$found" = "${one[$model]}" ] || fail "the weights are $found, not ${one[$model]}"
    done
done

case_begin "a run with a list is resumed with the list alone"
rm -rf run
train --model bases.json "${experiment[@]}" --out run
expect_status 0
"$LOCKSTEP" train --model three.json "${experiment[@]}" --steps 6 --out run --resume >out 2>err </dev/null && fail "another list was accepted"
grep -q 'model.rope-bases is 10000,0,100.5 here and 10000,100 in the checkpoint' err || fail "$(cat err)"

case_begin "transformers has no such Llama"
"$LOCKSTEP" export --model run --out exported >out 2>err </dev/null && fail "it was exported"
grep -q 'has rope-bases "10000,100", which Hugging Face.s LlamaForCausalLM cannot have' err || fail "$(cat err)"

finished
