#!/usr/bin/env bash
# python.sh: the Python package with the system's Python, over the shared library of the build folder.
# Runs alone: make looks at the build folder that the others use.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "there is no python3"; exit 77; }
[ -z "${SANITIZE:-}" ] || { echo "a sanitizer cannot be loaded into Python"; exit 77; }
# By the name that the build folder had when it was built: the headers that an object depends on are recorded for that name alone.
make shared BUILD="${BUILD#"$PWD/"}" >/dev/null || exit 1
if nm -D "$BUILD/liblockstep.so" | grep -q __asan_init; then echo "a sanitizer cannot be loaded into Python" && exit 77; fi
# Exports are what the header declares, each with its version.
diff <(nm -D --defined-only "$BUILD/liblockstep.so" | sed -n 's/.* T \(ls_[a-z0-9_]*\)@@LOCKSTEP_[0-9.]*$/\1/p' | LC_ALL=C sort) <(tools/exports) ||
    { echo "the shared library does not export what include/lockstep.h declares (tools/exports --map > tools/lockstep.map)"; exit 1; }
# The wheel has every file of the package, with stand-ins for the library and the program.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-wheel-test.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
wheel=$(tools/wheel "$scratch" 0.0 LICENSE LICENSE) || exit 1
diff <(cd python && find lockstep -maxdepth 1 -type f | LC_ALL=C sort) \
    <(python3 -m zipfile -l "$wheel" | sed -n 's,^\(lockstep/[^/ ]*\) .*,\1,p' | grep -v '\.so$' | LC_ALL=C sort) ||
    { echo "the wheel lacks a file of python/lockstep, or has one too many"; exit 1; }
LOCKSTEP_LIBRARY=$BUILD/liblockstep.so PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 python3 tests/python/package.py 2>&1
