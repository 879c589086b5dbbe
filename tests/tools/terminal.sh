#!/usr/bin/env bash
# terminal.sh: checks the screen that `lockstep train` draws, in a pseudo-terminal with a small terminal emulator (terminal.py).
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "there is no python3"; exit 77; }
exec python3 tests/tools/terminal.py
