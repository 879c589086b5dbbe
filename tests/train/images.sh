#!/usr/bin/env bash
# images.sh: models of images: the same bits under every layout and those of the constants below on every machine; they learn; a run
# goes on under another layout; what cannot be is refused. Long: more layouts, and accuracy to the end.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

small=$scratch/small.json
echo '{"arch": "resnet18", "channels": 1, "image-height": 16, "image-width": 16, "small": true}' >"$small"
mlp=$scratch/mlp.json
echo '{"arch": "mlp", "channels": 1, "image-height": 16, "image-width": 16, "widths": "40,30"}' >"$mlp"

# Weights after 4 steps of 24 drawings, of ResNet-18 in the short tier after 2; docs/reference/arithmetic.md fixes them.
declare -A golden=(
    [lenet]=ea8c971b821644e57eb2064832f65540
    [lenet-sigmoid]=f6dc181c56af50d0d9b67a5d367cb20f
    [small]=8ee0d2fa9d84527133d9fbcecfbe9751
    [drop]=9b3e79fc03f91f4625c1038961391a41
    [sync]=618e250257383fd76d8b2d1c8517e37a
    [mlp]=1363dd8941136384fe5de078f3d3c63e
    [small-2]=f729f91bf3e7d4908e9a2d622bce3acf
    [sync-2]=6a72768dab895ae6e9879d3586be0b7a
)

n=0
# same NAME MODEL FLAGS…: whatever the flags, the weights of the constant.
same() {
    local name=$1 model=$2 found steps
    shift 2
    n=$((n + 1))
    case_begin "$name $*"
    case "$name" in *-2) steps=2 ;; *) steps=4 ;; esac
    "$LOCKSTEP" train --model "$model" --steps $steps --global-batch 24 --groups 8 --lr 0.002 --eval-every 2 --eval-batches 2 --threads 1 \
        --out "$scratch/same-$n" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
    found=$(sed -n 's/^done: .*weights=xxh128:\([0-9a-f]*\) .*/\1/p' "$scratch/out")
    [ "$found" = "${golden[$name]}" ] || fail "weights $found, not ${golden[$name]}"
    rm -rf "$scratch/same-$n"
}

more same lenet lenet
more same lenet lenet --dp 3 --zero 1 --micro-batch 5
same lenet lenet --dp 2 --pp 2 --schedule zero-bubble --micro-batch 2 --recompute full
more same drop lenet --dropout 0.25 --micro-batch 5
same drop lenet --dropout 0.25 --dp 3 --pp 2 --zero 2 --micro-batch 1 --recompute full --isa portable
same lenet-sigmoid lenet-sigmoid --dp 8 --zero 3 --isa portable
same mlp "$mlp" --pp 3 --micro-batch 4
more same small-2 "$small"
same small-2 "$small" --dp 4 --zero 2 --micro-batch 3
more same sync-2 "$small" --bn sync
same sync-2 "$small" --bn sync --dp 3
if [ "$TIER" = long ]; then
    for flags in "--micro-batch 1" "--dp 5 --zero 2" "--pp 5 --micro-batch 2" "--dp 2 --audit 0.25 --check state" "--numerics 2 --isa portable"; do
        # shellcheck disable=SC2086 # a list of flags
        same lenet lenet $flags
    done
    for flags in "" "--dp 8 --zero 3" "--dp 2 --pp 3 --recompute full" "--pp 2 --schedule zero-bubble" "--isa portable --dp 5"; do
        # shellcheck disable=SC2086
        same sync "$small" --bn sync $flags
    done
    for flags in "" "--dp 8 --zero 3" "--dp 3 --zero 1 --micro-batch 6" "--pp 2 --schedule 1f1b --micro-batch 6 --recompute full --threads 2" \
        "--dp 2 --pp 2 --schedule interleaved --virtual-stages 2 --micro-batch 3"; do
        # shellcheck disable=SC2086
        same small "$small" $flags
    done
fi

some=(--part "1/$(sample 16 4)")
[ "$TIER" = short ] || some=()
case_begin "every pair of choices"
"$LOCKSTEP" verify --quick --model "$mlp" "${some[@]}" >"$scratch/out" 2>"$scratch/err" </dev/null
status=$?
expect_status 0
grep -q ': every loss, gradient and weight is bit-identical to one worker' "$scratch/out" || fail "no summary that all are equal"

# ---- learning ----------------------------------------------------------------------------------------------------------

steps=150 least=70
[ -z "${TEST_SAMPLE:-}" ] || steps=15 least=0 # too few to learn; what they compute is looked at all the same
if [ "$TIER" = long ]; then steps=1500 least=97; fi
case_begin "lenet learns the drawings"
train --model lenet --steps $steps --global-batch 64 --lr 0.003 --warmup 20 --eval-every 0 --out "$scratch/lenet"
expect_status 0
"$LOCKSTEP" eval --model "$scratch/lenet" --json >"$scratch/out" 2>"$scratch/err" </dev/null
status=$?
expect_status 0
right=$(sed -n 's/.*"accuracy":\([0-9.]*\).*/\1/p' "$scratch/out")
awk -v right="${right:-0}" -v least=$least 'BEGIN { exit !(100 * right >= least) }' || fail "accuracy $right, below $least %"

case_begin "a run goes on under another layout"
train --model lenet --steps 20 --global-batch 16 --eval-every 0 --out "$scratch/whole"
whole=$(sed -n 's/^done: .*weights=\([^ ]*\).*/\1/p' "$scratch/out")
train --model lenet --steps 20 --global-batch 16 --eval-every 0 --save-every 8 --keep 9 --out "$scratch/part"
rm -rf "$scratch"/part/checkpoints/step-000000016 "$scratch"/part/checkpoints/step-000000020
train --out "$scratch/part" --resume --dp 2
expect_status 0
[ "$(sed -n 's/^done: .*weights=\([^ ]*\).*/\1/p' "$scratch/out")" = "$whole" ] || fail "not the weights of the whole run"

# ---- parts of larger images --------------------------------------------------------------------------------------------

case_begin "a part of images that are larger"
larger=$scratch/larger
mkdir "$larger"
for part in train t10k; do
    { printf '\0\0\10\3\0\0\0\50\0\0\0\34\0\0\0\34' && head -c $((40 * 28 * 28)) "$LOCKSTEP"; } >"$larger/$part-images-idx3-ubyte"
    { printf '\0\0\10\1\0\0\0\50' && for _ in 1 2 3 4; do printf '\0\1\2\3\4\5\6\7\10\11'; done; } >"$larger/$part-labels-idx1-ubyte"
done
echo '{"arch": "lenet", "channels": 1, "image-height": 24, "image-width": 24}' >"$scratch/part.json"
parts=(--model "$scratch/part.json" --data "$larger" --steps 3 --global-batch 8 --eval-every 0 --threads 1)
train "${parts[@]}" --augment crop,flip --out "$scratch/part-1"
expect_status 0
alone=$(sed -n 's/^done: .*weights=\([^ ]*\).*/\1/p' "$scratch/out")
train "${parts[@]}" --augment crop,flip --dp 3 --micro-batch 1 --out "$scratch/part-3"
expect_status 0
[ "$(sed -n 's/^done: .*weights=\([^ ]*\).*/\1/p' "$scratch/out")" = "$alone" ] || fail "not the weights of one worker"
"$LOCKSTEP" eval --model "$scratch/part-1" --data "$larger" >"$scratch/out" 2>"$scratch/err" </dev/null
status=$?
expect_status 0
grep -q '^images      40 ' "$scratch/out" || fail "not all images were told"
grep -E '^(loss|accuracy)' "$scratch/out" >"$scratch/by-fours"
"$LOCKSTEP" eval --model "$scratch/part-1" --data "$larger" --micro-batch 7 >"$scratch/out" 2>"$scratch/err" </dev/null
status=$?
expect_status 0
grep -q '^images      40 ' "$scratch/out" || fail "not all images were told when the last micro-batch is smaller"
grep -E '^(loss|accuracy)' "$scratch/out" | cmp -s - "$scratch/by-fours" || fail "the micro-batch changes what is measured"
train "${parts[@]}" --out "$scratch/part-none"
expect_status 2
grep -qF 'or crop the images with --augment crop' "$scratch/err" || fail "stderr does not name --augment crop"

# ---- what cannot be ----------------------------------------------------------------------------------------------------

# refused TEXT ARGUMENTS…
refused() {
    local text=$1
    shift
    case_begin "$*"
    "$LOCKSTEP" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 2
    grep -qF -- "$text" "$scratch/err" || fail "stderr has not: $text"
}

refused "image models train in fp32" train --model lenet --precision bf16
refused "has no dropout" train --model "$small" --dropout 0.1
refused "--tp 2 exceeds the 1 slice" train --model lenet --tp 2
refused "must be none, or a list of flip, shift=PIXELS and crop" train --model lenet --augment turn
refused "lenet is an image model and takes no text" train --model lenet --tokenizer bytes
refused "tiny is not an image model" train --model tiny --data "$0" --augment flip
refused "there is nothing to crop" train --model lenet --augment crop
refused "batch norm takes 3 images together" train --model "$small" --global-batch 24 --micro-batch 4
refused "a gradient group has 3 images, which are no multiple of it: use a divisor of 3" train --model "$small" --global-batch 24 --ghost 2
refused "8 groups do not divide it: use --global-batch 24" train --model "$small" --global-batch 20
refused "--ghost 1: batch norm needs two images at least" train --model "$small" --global-batch 32 --ghost 1
refused "use --global-batch 16 or more" train --model "$small" --global-batch 8
refused "use --micro-batch 12" train --model "$small" --global-batch 24 --bn sync --dp 2 --micro-batch 3
refused "use --zero 1, or --dp 8" train --model "$small" --global-batch 24 --bn sync --dp 2 --zero 2
refused "--bn sync has no ghost groups" train --model "$small" --global-batch 24 --bn sync --ghost 3
refused "computes a gradient group again alone" train --model "$small" --global-batch 24 --bn sync --dp 2 --audit 0.1
refused "would stay in the statistics" train --model "$small" --global-batch 24 --bn sync --on-outlier skip-group
refused "lenet has no batch norm" train --model lenet --bn sync
refused "--dp 4 exceeds the batch of 2 sequences" train --model lenet --global-batch 2 --dp 4
refused "--workers 4: dp 4 exceeds the batch of 2 sequences" train --model lenet --global-batch 2 --workers 4
refused "--slow-link 5: 5 needs a unit" train --model lenet --slow-link 5
refused "lenet has no batch norm" train --model lenet --ghost 2
refused "there is no file or folder '/nowhere'" train --model lenet --data /nowhere
refused "lenet is an image model: plan supports language models only" plan --model lenet --cluster h100-sxm
refused "lenet is an image model: --auto-layout" train --model lenet --auto-layout
refused "lenet is an image model: generate" generate --model "$scratch/lenet" --prompt a
refused "lenet is an image model: export" export --model "$scratch/lenet" --out "$scratch/exported"
finished
