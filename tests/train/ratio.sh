#!/bin/sh
# ratio.sh: `make experiment-ratio` finds the crossovers of a machine whose times are known, and draws the page of two machines.
set -eu
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$here/ratio.py" "$folder" 2> "$folder/log" || { cat "$folder/log"; exit 1; }
