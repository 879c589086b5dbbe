#!/usr/bin/env bash
# demo.sh: tools/demo, in few steps, shows what it should, and the commands that it ends with work.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

if [ "$TIER" != long ]; then
    echo "in the long tier only"
    exit 77
fi

case_begin "the demo in 26 steps"
BUILD=$scratch LOCKSTEP=$LOCKSTEP DEMO_STEPS=26 tools/demo >"$scratch/out" 2>"$scratch/err" </dev/null
status=$?
expect_status 0
[ "$(grep -c '^step *[0-9]*/26 ' "$scratch/out")" -eq 4 ] || fail "steps 25 and 26 of two runs are not all the steps that it shows"
[ "$(grep -c "^  | static int " "$scratch/out")" -eq 2 ] || fail "there are not two samples"
[ "$(grep -Ec '^(one worker|eight workers)  *xxh128:[0-9a-f]{32}$' "$scratch/out")" -eq 2 ] || fail "there are not two hashes"
grep -q '^equal: ' "$scratch/out" || fail "the weights are not equal"
grep -q '0x1' "$scratch/out" && fail "there are hex floats"

sed '1,/^--- what to try next/d' "$scratch/out" >"$scratch/next"
[ "$(wc -l <"$scratch/next")" -ge 5 ] || fail "there is little to try next"
cp README.md "$scratch"
while read -r command; do
    case_begin "$command"
    (cd "$scratch" && sh -c "$command") >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
done <"$scratch/next"
finished
