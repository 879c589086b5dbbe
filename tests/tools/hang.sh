#!/usr/bin/env bash
# hang.sh: before a hung process tree is killed, its processes and what they wait for are printed: for a program that a test waits for
# (tests/train/common.bash), and a test (tests/run).
set -u
cd "$(dirname "$0")/../.." || exit 1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-hang.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
    sed 's/^/    /' "$scratch/out"
}

# A tree with tests/run, a program that waits for a child of its own, a test that waits for that program, and one that never ends.
mkdir -p "$scratch/tests/train" "$scratch/build"
cp tests/run "$scratch/tests"
cp tests/train/common.bash "$scratch/tests/train"
printf '#!/bin/sh\necho "its last words"\nsleep 4321\necho\n' >"$scratch/build/lockstep"
printf '#!/usr/bin/env bash\n. tests/train/common.bash\ncase_begin waits\ntrain --all\nexpect_status 137\nfinished\n' >"$scratch/tests/train/a.sh"
printf '#!/bin/sh\nsleep 1234\necho\n' >"$scratch/tests/train/b.sh"
chmod +x "$scratch/build/lockstep" "$scratch/tests/train/"*.sh

if TEST_TIMEOUT_S=8 BUILD=build LOCKSTEP='' "$scratch/tests/run" short train/a >"$scratch/out" 2>&1; then fail "what hangs was no failure"; fi
grep -q 'FAIL waits: it hung, and was ended after 3 s' "$scratch/out" || fail "it was not told that it hung"
grep -Eq '^ *\| +[0-9]+ +[0-9]+ +S.* sleep 4321$' "$scratch/out" || fail "a process below it is not told"
grep -q 'stdout: its last words' "$scratch/out" || fail "what it said is not told"
grep -q '1 failures in 1 cases' "$scratch/out" || fail "its status is not that of a process that was killed"
! grep -q 'left processes behind' "$scratch/out" || fail "something is left"

if TEST_TIMEOUT_S=1 BUILD=build LOCKSTEP='' "$scratch/tests/run" short train/b >"$scratch/out" 2>&1; then fail "a test that does not end passed"; fi
grep -q 'FAIL train/b .*: still running after 1 s; killed' "$scratch/out" || fail "it was not told that the test was killed"
grep -Eq '^ *\| +[0-9]+ +[0-9]+ +S.* sleep 1234$' "$scratch/out" || fail "a process of the test is not told"
[ $failures -eq 0 ] || exit 1
