#!/usr/bin/env bash
# ab.sh: tools/ab on two programs that print their "speed", so that no clock decides: medians, ratio, interval and verdict are those of the
# figures; the programs run in turns; what is wrong is said, with the exit status that the tool documents.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ -z "${SANITIZE:-}" ] || { echo "it runs nothing that a sanitizer sees"; exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-ab-test.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
failures=0

# Each call takes the next figure of its list, the last one again and again, and leaves its name in the log.
for name in old new; do
    cat >"$scratch/$name" <<'END'
#!/bin/sh
me=${0##*/}
cd "${0%/*}" || exit 1
echo "$me $*" >>log
{ read -r figure; read -r rest; } <"$me.figures"
[ -z "$rest" ] || { read -r _; while read -r line; do echo "$line"; done; } <"$me.figures" >"$me.next"
[ -z "$rest" ] || mv "$me.next" "$me.figures"
[ "$figure" != fail ] || { echo "it broke"; exit 7; }
echo "warming up: 1 tok/s"
echo "{\"loss\": 3.5, \"speed\": $figure}"
END
    chmod +x "$scratch/$name"
done

fail() {
    failures=$((failures + 1))
    echo "FAIL $what: $*"
    sed 's/^/    /' "$scratch/out"
}

# compare "OLD FIGURES" "NEW FIGURES" STATUS OPTIONS…: what is printed is in out.
compare() {
    local expected=$3 status=0
    what="$*"
    tr ' ' '\n' <<<"$1" >"$scratch/old.figures"
    tr ' ' '\n' <<<"$2" >"$scratch/new.figures"
    : >"$scratch/log"
    shift 3
    tools/ab --metric '"speed": ([0-9.e]+)' "$@" "$scratch/old" "$scratch/new" -- {} run --out '{dir}/x' >"$scratch/out" 2>&1 || status=$?
    [ "$status" -eq "$expected" ] || fail "exit status $status, not $expected"
}
says() { grep -qE -- "$1" "$scratch/out" || fail "it does not say: $1"; }

# ---- figures and verdicts ------------------------------------------------------------------------------------------------

# The first of each is the warm-up. Ratios, sorted: 0.8 0.9 1.05 1.1 1.1 1.1 1.15 1.2 1.2 1.3 1.4; the interval is from the 2nd to the 10th.
compare "5 100" "900 80 90 105 110 110 110 115 120 120 130 140" 0
says '^ab: 11 rounds in turns after 1 to warm up'
says '^OLD  median 100  .*/old$'
says '^NEW  median 110  .*/new$'
says '^speed of NEW over OLD: median 1\.1000, 95 % interval 0\.9000 to 1\.3000 \(order statistics: 98\.8 % at least\)$'
says '^The interval is wide'
says '^verdict: equal$'
{ echo "old" && echo "new" && for _ in 1 2 3 4 5; do printf 'old\nnew\nnew\nold\n'; done && printf 'old\nnew\n'; } >"$scratch/turns"
cut -d' ' -f1 "$scratch/log" | cmp -s - "$scratch/turns" || fail "not in turns: $(cut -d' ' -f1 "$scratch/log" | tr '\n' ' ')"
[ "$(sed -n 's/^old run --out //p' "$scratch/log" | head -n 1)" != '{dir}/x' ] || fail "{dir} is not replaced"

# Surely faster, and surely slower, by less than 1 % and by more.
compare 100 100.9 0 --rounds 6
says 'interval 1\.0090 to 1\.0090'
says '^verdict: equal$'
compare 100 99.1 0 --rounds 6
says '^verdict: equal$'
compare 100 98.9 1 --rounds 6
says '^verdict: NEW is 1\.1 % slower$'
compare 100 125 0 --rounds 6
says '^verdict: NEW is 25\.0 % faster$'
# One odd run of eleven on each side decides nothing; of a figure of which less is better 80 is the faster one.
compare 100 "80 20 300 80" 1
says '^verdict: NEW is 20\.0 % slower$'
compare 100 80 0 --lower --rounds 6
says '^verdict: NEW is 25\.0 % faster$'
# Six rounds: from the lowest to the highest, 96.9 %; an even number has the middle of two as its median.
compare 100 "102 103 104 105 106 107" 0 --rounds 6 --warmup 0
says 'median 1\.0450, 95 % interval 1\.0200 to 1\.0700 \(order statistics: 96\.9 %'
says '^verdict: NEW is 4\.5 % faster$'
[ "$(wc -l <"$scratch/log")" -eq 12 ] || fail "not 12 runs"
# Twenty: from the 6th to the 15th.
compare 100 "$(seq -s ' ' 101 120)" 0 --rounds 20 --warmup 0
says '95 % interval 1\.0600 to 1\.1500 \(order statistics: 95\.9 %'

# ---- wall time -----------------------------------------------------------------------------------------------------------

what="wall time"
status=0
tools/ab --rounds 6 "$scratch/old" "$scratch/old" -- lockstep >"$scratch/out" 2>&1 || status=$?
[ "$status" -le 1 ] || fail "exit status $status"
says '^ab: 6 rounds in turns after 1 to warm up; wall time$'
says '^OLD  median [0-9.e-]+ s  '
says '^verdict: '

# ---- what is wrong -------------------------------------------------------------------------------------------------------

compare "100 100 fail" 100 3
says '^it broke$'
says '^ab: exit status 7 from: .*/old run'
compare 100 "100 fast" 3
says '^ab: no figure above 0 \(no match\) of --metric'
compare 100 0 3 --rounds 6
says 'a figure is 0'
compare 100 100 2 --rounds 5
says '^ab: --rounds 5: must be between 6 and 999; usage: tools/ab'
compare 100 100 2 --speed
says '^ab: unknown option --speed'
compare 100 100 2 --metric '[0-9]'
says 'needs a group in parentheses'
compare 100 100 2 --metric '([0-9]'
says 'is no extended regular expression'

# refused STATUS TEXT ARGUMENTS…
refused() {
    local expected=$1 text=$2 status=0
    shift 2
    what="$*"
    tools/ab "$@" >"$scratch/out" 2>&1 || status=$?
    [ "$status" -eq "$expected" ] || fail "exit status $status, not $expected"
    says "$text"
}
refused 2 'two programs or revisions, --, and a command are wanted'
refused 2 'two programs or revisions' "$scratch/old" "$scratch/new"
refused 2 'the command has no \{\} to stand for the program' "$scratch/old" "$scratch/new" -- make test
refused 2 '--lower goes with --metric' --lower "$scratch/old" "$scratch/new" -- lockstep
refused 3 'is no program and no revision' no-such-thing "$scratch/new" -- lockstep --version

[ "$failures" -eq 0 ] || exit 1
echo "all as it says"
