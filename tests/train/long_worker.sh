#!/usr/bin/env bash
# long_worker.sh: makes the contribution of one worker ten times too large (tests/spoil): with default options a warning names the worker, in
# every layout of several workers; the same layouts without the fault give none. The run itself continues unchanged.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
LOCKSTEP=$BUILD/tests/spoil/lockstep

experiment=(--model "$deep" --data "$text" --seq 22 --global-batch 32 --groups 8 --lr 0.001 --eval-every 0 --steps 36)
events() { grep -h '"event"' "$1/metrics.jsonl"; }

case_begin "one worker"
train "${experiment[@]}" --out "$scratch/one"
expect_status 0
final=$(weights)
grep -q "^guards    gradient-outlier detection is off (.*); enable it with --on-outlier warn" "$scratch/out" || fail "the header does not say what is not watched"

# long WORKER FLAGS…: the fault begins in step 30 and stays.
long() {
    local worker=$1
    shift
    case_begin "clean, $*"
    rm -rf "$scratch/run"
    train "${experiment[@]}" --out "$scratch/run" "$@"
    case " $* " in *' bf16 '*) expect_status 0 ;; *) expect_weights "$final" ;; esac
    grep -q '^guards    gradient-outlier detection: each worker' "$scratch/out" || fail "the header says $(grep '^guards' "$scratch/out")"
    [ -z "$(events "$scratch/run")" ] || fail "a false alarm: $(events "$scratch/run")"
    case_begin "worker $worker is ten times too long, $*"
    rm -rf "$scratch/run"
    LS_SPOIL="rank=$worker step=29+1 place=share tensor=attn.qkv.weight span=1 add=9 times=0" train "${experiment[@]}" --out "$scratch/run" --restarts 0 "$@"
    expect_status 0
    # With one replica a worker's own steps are all there is to compare with: a jump may need a second look.
    case " $*" in *' --dp '*) steps=30 ;; *) steps='3[0-2]' ;; esac
    grep -Eq "\"step\":$steps,\"event\":\"outlier\",(\"group\":[0-9]+,)?\"worker\":$worker," "$scratch/run/metrics.jsonl" ||
        fail "it was not noticed in step $steps: $(events "$scratch/run" | head -n 3)"
    ! events "$scratch/run" | grep -v "\"worker\":$worker," || fail "another worker was accused"
}

long 2 --dp 4
long 1 --dp 2
long 3 --dp 4 --zero 0
long 1 --dp 2 --zero 2
long 0 --dp 4 --zero 3
long 1 --dp 3 --zero 2
long 1 --tp 2
long 1 --pp 2
long 3 --dp 2 --tp 2
long 2 --dp 2 --pp 2 --schedule interleaved
if [ "$TIER" = long ]; then
    for zero in 0 1 2 3; do
        long 1 --dp 2 --zero $zero
        long 2 --dp 4 --zero $zero
        long 6 --dp 8 --zero $zero
        long 1 --dp 2 --tp 2 --zero $zero
        long 3 --dp 2 --pp 2 --zero $zero
        long 6 --dp 2 --tp 2 --pp 2 --zero $zero
        long 3 --dp 4 --zero $zero --precision bf16
    done
    long 0 --tp 2 --sequence-parallel
    long 3 --tp 4
    long 1 --pp 4
    long 3 --tp 2 --pp 2
fi
finished
