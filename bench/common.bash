# common.bash: functions that the benchmarks of whole runs share; they source it, with bash.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LOCKSTEP=$(realpath "${LOCKSTEP:-$here/build/lockstep}")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-$(basename "$0" .sh).XXXXXX")
child=
trap '[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true; rm -rf "$scratch"' EXIT
trap 'exit 130' HUP INT TERM
for ((i = 0; i < 4000; i++)); do echo "line $i: $((i * i)) quick brown foxes jump over $((i * 7 % 31)) lazy dogs"; done >"$scratch/text.txt"
# metrics RUN KIND MEMBER...: rows of numbers of a run (bench/metrics.py).
metrics() { python3 "$here/bench/metrics.py" "$@"; }
# Lines of the metrics of $out that match; 0 if there are none yet. For waiting: it starts no interpreter beside what is measured.
count() { cat "$out"/metrics*.jsonl 2>/dev/null | grep -c "$1" || true; }
export XDG_CACHE_HOME=$scratch/cache LS_DEVICE=cpu
