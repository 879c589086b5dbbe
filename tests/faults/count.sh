#!/usr/bin/env bash
# count.sh: counts what guards and `lockstep doctor` catch in real runs: faults planted at random, failures with a known cause, and
# a long run in which nothing is wrong. In the long tier; `make test-faults-count` runs it alone.
# Runs alone: times of workers are judged.
set -u
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build}
[ "${TIER:-short}" = long ] || { echo "in the long tier only"; exit 77; }
command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }
status=0
for part in "count_faults.py" "doctor_runs.py" "clean_steps.py"; do
    echo "== $part"
    python3 "tests/faults/$part" || status=1
done
exit $status
