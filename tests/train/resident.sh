#!/usr/bin/env bash
# resident.sh: what `train --dry-run` says of a run's memory, arenas and what lies outside them, is within a tenth of what the system
# says of its processes, for models of 500 MB and more. Long tier: it writes checkpoints of that size.
#
# Pages that workers share are counted once: the proportional set size of the parent and its workers, added up ten times a second.
# Runs alone: it looks at its processes ten times a second.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

if [ "$TIER" != long ]; then
    echo "checkpoints of half a gigabyte are for the long tier"
    exit 77
fi
if nm "$LOCKSTEP" 2>/dev/null | grep -q __asan_init; then
    echo "the address sanitizer is in the program: its memory is not the program's"
    exit 77
fi
[ -r /proc/self/smaps_rollup ] || { echo "this system has no smaps_rollup"; exit 77; }

model=$scratch/large.json
echo '{"arch": "gpt2", "vocab": 8000, "width": 640, "layers": 8, "heads": 10, "hidden": 2560, "positions": 128}' >"$model"

# KiB of the child and its workers now.
resident_now() {
    local pid sum=0 kib
    for pid in "$child" $(cat "/proc/$child/task/$child/children" 2>/dev/null); do
        kib=$(sed -n 's/^Pss: *\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup" 2>/dev/null)
        sum=$((sum + ${kib:-0}))
    done
    echo $sum
}

# close FLAGS…: a run's largest resident size and its dry run's number.
close() {
    local run dry peak=0 now
    case_begin "$*"
    run=(--model "$model" --data "$text" --tokenizer bytes --steps 2 --seq 64 --global-batch 8 --eval-every 0 --threads 1 "$@")
    train "${run[@]}" --dry-run --json
    expect_status 0
    dry=$(sed -n 's/.*\],"bytes":\([0-9]*\),"outside_bytes":\([0-9]*\),.*/\1 + \2/p' "$scratch/out")
    dry=$((dry))
    [ "$dry" -ge 500000000 ] || fail "only $dry bytes"
    start "${run[@]}" --out "$scratch/run"
    while is_alive "$child"; do
        now=$(resident_now)
        [ "$now" -gt "$peak" ] && peak=$now
        sleep 0.1
    done
    reap
    expect_status 0
    peak=$((peak * 1024))
    echo "$what: dry run $dry bytes, resident $peak ($((peak * 1000 / dry)) in a thousand)"
    if [ $((peak * 10)) -lt $((dry * 9)) ] || [ $((peak * 10)) -gt $((dry * 11)) ]; then
        fail "the dry run says $dry bytes, resident were $peak"
    fi
    rm -rf "$scratch/run"
}

close --micro-batch 8
close --dp 2
close --dp 2 --zero 3 --recompute full
close --tp 2 --sequence-parallel
close --pp 2 --micro-batch 1
close --dp 2 --tp 2 --pp 2 --zero 2 --micro-batch 1
close --dp 4 --zero 3 --recompute full
finished
