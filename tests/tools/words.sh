#!/usr/bin/env bash
# words.sh: tools/check-words finds words in comments and messages, leaves other uses of them alone, and never lets a count grow.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ -z "${SANITIZE:-}" ] || { echo "it runs nothing that a sanitizer sees"; exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-words-test.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
failures=0

fail() {
    echo "FAIL $*"
    failures=$((failures + 1))
}

mkdir -p "$scratch/tools" "$scratch/src" "$scratch/tests" "$scratch/include" "$scratch/bench" "$scratch/.ci"
cp tools/words.txt "$scratch/tools/"
echo 'all:' >"$scratch/Makefile"

# check NAME FILE COUNT: the file, read from standard input with ~ for #, has so many findings.
check() {
    local count
    mkdir -p "$(dirname "$scratch/$2")"
    tr '~' '#' >"$scratch/$2"
    count=$(tools/check-words --list "$scratch" | grep -c "^$2:")
    [ "$count" = "$3" ] || fail "$1: $count findings instead of $3: $(tools/check-words --list "$scratch")"
    rm "$scratch/$2"
}

check "the words of a comment in C, one of them capital" src/a.c 3 <<'END'
/* Whoever reads it,
 * and nobody else. */
int who = 1; // who waits
END
check "names, people and quoted names" src/a.c 0 <<'END'
/* `who` names the user who started the run; see who_is() and ask.who.
 * A reader, who may be new, and the owner of the folder (uid 3), who may write there. */
int nobody(int who) { return who; }
~include "who/nobody.h"
END
check "a message of src" src/a.c 1 <<'END'
const char *text = "nobody \"knows\" this", c = '"'; int nobody;
END
check "a string of a test, which may quote any message" tests/a.c 0 <<'END'
const char *text = "nobody knows /* nobody */ this";
END
check "a phrase across two lines, counted once" src/a.h 1 <<'END'
/* The bias is added at the end of
 * a product, before it is rounded. */
END
check "hidden layers, and what compute overlaps" src/a.cu 1 <<'END'
/* Hidden layers have hidden columns. */
/* A transfer that is hidden behind compute. */
END
check "comments of scripts" tests/a.sh 2 <<'END'
~!/bin/sh
echo "$~ nobody" who ~ who
~   somebody
END
# No "command -v python3" is needed: the script below is read and never run.
check "Python: comments and docstrings" tools/b 3 <<'END'
~!/usr/bin/env python3
"""Nobody.

Somebody.
"""
who = "nobody"  ~ whoever
END

# The ratchet: what there is stays allowed, one more fails, fewer pass and lower the count.
printf '/* who */\n/* who */\n' >"$scratch/src/a.c"
printf '/* who */\n' >"$scratch/src/b.c"
allowed() { grep -v '^#' "$scratch/tools/words-allowed.txt" | tr '\n' ' '; }
out=$(tools/check-words "$scratch" 2>&1) && fail "words pass without being allowed"
tools/check-words --update "$scratch" || fail "--update fails"
[ "$(allowed)" = "src/a.c 2 src/b.c 1 " ] || fail "first counts: $(allowed)"
out=$(tools/check-words "$scratch" 2>&1) || fail "allowed words do not pass: $out"
echo '/* nobody */' >>"$scratch/src/b.c"
out=$(tools/check-words "$scratch" 2>&1) && fail "one word more passes"
case "$out" in *'src/b.c:2: "nobody": write no caller'*'src/b.c: 2 such words'*) ;; *) fail "one word more: $out" ;; esac
case "$out" in *src/a.c*) fail "a file within its count is named: $out" ;; esac
tools/check-words --update "$scratch"
[ "$(allowed)" = "src/a.c 2 src/b.c 1 " ] || fail "--update raised a count: $(allowed)"
echo '/* who */' >"$scratch/src/a.c"
echo '/* the caller */' >"$scratch/src/b.c"
out=$(tools/check-words "$scratch" 2>&1) || fail "fewer words do not pass: $out"
tools/check-words --update "$scratch"
[ "$(allowed)" = "src/a.c 1 " ] || fail "lower counts: $(allowed)"

[ "$failures" -eq 0 ] || exit 1
echo "tools/check-words: every case as it should be"
