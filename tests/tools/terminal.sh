#!/usr/bin/env bash
# terminal.sh: what `lockstep train` draws, seen through a pseudo-terminal by a small terminal of the test's own (terminal.py).
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "there is no python3"; exit 77; }
exec python3 tests/tools/terminal.py
