#!/usr/bin/env python3
"""Measures how well `lockstep plan` predicts this machine: probes it, predicts layouts, and then measures them.

Two models, twelve layouts of dp, tp, pp, zero, micro-batch and recomputation. A prediction is `lockstep plan --cluster FILE` with the
layout given; a measurement is the median step of metrics.jsonl over all rounds, the first step of a run aside. Rounds go through
all rows in turn, and the machine is probed again before each of them, so that one that changes its speed changes both sides; the
prediction of a row is the median of the probes'. Memory is the bytes of every worker's arena, as the run tells them.

Printed: predicted and measured seconds, the error; the mean error and the bias; Kendall's tau of the order of the layouts of each
model; whether every byte of memory is the run's. Bar: 10 % on average.

Usage: bench/plan.py [--lockstep PATH] [--rounds N] [--steps N] [--rows LIST] [--probe FILE] [--low] [--quick]

--probe FILE   take this machine instead of probing
--low          the lower quartile of the steps instead of their median: for a machine that others use too
--quick        a quick probe, one round of a few rows: a look, not a measurement
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from metrics import read_step_times
from train import write_tokens

GPT2 = dict(arch="gpt2", vocab=2048, width=256, layers=6, heads=8, positions=256)
LLAMA = {"arch": "llama", "vocab": 4096, "width": 384, "layers": 4, "heads": 6, "kv-heads": 2, "hidden": 1024, "positions": 256}
BAR = 0.10

# (model, flags); sizes such that a step takes some tenths of a second on two cores
ROWS = [
    ("gpt2", "--dp 1 --tp 1 --pp 1 --micro-batch 16"),
    ("gpt2", "--dp 1 --tp 1 --pp 1 --micro-batch 2"),
    ("gpt2", "--dp 1 --tp 1 --pp 1 --micro-batch 8 --recompute full"),
    ("gpt2", "--dp 2 --tp 1 --pp 1 --zero 1 --micro-batch 8"),
    ("gpt2", "--dp 2 --tp 1 --pp 1 --zero 3 --micro-batch 2"),
    ("gpt2", "--dp 1 --tp 2 --pp 1 --no-sequence-parallel --micro-batch 8"),
    ("gpt2", "--dp 1 --tp 1 --pp 2 --schedule 1f1b --micro-batch 2"),
    ("gpt2", "--dp 2 --tp 2 --pp 1 --zero 1 --no-sequence-parallel --micro-batch 4"),
    ("llama", "--dp 1 --tp 1 --pp 1 --micro-batch 8"),
    ("llama", "--dp 2 --tp 1 --pp 1 --zero 2 --micro-batch 1"),
    ("llama", "--dp 1 --tp 1 --pp 2 --schedule zero-bubble --micro-batch 1 --recompute selective"),
    ("llama", "--dp 1 --tp 2 --pp 1 --sequence-parallel --micro-batch 4"),
]
RUN = {"gpt2": "--seq 128 --global-batch 16".split(), "llama": "--seq 128 --global-batch 8".split()}


def call(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"plan.py: {' '.join(command)}\n{done.stderr.strip()}")
    return done.stdout


def predict(args, folder, machine, model, flags):
    """seconds, bytes by worker"""
    found = json.loads(call([args.lockstep, "plan", "--model", f"{folder}/{model}.json", "--cluster", machine, "--json",
                             *RUN[model], *flags.split()]))
    best = found["layouts"][0]
    return best["seconds"], [worker["bytes"] for worker in best["workers"]]


def measure(args, folder, model, flags):
    """seconds of the steps but the first, bytes by worker"""
    out = f"{folder}/run"
    shutil.rmtree(out, ignore_errors=True)
    told = json.loads(call([args.lockstep, "train", "--model", f"{folder}/{model}.json", "--data", f"{folder}/tokens.bin", "--steps",
                            str(args.steps + 1), "--eval-every", "0", "--json", "--out", out, *RUN[model], *flags.split()]))
    return [ms / 1000 for ms in read_step_times(out)[1:]], told["arena_bytes"]


def tau(pairs):
    """Kendall's: agreeing pairs less the others, over all."""
    agree = sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for i, a in enumerate(pairs) for b in pairs[:i])
    count = len(pairs) * (len(pairs) - 1) // 2
    return (2 * agree - count) / count if count else 1.0


def write_inputs(folder):
    for name, shape in (("gpt2", GPT2), ("llama", LLAMA)):
        with open(f"{folder}/{name}.json", "w") as file:
            json.dump(shape, file)
    write_tokens(f"{folder}/tokens.bin", 2048, 200000)


def look(args, folder, chosen):
    """Rounds of probe, predictions and runs: by row, predictions, steps and whether memory is equal."""
    seen = {i: ([], [], []) for i in chosen}
    for number in range(args.rounds):
        machine = args.probe or f"{folder}/machine.json"
        if not args.probe:
            call([args.lockstep, "probe", "--out", machine, *(["--quick"] if args.quick else [])])
        for i in chosen:
            print(f"\rround {number + 1} of {args.rounds}: row {i + 1}   ", end="", file=sys.stderr, flush=True)
            seconds, planned = predict(args, folder, machine, *ROWS[i])
            steps, used = measure(args, folder, *ROWS[i])
            seen[i][0].append(seconds)
            seen[i][1].extend(steps)
            seen[i][2].append(planned == used)
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return seen


def report(args, seen):
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {args.rounds} rounds of {args.steps} steps")
    print(f"{'model':6} {'layout':78} {'predicted':>10} {'measured':>10} {'error':>8}  memory")
    errors, pairs, equal = [], {}, True
    for i, (predictions, steps, same) in seen.items():
        predicted = statistics.median(predictions)
        measured = statistics.quantiles(steps, n=4)[0] if args.low else statistics.median(steps)
        error = predicted / measured - 1
        errors.append(error)
        pairs.setdefault(ROWS[i][0], []).append((predicted, measured))
        equal &= all(same)
        print(f"{ROWS[i][0]:6} {ROWS[i][1]:78} {predicted:10.4f} {measured:10.4f} {100 * error:+7.1f}%  {'equal' if all(same) else 'DIFFERS'}")
    mean = statistics.mean(map(abs, errors))
    print(f"mean error {100 * mean:.1f} % (bar {100 * BAR:.0f} %), bias {100 * statistics.mean(errors):+.1f} %, Kendall tau "
          + ", ".join(f"{model} {tau(rows):.2f}" for model, rows in pairs.items()) + f", memory {'equal' if equal else 'DIFFERS'}")
    return equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="./lockstep")
    parser.add_argument("--rounds", type=int, default=0, help="default 3, with --quick 1")
    parser.add_argument("--steps", type=int, default=0, help="default 5, with --quick 2")
    parser.add_argument("--rows", help="numbers from 1, such as 1,4,9")
    parser.add_argument("--probe")
    parser.add_argument("--low", action="store_true")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    args.rounds, args.steps = args.rounds or (1 if args.quick else 3), args.steps or (2 if args.quick else 5)
    args.rows = args.rows or ("4,12" if args.quick else None)
    chosen = [int(n) - 1 for n in args.rows.split(",")] if args.rows else list(range(len(ROWS)))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        write_inputs(folder)
        return 0 if report(args, look(args, folder, chosen)) else 1


if __name__ == "__main__":
    sys.exit(main())
