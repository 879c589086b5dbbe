#!/usr/bin/env bash
# demo.sh: tools/demo, in few steps, shows what it should, and the commands that it ends with work; as it is, it meets its bars, and it notices what does not.
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
[ "$(grep -c '^step *[0-9]*/26 ' "$scratch/out")" -eq 2 ] || fail "the last steps of two runs are not all the steps that it shows"
[ "$(grep -c "^  | Alice " "$scratch/out")" -eq 3 ] || fail "there is not one sample before, one at the last step and one after"
[ "$(grep -Ec '^(one worker|eight workers)  *xxh128:[0-9a-f]{32}$' "$scratch/out")" -eq 2 ] || fail "there are not two hashes"
grep -q '^equal: ' "$scratch/out" || fail "the weights are not equal"
grep -q '0x1' "$scratch/out" && fail "there are hex floats"

sed '1,/^--- what to try next/d' "$scratch/out" >"$scratch/next"
[ "$(wc -l <"$scratch/next")" -ge 5 ] || fail "there is little to try next"
cp -R README.md examples "$scratch"
while read -r command; do
    case_begin "$command"
    (cd "$scratch" && sh -c "$command") >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
done <"$scratch/next"

case_begin "a model that has learned nothing misses the bar"
BUILD=$scratch LOCKSTEP=$LOCKSTEP DEMO_STEPS=1 tools/demo --check >"$scratch/out" 2>"$scratch/err" </dev/null
status=$?
expect_status 1
grep -q '^MISSED: less than 70 % of the words occur in the text' "$scratch/err" || fail "the words are not judged"

case_begin "a text that is validated on something else misses the bar"
mkdir -p "$scratch/other/tools" "$scratch/other/examples"
cp tools/demo "$scratch/other/tools"
{ head -c 127000 examples/alice.txt; tail -c 14000 examples/alice.txt | rev; } >"$scratch/other/examples/alice.txt"
BUILD=$scratch LOCKSTEP=$LOCKSTEP DEMO_STEPS=200 "$scratch/other/tools/demo" --check >"$scratch/out" 2>"$scratch/err" </dev/null
status=$?
expect_status 1
grep -q '^MISSED: the last validation loss is not the lowest' "$scratch/err" || fail "the validation loss is not judged"

case_begin "the demo as it is meets its bars"
BUILD=$scratch LOCKSTEP=$LOCKSTEP tools/demo --check >"$scratch/out" 2>"$scratch/err" </dev/null
status=$?
expect_status 0
sed -n '/^--- in figures/,/^$/p' "$scratch/out"
finished
