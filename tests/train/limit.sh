#!/usr/bin/env bash
# limit.sh: a model that does not fit one worker under a memory limit is initialised, trained, saved, resumed and exported by four
# workers under it, and the bits are those of one worker without a limit. In the long tier also by eight workers, each of which may
# have less than the weights alone.
#
# `ulimit -d` bounds what each worker has, its shared memory with it (docs/explain/workers.md).
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

if nm "$LOCKSTEP" 2>/dev/null | grep -q __asan_init; then
    echo "the address sanitizer is in the program: its memory is not the program's"
    exit 77
fi

# limited KIB COMMAND…: `status`, $scratch/out and $scratch/err as for train.
limited() {
    local kib=$1
    shift
    (ulimit -d "$kib" && exec "$LOCKSTEP" "$@") >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
}

# trains_under LAYERS KIB WORKERS
trains_under() {
    local layers=$1 kib=$2 workers=$3 model=$scratch/limit-$1.json run whole free
    echo '{"arch": "gpt2", "vocab": 500, "width": 256, "layers": '"$layers"', "heads": 8, "hidden": 1024, "positions": 16}' >"$model"
    run=(--model "$model" --data "$text" --tokenizer bytes --seq 16 --global-batch 8 --micro-batch 1 --threads 1 --eval-every 0
        --lr-schedule constant)
    local split=(--dp "$workers" --zero 3 --recompute full)
    free=$scratch/free-$layers whole=$scratch/run-$layers

    case_begin "$layers layers: one worker without a limit"
    train "${run[@]}" --steps 2 --out "$free"
    expect_status 0
    local weights_2 weights_1
    weights_2=$(weights)
    [ -n "$weights_2" ] || fail "it tells no weights"

    case_begin "$layers layers: one worker under $kib KiB"
    limited "$kib" train "${run[@]}" --steps 1 --out "$scratch/refused"
    expect_status 5
    expect_said 'out of memory'
    [ -e "$scratch/refused" ] && fail "it left a folder"

    case_begin "$layers layers: $workers workers under $kib KiB"
    limited "$kib" train "${run[@]}" --steps 1 --out "$whole" "${split[@]}"
    expect_status 0
    weights_1=$(weights)

    case_begin "$layers layers: exported under $kib KiB"
    limited "$kib" export --model "$whole" --out "$scratch/hf-$layers" --json
    expect_status 0

    # What was exported is what was trained: a run that begins with it has these weights.
    case_begin "$layers layers: the export has the weights"
    train --model "$scratch/hf-$layers" --data "$text" --tokenizer bytes --seq 16 --global-batch 8 --steps 0 --out "$scratch/again-$layers"
    expect_weights "$weights_1"

    case_begin "$layers layers: resumed under $kib KiB"
    limited "$kib" train --resume --out "$whole" --steps 2
    expect_weights "$weights_2"
    rm -rf "$free" "$whole" "$scratch/hf-$layers" "$scratch/again-$layers"
}

trains_under 12 110000 4
# The weights alone are 99273 KiB.
if [ "$TIER" = long ]; then trains_under 32 94000 8; fi
finished
