#!/usr/bin/env bash
# busy.sh: every step tells how long each worker computed and waited, on every kind of layout: together about the time of the steps; a
# worker that is slowed computes longer, the others wait, and doctor names it.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

experiment=(--model "$gpt2" --data "$text" --seq 20 --global-batch 8 --groups 8 --slices 1 --eval-every 0 --threads 1 --steps 24)

# sums KEY: over all steps, worker by worker.
sums() {
    sed -n 's/.*"'"$1"'":\[\([0-9.,]*\)\].*/\1/p' "$scratch/run/metrics.jsonl" |
        awk -F, '{ for (i = 1; i <= NF; i++) s[i] += $i; n = NF } END { for (i = 1; i <= n; i++) printf "%.3f ", s[i] }'
}

# timed WORKERS FLAGS…: busy and waiting of each worker are within a tenth (and 20 ms, the first step's start) of the steps.
timed() {
    local workers=$1
    shift
    case_begin "${LS_FAULT_SLOW:-} $*"
    rm -rf "$scratch/run"
    train "${experiment[@]}" --out "$scratch/run" "$@"
    expect_status 0
    read -ra busy <<<"$(sums busy_ms)"
    read -ra wait <<<"$(sums wait_ms)"
    [ ${#busy[@]} -eq "$workers" ] && [ ${#wait[@]} -eq "$workers" ] || fail "${#busy[@]} and ${#wait[@]} figures for $workers workers"
    all=$(sed -n 's/.*"ms":\([0-9.e-]*\),.*/\1/p' "$scratch/run/metrics.jsonl" | awk '{ s += $1 } END { print s }')
    awk -v all="$all" -v b="${busy[*]}" -v w="${wait[*]}" 'BEGIN {
        n = split(b, busy, " "); split(w, wait, " ")
        for (i = 1; i <= n; i++) { x = busy[i] + wait[i]; if (busy[i] <= 0 || x > 1.1 * all + 20 || x < 0.9 * all - 20) exit 1 }
    }' || fail "busy ${busy[*]} and waiting ${wait[*]} of $all ms"
}
longer() { awk -v a="$1" -v b="$2" -v f="$3" 'BEGIN { exit !(a > f * b) }' || fail "$4: $1 beside $2 ms"; }

case_begin "one worker"
train "${experiment[@]}" --out "$scratch/one"
expect_status 0
! grep -q busy_ms "$scratch/one/metrics.jsonl" || fail "one worker waits for nobody"

timed 2 --dp 2
timed 2 --dp 2 --zero 3
timed 2 --pp 2
timed 4 --dp 2 --pp 2 --on-outlier warn --numerics 5 --audit 0.5

export LS_FAULT_SLOW=1:700
timed 2 --dp 2
longer "${busy[1]}" "${busy[0]}" 2 "the slow worker does not compute longer"
longer "${wait[0]}" "${wait[1]}" 2 "the other one does not wait longer"
"$LOCKSTEP" doctor "$scratch/run" >"$scratch/out" 2>&1
grep -q '^verdict: worker 1 is slow' "$scratch/out" || fail "doctor does not name worker 1"
timed 2 --pp 2
longer "${busy[1]}" "${busy[0]}" 2 "the slow stage does not compute longer"
unset LS_FAULT_SLOW

if "$LOCKSTEP" --version | grep -q '^MPI .*Open MPI' && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    case_begin "under mpirun"
    rm -rf "$scratch/run"
    LS_FAULT_SLOW=0:700 mpirun --oversubscribe --bind-to none -n 2 "$LOCKSTEP" train "${experiment[@]}" --out "$scratch/run" --dp 2 --node-size 1 \
        >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
    read -ra busy <<<"$(sums busy_ms)"
    [ ${#busy[@]} -eq 2 ] || fail "${#busy[@]} figures"
    longer "${busy[0]}" "${busy[1]}" 2 "the slow worker does not compute longer"
fi
finished
