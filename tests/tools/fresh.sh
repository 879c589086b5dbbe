#!/usr/bin/env bash
# fresh.sh: checks that tools/fresh, if it cannot make a system, prints the reason, then "fresh: NOT RUN" as the last line, and exits with 0,
# and that it needs no program that a bare system lacks.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ -z "${SANITIZE:-}" ] || { echo "it runs nothing that a sanitizer sees"; exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-fresh.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
failures=0

# instead NAME SCRIPT: a command that is found before the machine's own.
instead() { printf '#!/bin/sh\n%s\n' "$2" >"$scratch/$1" && chmod +x "$scratch/$1"; }

# not_run WHY: with the commands that there are instead.
not_run() {
    local status=0
    PATH="$scratch:$PATH" tools/fresh >"$scratch/out" 2>&1 </dev/null || status=$?
    [ "$status" -eq 0 ] && [ "$(tail -n 1 "$scratch/out")" = "fresh: NOT RUN" ] && tail -n 2 "$scratch/out" | head -n 1 | grep -qE "^fresh: $1" && return
    echo "FAIL: exit status $status; not: $1"
    sed 's/^/    /' "$scratch/out"
    failures=$((failures + 1))
}

instead id 'echo 1000'
instead sudo 'exit 1'
not_run 'making a system needs root, or sudo without a password$'

# With every right, but namespaces that cannot be made, and a release that no mirror has.
instead id 'echo 0'
instead debootstrap 'echo "E: it must not come to this"; exit 1'
instead git 'exit 0'
instead grep 'exit 1'
instead unshare 'exit 1'
command -v apt-get >/dev/null && not_run 'namespaces cannot be made here$'
instead unshare 'exit 0'
command -v apt-get >/dev/null && FRESH_SUITE=no-such-release not_run "apt has no mirror of 'no-such-release' here"

# Nothing installs Python for `make test`: what calls it in the short tier has to look for it first, and be skipped.
for file in tests/cli/*.test tests/*/*.sh tests/*/*.bash tests/install.sh; do
    if [ "$file" != "tests/tools/fresh.sh" ] && grep -q 'python' "$file" && ! grep -q 'command -v python3' "$file"; then
        echo "FAIL: $file calls Python without looking whether it is there"
        failures=$((failures + 1))
    fi
done

[ "$failures" -eq 0 ] || exit 1
