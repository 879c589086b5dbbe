#!/usr/bin/env python3
"""Measures the gain of 16-bit training in time, memory and traffic, and compares it with the required values.

Tables:
  step     tokens per second of GPT-2 124M at T = 1024 in fp32, in bf16 by chain and by every matrix unit that this CPU has, and
           PyTorch in bf16: under autocast, and with fp32 weights whose products oneDNN may do in bf16 (fast-math), eager and compiled
  gemm     the three products of a layer alone (rows of `lockstep bench kernels`) beside fp32
  memory   activations and arena by `train --dry-run`, and the largest resident size of the runs of `step`
  wire     bytes of a step between workers by `train --dry-run`: dp = G with ZeRO 1 and gradients reduced in bf16, and tp

Rounds go through all rows in turn; a ratio is of two runs of the same round, and the median of the rounds counts. A step's time is
the median of a run, the first step aside (for a compiled model, two). PyTorch runs with all and with half of the cores in the
first round and goes on with the better one.

Usage: bench/precision.py [--tables LIST] [--rounds N] [--steps N] [--threads N] [--batch N] [--seq N] [--quick] [--no-peer]
                          [--no-compile] [--lockstep PATH]
"""
import argparse
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import peer
from metrics import read_step_times
from train import SHAPES, run_child, write_tokens

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = ["step", "gemm", "memory", "wire"]
UNITS = ["bfmmla", "avx512-bf16", "amx"]
# Ratios that a unit must reach: of the step, of the products alone.
BARS = {"bfmmla": (1.8, 2.5), "amx": (3.0, 8.0)}
ACTIVATIONS_BAR, DP_BAR, TP_BAR = 0.6, 0.5, 0.75
TINY = dict(arch="gpt2", vocab=256, width=64, layers=2, heads=8, positions=128)
FP32, CHAIN = "fp32", "bf16, chain"


# ---- running -------------------------------------------------------------------------------------------------------------


class Bench:
    """Figures are lists by row, one of each round."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.shape = TINY if args.quick else SHAPES["gpt2-124m"]
        self.shape_file, self.data = os.path.join(folder, "shape.json"), os.path.join(folder, "tokens.bin")
        with open(self.shape_file, "w") as out:
            json.dump(self.shape, out)
        write_tokens(self.data, self.shape["vocab"], 40 * 4096)
        self.units = [unit for unit in UNITS if self.has_unit(unit)]
        self.policies = {FP32: ("--precision", "fp32"), CHAIN: ("--precision", "bf16")}
        self.policies.update({f"bf16, {unit}": ("--precision", "bf16", "--matrix-unit", unit) for unit in self.units})
        self.speed, self.resident, self.gemm, self.threads = {}, {}, {}, {}
        self.failed = []

    def train(self, *options):
        return [self.args.lockstep, "train", "--model", self.shape_file, "--data", self.data, "--seq", str(self.args.seq),
                "--lr-schedule", "constant", "--warmup", "0", "--val-fraction", "0", "--eval-every", "0", "--keep", "1", *options]

    def has_unit(self, unit):
        """A dry run refuses a unit that is not here."""
        command = self.train("--global-batch", "1", "--precision", "bf16", "--matrix-unit", unit, "--dry-run")
        return subprocess.run(command, capture_output=True).returncode == 0

    def dry_run(self, *options):
        text, _ = run_child(self.train(*options, "--dry-run", "--json"))
        return json.loads(text)

    def run_lockstep(self, name):
        out = os.path.join(self.folder, "run")
        shutil.rmtree(out, ignore_errors=True)
        _, mib = run_child(self.train("--global-batch", str(self.args.batch), "--threads", str(self.args.threads), "--steps",
                                      str(self.args.steps + 1), "--out", out, *self.policies[name]))
        times = read_step_times(out)
        shutil.rmtree(out)
        self.record(name, self.args.batch * self.args.seq / (statistics.median(times[1:]) / 1e3), mib)

    def run_pytorch(self, name, mode, kind):
        tried = [self.threads[name]] if name in self.threads else sorted({self.args.threads, max(1, self.args.threads // 2)})
        # A compiled model needs a step more until it is warm.
        steps = self.args.steps + 1 + (mode == "compiled")
        env = {**os.environ, "DNNL_DEFAULT_FPMATH_MODE": "BF16"} if kind == "fast-math" else None
        found = []
        for threads in tried:
            text, mib = run_child([sys.executable, os.path.join(HERE, "train_pytorch.py"), json.dumps(self.shape),
                                   str(self.args.batch), str(self.args.seq), str(steps), mode, str(threads),
                                   "bf16" if kind == "autocast" else "fp32"], env)
            found.append((float(text.split()[-1]), mib, threads))
        speed, mib, self.threads[name] = max(found)
        self.record(name, speed, mib)

    def record(self, name, speed, mib):
        self.speed.setdefault(name, []).append(speed)
        self.resident.setdefault(name, []).append(mib)
        self.say(f"{name}: {speed:.1f} tok/s, {mib:.0f} MiB")

    def run_gemm(self):
        flags = ["--quick"] if self.args.quick else []
        text, _ = run_child([self.args.lockstep, "bench", "kernels", "--only", "gemm", "--threads", str(self.args.threads), "--rounds",
                             "1", "--json", *flags])
        for row in json.loads(text)["rows"]:
            parts = row["kernel"].split("/")
            if "bf16" in parts and not parts[2].startswith("1x"):
                unit = parts[-1] if parts[-1] in UNITS else "chain"
                self.gemm.setdefault((unit, "/".join(parts[1:3])), []).append((row["of_yardstick"], 1e-9 * row["flops_per_s"]))
        self.say("products alone")

    def say(self, what):
        print(f"{time.monotonic() - self.args.began:6.0f} s  {what}", file=sys.stderr, flush=True)

    def peers(self):
        if self.args.no_peer:
            return []
        modes = ["eager"] + ([] if self.args.no_compile else ["compiled"])
        return [(f"PyTorch, {kind}, {mode}", mode, kind) for kind in ("autocast", "fast-math") for mode in modes]

    def run_all(self, tables):
        jobs = []
        if "step" in tables or "memory" in tables:
            jobs += [(name, self.run_lockstep, (name,)) for name in self.policies]
        if "gemm" in tables:
            jobs.append(("products alone", self.run_gemm, ()))
        if "step" in tables:
            jobs += [(other[0], self.run_pytorch, other) for other in self.peers()]
        for number in range(self.args.rounds):
            self.say(f"round {number + 1} of {self.args.rounds}")
            for name, job, arguments in jobs:
                if name in self.failed:
                    continue
                try:
                    job(*arguments)
                except SystemExit as error:
                    if not isinstance(error.code, str):  # not what run_child says of a program that failed
                        raise
                    print(error, file=sys.stderr, flush=True)
                    self.failed.append(name)


# ---- telling -------------------------------------------------------------------------------------------------------------


def span(values, digits=2):
    """Median, and the range where there are several."""
    if not values:
        return "–"
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f} – {max(values):.{digits}f})"


def ratios(mine, other):
    return [a / b for a, b in zip(mine or [], other or [])]


def at_least(values, bar):
    return f"≥ {bar:g}: {'ok' if statistics.median(values) >= bar else 'MISSED'}" if values and bar else ""


def at_most(value, bar):
    return f"≤ {bar:g}: {'ok' if value <= bar else 'MISSED'}"


def plural(count, what):
    return f"{count} {what}{'' if count == 1 else 's'}"


def print_rows(title, head, rows):
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


def print_step(bench):
    base, best, rows = bench.speed.get(FP32), None, []
    ours = [name for name in bench.policies if bench.speed.get(name)]
    if ours:
        best = max(ours, key=lambda name: statistics.median(bench.speed[name]))
    for name in bench.policies:
        found = ratios(bench.speed.get(name), base)
        bar = BARS.get(name.split(", ")[-1], (0, 0))[0]
        rows.append([name, span(bench.speed.get(name, []), 1), span(found), "", at_least(found, bar)])
    for name, _, _ in bench.peers():
        ahead = ratios(bench.speed.get(best), bench.speed.get(name))
        bar = ("> 1: ok" if statistics.median(ahead) > 1 else "> 1: MISSED") if ahead else ""
        threads = f", {plural(bench.threads[name], 'thread')}" if name in bench.threads else ""
        rows.append([name + threads, span(bench.speed.get(name, []), 1), span(ratios(bench.speed.get(name), base)), span(ahead), bar])
    print_rows("Step", ["", "tok/s", "of fp32", f"{best} is … × as fast", "bar"], rows)


def print_gemm(bench):
    rows = []
    for unit in ["chain"] + bench.units:
        shapes = {shape: values for (of, shape), values in bench.gemm.items() if of == unit}
        for shape, values in shapes.items():
            rows.append([f"{shape}, {unit}", span([rate for _, rate in values], 1), span([ratio for ratio, _ in values]), ""])
        if shapes:
            means = [math.prod(ratio for ratio, _ in found) ** (1 / len(found)) for found in zip(*shapes.values())]
            rows.append([f"geometric mean, {unit}", "", span(means), at_least(means, BARS.get(unit, (0, 0))[1])])
    print_rows("Products alone, bf16", ["form and M×N×K, unit", "GFLOP/s", "of fp32", "bar"], rows)


def mib(count):
    return f"{count / 2**20:.1f}"


def arena_of(bench, batch, policy):
    """(activations, all) of one worker that has the whole batch at once"""
    found = bench.dry_run("--global-batch", str(batch), "--micro-batch", str(batch), "--threads", str(bench.args.threads), *policy)
    return found["workers"][0]["kinds"]["activations"], found["workers"][0]["bytes"]


def print_memory(bench):
    rows, base = [], bench.resident.get(FP32)
    for batch in (bench.args.batch, 8 * bench.args.batch):
        full = arena_of(bench, batch, bench.policies[FP32])
        for name, policy in bench.policies.items():
            activations, arena = arena_of(bench, batch, policy)
            resident = bench.resident.get(name, []) if batch == bench.args.batch else []
            lower, bars = ratios(resident, base), []
            if name != FP32:
                bars = ["activations " + at_most(activations / full[0], ACTIVATIONS_BAR)]
                bars += [f"peak < 1: {'ok' if statistics.median(lower) < 1 else 'MISSED'}"] if lower else []
            rows.append([f"{name}, B = {batch}", mib(activations), f"{activations / full[0]:.3f}", mib(arena), f"{arena / full[1]:.3f}",
                         span(resident, 0), span(lower, 3), "; ".join(bars)])
    print_rows("Memory of one worker, MiB", ["", "activations", "of fp32", "arena", "of fp32", "peak resident", "of fp32", "bar"], rows)


def wire_bytes(found, axis):
    return sum(kind["bytes"] for kind in found["traffic"][axis].values())


def print_wire(bench):
    """All workers together; a dry run needs no cores for them."""
    cases = []
    for dp in (2, 8):
        layout = ["--dp", str(dp), "--groups", str(dp), "--global-batch", str(dp), "--zero", "1"]
        cases.append((f"dp = G = {dp}, zero 1", "dp", layout, ["--reduce-dtype", "bf16"], DP_BAR))
    for tp in (2, 4):
        for more in ([], ["--sequence-parallel"]):
            layout = ["--tp", str(tp), "--global-batch", str(bench.args.batch), *more]
            cases.append((f"tp = {tp}{', sequence parallel' if more else ''}", "tp", layout, [], TP_BAR))
    rows = []
    for name, axis, layout, more, bar in cases:
        full = wire_bytes(bench.dry_run(*layout, "--threads", "1"), axis)
        half = wire_bytes(bench.dry_run(*layout, "--threads", "1", "--precision", "bf16", *more), axis)
        # The bars have two digits: what is small stays fp32, such as norms and biases.
        rows.append([name, mib(full), mib(half), f"{half / full:.4f}", at_most(round(half / full, 2), bar)])
    print_rows("Wire, MiB of a step, all workers", ["layout", "fp32", "bf16", "of fp32", "bar"], rows)


def choose(args):
    chosen = args.tables.split(",") if args.tables else TABLES
    unknown = [name for name in chosen if name not in TABLES]
    if unknown:
        sys.exit(f"--tables {','.join(unknown)}: unknown; there are {', '.join(TABLES)}")
    peer.check(args)
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", metavar="LIST", help="separated by commas: " + ", ".join(TABLES))
    parser.add_argument("--rounds", type=int, default=0, help="default 3, with --quick 1")
    parser.add_argument("--steps", type=int, default=3, help="steps that count in each run")
    parser.add_argument("--threads", type=int, default=0, help="default: all cores")
    parser.add_argument("--batch", type=int, default=1, help="sequences of a step")
    parser.add_argument("--seq", type=int, default=0, help="tokens of a sequence; default 1024, with --quick 64")
    parser.add_argument("--quick", action="store_true", help="a tiny model and one round: a look, not a measurement")
    peer.add_option(parser)
    parser.add_argument("--no-compile", action="store_true", help="PyTorch without torch.compile")
    parser.add_argument("--lockstep", default="./lockstep")
    args = parser.parse_args()
    args.began = time.monotonic()
    args.threads = args.threads or len(os.sched_getaffinity(0))
    args.rounds, args.seq = args.rounds or (1 if args.quick else 3), args.seq or (64 if args.quick else 1024)
    tables = choose(args)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        try:
            bench.run_all(tables)
        finally:
            print(f"{'a tiny model' if args.quick else 'GPT-2 124M'}, B = {args.batch}, T = {args.seq}, {plural(args.threads, 'thread')}, "
                  f"{plural(args.rounds, 'round')}; matrix units here: chain{''.join(', ' + unit for unit in bench.units)}")
            for name in tables:
                globals()[f"print_{name}"](bench)
    for name in bench.failed:
        print(f"failed: {name}", file=sys.stderr)
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
