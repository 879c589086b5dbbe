#!/usr/bin/env bash
# busy.sh: every step tells how long each worker computed and waited, on every kind of layout: together about the time of the steps; a
# worker that is slowed computes longer, the others wait, and doctor names it.
# Runs alone: it compares times of workers.
# shellcheck disable=SC2317 # checks are called by name
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

experiment=(--model "$gpt2" --data "$text" --seq 20 --global-batch 8 --groups 8 --slices 1 --eval-every 0 --threads 1 --steps 24)

# sums KEY: over all steps, worker by worker.
sums() {
    sed -n 's/.*"'"$1"'":\[\([0-9.,]*\)\].*/\1/p' "$scratch/run/metrics.jsonl" |
        awk -F, '{ for (i = 1; i <= NF; i++) s[i] += $i; n = NF } END { for (i = 1; i <= n; i++) printf "%.3f ", s[i] }'
}

# Busy and waiting of each worker are within a tenth (and 20 ms, the first step's start) of the steps.
fits() {
    all=$(sed -n 's/.*"ms":\([0-9.e-]*\),.*/\1/p' "$scratch/run/metrics.jsonl" | awk '{ s += $1 } END { print s }')
    awk -v all="$all" -v b="${busy[*]}" -v w="${wait[*]}" 'BEGIN {
        n = split(b, busy, " "); split(w, wait, " ")
        for (i = 1; i <= n; i++) { x = busy[i] + wait[i]; if (busy[i] <= 0 || x > 1.1 * all + 20 || x < 0.9 * all - 20) exit 1 }
    }'
}
longer() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 2 * b) }'; }
is_slow() { longer "${busy[$1]}" "${busy[1 - $1]}"; }
makes_wait() { longer "${wait[1 - $1]}" "${wait[$1]}"; }
is_named() {
    "$LOCKSTEP" doctor "$scratch/run" >"$scratch/verdict" 2>&1
    grep -q "^verdict: worker $1 is slow" "$scratch/verdict"
}

launch=()
# timed WORKERS 'CHECK; …' FLAGS…: some checks may fail where other programs hold a worker up, but not every time.
timed() {
    local workers=$1 checks=$2 try check bad
    shift 2
    case_begin "${launch[*]} ${LS_FAULT_SLOW:-} $*"
    for try in 1 2 3 4; do
        rm -rf "$scratch/run"
        "${launch[@]}" "$LOCKSTEP" train "${experiment[@]}" --out "$scratch/run" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
        status=$?
        expect_status 0
        read -ra busy <<<"$(sums busy_ms)"
        read -ra wait <<<"$(sums wait_ms)"
        [ ${#busy[@]} -eq "$workers" ] && [ ${#wait[@]} -eq "$workers" ] || { fail "${#busy[@]} and ${#wait[@]} figures"; return; }
        bad=
        while read -r check; do $check || bad="$bad $check"; done <<<"${checks//; /$'\n'}"
        [ -n "$bad" ] || return
    done
    fail "$try tries:$bad: busy ${busy[*]}, waiting ${wait[*]} of $all ms"
}

case_begin "one worker"
train "${experiment[@]}" --out "$scratch/one"
expect_status 0
! grep -q busy_ms "$scratch/one/metrics.jsonl" || fail "busy_ms is recorded for one worker alone, which waits for no other"

timed 2 fits --dp 2
timed 2 fits --dp 2 --zero 3
timed 2 fits --pp 2
timed 4 fits --dp 2 --pp 2 --on-outlier warn --numerics 5 --audit 0.5

export LS_FAULT_SLOW=1:700
timed 2 'fits; is_slow 1; makes_wait 1; is_named 1' --dp 2
timed 2 'fits; is_slow 1' --pp 2

if "$LOCKSTEP" --version | grep -q '^MPI .*Open MPI' && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    launch=(mpirun --oversubscribe --bind-to none -n 2)
    LS_FAULT_SLOW=0:700 timed 2 'fits; is_slow 0' --dp 2 --node-size 1
fi
finished
