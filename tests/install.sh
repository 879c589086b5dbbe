#!/usr/bin/env bash
# install.sh: `make install` gives everything that a program needs: the examples build against the installed copy and run, and a C++
# compiler takes the header.
# Runs alone: make looks at the build folder that the others use.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-install.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

fail() {
    echo "FAIL $*"
    exit 1
}

make install BUILD="$BUILD" PREFIX="$scratch/prefix" >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "make install"; }
version=$(sed -n 's/^#define LS_VERSION "\(.*\)"/\1/p' include/lockstep.h)
for file in bin/lockstep include/lockstep.h lib/liblockstep.a lib/pkgconfig/lockstep.pc "lib/liblockstep.so.$version" lib/liblockstep.so \
    share/man/man1/lockstep.1 share/man/man1/lockstep-train.1 share/man/man1/lockstep-bench-comm.1 share/bash-completion/completions/lockstep \
    share/zsh/site-functions/_lockstep share/fish/vendor_completions.d/lockstep.fish; do
    [ -s "$scratch/prefix/$file" ] || fail "$file was not installed"
done

# Debug information stays in the build folder.
for file in bin/lockstep "lib/liblockstep.so.$version" lib/liblockstep.a; do
    ! readelf -SW "$scratch/prefix/$file" | grep -q '\.debug_info' || fail "$file has debug information"
done
du -sh "$scratch/prefix" | sed 's/^\([^[:space:]]*\).*/installed: \1/'

# The shared library: its name for linkers, and nothing in it that the header does not declare.
so=$scratch/prefix/lib/liblockstep.so
readelf -d "$so" | grep -q "SONAME.*\[liblockstep.so.${version%.*}\]" || fail "the shared library has no name: $(readelf -d "$so" | grep SONAME)"
if [ -z "${SANITIZE:-}" ] && ! nm -D "$so" | grep -q __asan_init; then
    nm -D --defined-only "$so" | awk '$2 == "T" || $2 == "D" || $2 == "B" || $2 == "R" { sub(/@@.*/, "", $3); print $3 }' | LC_ALL=C sort >"$scratch/exported"
    tools/exports | diff "$scratch/exported" - >"$scratch/diff" || fail "it exports other symbols than the header declares: $(head -n 3 "$scratch/diff")"
fi

# A page for every command, without a mistake that a reader of such pages knows.
pages=$(find "$scratch/prefix/share/man" -name '*.1' | wc -l)
[ "$pages" -eq "$(($(grep -c '^LS_COMMAND(' src/config/commands.def) + 1))" ] || fail "$pages pages of the manual"
grep -q '^\.B .*global..batch' "$scratch/prefix/share/man/man1/lockstep-train.1" || fail "the page of train lacks --global-batch"
if command -v mandoc >/dev/null; then
    mandoc -T lint -W error "$scratch"/prefix/share/man/man1/*.1 || fail "mandoc finds mistakes in the manual"
elif command -v groff >/dev/null; then
    for page in "$scratch"/prefix/share/man/man1/*.1; do
        warnings=$(groff -man -Tutf8 -ww "$page" 2>&1 >/dev/null | grep -v "can.t break line\|cannot adjust\|cannot break" | head -n 2)
        [ -z "$warnings" ] || fail "$page: $warnings"
    done
fi

# Completions: commands, options, words of an option, second words.
completed() { # words… : what bash offers for the last of them
    bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lockstep; echo "${COMPREPLY[*]}"' \
        "$scratch/prefix/share/bash-completion/completions/lockstep" "$@"
}
[ "$(completed lockstep tra)" = train ] || fail "bash offers '$(completed lockstep tra)' for tra"
[ "$(completed lockstep train --global)" = --global-batch ] || fail "bash offers '$(completed lockstep train --global)'"
[ "$(completed lockstep train --lr-schedule cos)" = cosine ] || fail "bash offers '$(completed lockstep train --lr-schedule cos)'"
[ "$(completed lockstep bench c)" = comm ] || fail "bash offers '$(completed lockstep bench c)' for bench c"
[ -z "$(completed lockstep train --steps '')" ] || fail "bash offers something for a number"
for shell in bash zsh fish; do
    file=$scratch/prefix/share/bash-completion/completions/lockstep
    [ $shell != zsh ] || file=$scratch/prefix/share/zsh/site-functions/_lockstep
    [ $shell != fish ] || file=$scratch/prefix/share/fish/vendor_completions.d/lockstep.fish
    grep -q 'global-batch' "$file" && grep -q cosine "$file" || fail "completions for $shell lack options"
    ! command -v $shell >/dev/null || $shell -n "$file" || fail "$shell does not take its completions"
done

export PKG_CONFIG_PATH=$scratch/prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
[ "$(pkg-config --modversion lockstep)" = "$version" ] || fail "pkg-config does not know version $version"
flags=$(pkg-config --cflags --libs lockstep) || fail "pkg-config does not know the flags"

export LD_LIBRARY_PATH=$scratch/prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# Away from the sources, so that nothing but the installed copy can be found.
cp examples/*.c "$scratch/" || fail "cannot copy the examples"
cd "$scratch" || exit 1
# shellcheck disable=SC2086 # flags are words
${CC:-cc} -Wall -Wextra -Werror all_reduce.c $flags -o all_reduce || fail "the example does not build with: $flags"
# On one core, where there is something to warn of: the library leaves that to the program.
one_core=
! command -v taskset >/dev/null || one_core="taskset -c $(taskset -cp $$ | sed 's/.*[: ]\([0-9]*\).*/\1/')"
# shellcheck disable=SC2086 # words
$one_core ./all_reduce >out 2>err || fail "the example ended with status $?"
cat out
[ ! -s err ] || fail "the library wrote to standard error: $(head -n 1 err)"
for workers in 1 2 3; do
    grep -q "^$workers worker.* fingerprint [0-9a-f]\{8\}$" out || fail "no line for $workers workers"
done
[ "$(sed 's/^[0-9]* workers*: //' out | sort -u | wc -l)" -eq 1 ] || fail "the sums differ"
# By hand: 1/3 − 8/3 + 64/3 − … − 2097152/3
grep -q 'sum\[0\] = -621378' out || fail "the sum of element 0 is wrong"

# Own data: a loss that falls, and the same weights whatever the layout.
for example in all_reduce train plan; do
    # shellcheck disable=SC2086 # flags are words
    ${CC:-cc} -Wall -Wextra -Werror $example.c $flags -o $example || fail "$example.c does not build with: $flags"
    [ "$(wc -l <$example.c)" -lt 80 ] || fail "$example.c is too long for an example"
done
for dp in 1 2; do
    ./train $dp run-$dp >out-$dp 2>err || fail "train $dp ended with status $?: $(cat err)"
    [ ! -s err ] || fail "the library wrote to standard error: $(head -n 1 err)"
    [ "$(grep -c '^step .* loss ' out-$dp)" -eq 10 ] || fail "train $dp printed no ten losses"
done
[ "$(grep -o 'weights [0-9a-f]*' out-1)" = "$(grep -o 'weights [0-9a-f]*' out-2)" ] || fail "the weights differ"
seq -f 'line %g of a text to learn from' 500 >text.txt
XDG_CACHE_HOME=$scratch/cache ./plan A100 text.txt planned >out 2>err || fail "plan ended with status $?: $(cat err)"
[ ! -s err ] || fail "the library wrote to standard error: $(head -n 1 err)"
grep -q '^trained a step on 4 workers' out && grep -q '^the same bits as one worker' out || fail "plan says: $(cat out)"

# C++ may include the header.
cxx=${CXX:-$(command -v c++ || command -v g++ || command -v clang++ || true)}
if [ -n "$cxx" ]; then
    printf '#include <lockstep.h>\nint main() { ls_step step = ls_step(); ls_run_close(nullptr); return (int)step.step; }\n' >header.cc
    # shellcheck disable=SC2086 # flags are words
    "$cxx" -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only header.cc $(pkg-config --cflags lockstep) || fail "C++ does not take lockstep.h"
fi

prefix=$scratch/prefix
cd "$OLDPWD" || exit 1
make uninstall BUILD="$BUILD" PREFIX="$prefix" >/dev/null 2>&1 || fail "make uninstall"
[ -z "$(find "$prefix" -type f)" ] || fail "make uninstall left $(find "$prefix" -type f | head -n 3)"
