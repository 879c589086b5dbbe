#!/usr/bin/env python3
"""Measures how training scales with workers: layouts, the cost of equal bits, and PyTorch's DDP for comparison.

Workers have one thread unless a row says otherwise. Every row of a table trains the same tokens per step (those of `weak` grow
with the workers) and is compared with one single-threaded worker of the same round; rounds go through all rows in turn, and the
median of the rounds counts. A figure is tokens by the median step of metrics.jsonl, the first step aside. Rows of one
table must have the same losses to the bit, or the run fails.

Tables (--tables LIST; without it those that suit the cores):
  two      layouts on 2 workers: GPT-2 124M shapes with 7 layers, 8 sequences of 1024 tokens
  promise  canonical slices and groups against one slice and as many groups as workers, on one worker and two
  ddp      two workers beside two processes of PyTorch with gloo, one thread each
  many     layouts on all cores, beside the ceiling: 64 sequences of 128 tokens in 64 groups
  strong   1, 2, 4, … workers on the batch of `many`
  weak     1, 2, 4, … workers with 4 sequences each

The ceiling of a row is the speed-up of a loop of multiply-adds without memory on as many cores (bench/fma_ceiling.c), bound by its
slowest thread; the sum of rates is what unequal shares could reach. The loop runs on one core just before the single worker,
and on all of them just before the row, so that both speed-ups are of the same moments.

Usage: bench/scale.py [--tables LIST] [--only LIST] [--rounds N] [--steps N] [--workers N] [--batch N] [--seq N] [--groups N]
                      [--model FILE] [--quick] [--no-peer] [--no-compile] [--seconds N] [--lockstep PATH] [--ceiling PATH]
"""
import argparse
import dataclasses
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import peer
from metrics import read_steps
from train import write_tokens

HERE = os.path.dirname(os.path.abspath(__file__))
GPT2_7L = dict(arch="gpt2", vocab=50257, width=768, layers=7, heads=12, positions=1024)
TINY = dict(arch="gpt2", vocab=256, width=64, layers=7, heads=8, positions=128)
TABLES = ["two", "promise", "ddp", "many", "strong", "weak"]


@dataclasses.dataclass(frozen=True)
class Job:
    """What is run; the same job of several tables runs once a round."""
    options: tuple  # of `lockstep train`, or of ddp.py
    batch: int
    seq: int
    cores: int = 1
    pytorch: bool = False
    ceiling: bool = False


@dataclasses.dataclass
class Row:
    name: str
    job: Job
    base: Job
    bar: float = 0  # 0: none
    bar_of: str = "speed-up"  # or "ceiling", "sum of rates"


class Results:
    """By job and round: tokens per second, and (slowest, sum) of the rates of the loop that ran before it."""

    def __init__(self):
        self.speed, self.loop, self.failed, self.losses = {}, {}, {}, {}

    def ratios(self, job, base):
        mine, other = self.speed.get(job, {}), self.speed.get(base, {})
        return {i: mine[i] / other[i] for i in mine if i in other}

    def ceilings(self, row):
        """(bound by the slowest thread, sum of rates) by round"""
        mine, alone = self.loop.get(row.job, {}), self.loop.get(row.base, {})
        return {i: (row.job.cores * mine[i][0] / alone[i][0], mine[i][1] / alone[i][0]) for i in mine if i in alone}

    def of_ceiling(self, row, which):
        """Speed-ups as parts of the ceiling (0) or of the sum of rates (1) of their rounds."""
        found = self.ceilings(row)
        return [ratio / found[i][which] for i, ratio in self.ratios(row.job, row.base).items() if i in found]


# ---- the tables ----------------------------------------------------------------------------------------------------------


def words(text):
    return tuple(text.split())


def micro_of(batch, dp, count=8):
    """--micro-batch for `count` micro-batches of each dp row"""
    return f"--micro-batch {max(1, batch // dp // count)}"


def two(args):
    B, T = args.batch or (8 if not args.quick else 16), args.seq or (1024 if not args.quick else 64)
    base, micro = Job((), B, T), micro_of(B, 1)
    wanted = [
        ("one worker, micro-batch 1", "--micro-batch 1", 0),
        ("dp=2", "--dp 2", 1.9),
        ("tp=2", "--tp 2", 1.7),
        ("tp=2, sequence parallel", "--tp 2 --sequence-parallel", 0),
        ("pp=2 1f1b, 8 micro-batches", f"--pp 2 --schedule 1f1b {micro}", 1.65),
        ("pp=2 gpipe, 8 micro-batches", f"--pp 2 --schedule gpipe {micro}", 0),
        ("pp=2 interleaved, 8 micro-batches", f"--pp 2 --schedule interleaved {micro}", 0),
        ("pp=2 zero-bubble, 8 micro-batches", f"--pp 2 --schedule zero-bubble {micro}", 0),
        ("pp=2 naive", "--pp 2 --schedule naive", 0),
        ("dp=2, zero 0", "--dp 2 --zero 0", 0),
        ("dp=2, zero 2", "--dp 2 --zero 2", 0),
        ("dp=2, zero 3", "--dp 2 --zero 3", 0),
    ]
    rows = [Row("one worker", base, base)]
    rows += [Row(name, Job(words(flags), B, T, 1 if "one" in name else 2), base, bar) for name, flags, bar in wanted]
    return rows + [Row("one worker × 2 threads", Job(("--threads", "2"), B, T, 2), base)]


def promise(args):
    rows = two(args)
    base, dp2 = rows[0].job, next(row.job for row in rows if row.name == "dp=2")
    plain1 = dataclasses.replace(base, options=words("--slices 1 --groups 1"))
    plain2 = dataclasses.replace(dp2, options=words("--dp 2 --slices 1 --groups 2"))
    return [Row("one worker, S = 1, G = 1", plain1, plain1), Row("one worker", base, plain1, 0.95),
            Row("dp=2, S = 1, G = 2", plain2, plain2), Row("dp=2", dp2, plain2, 0.95)]


def ddp(args):
    dp2 = next(row.job for row in two(args) if row.name == "dp=2")
    modes = [("PyTorch DDP", "2 0 eager"), ("PyTorch DDP, one sequence at a time", "2 1 eager")]
    if not args.no_compile:
        modes.append(("PyTorch DDP, compiled", "2 0 compiled"))
    rows = [Row("PyTorch, one process", Job(words("1 0 eager"), dp2.batch, dp2.seq, 1, True), dp2)]
    rows += [Row(name, Job(words(flags), dp2.batch, dp2.seq, 2, True), dp2) for name, flags in modes]
    return [Row("dp=2", dp2, dp2)] + rows


def many_batch(args):
    B, T = args.batch or 64, args.seq or (128 if not args.quick else 16)
    return B, T, f"--groups {args.groups or B} "


def many(args):
    (B, T, groups), W = many_batch(args), args.workers
    base = Job(words(groups), B, T, ceiling=True)
    rows = [Row("one worker", base, base)]

    def add(name, dp, tp=1, pp=1, more="", bar=0, bar_of="ceiling"):
        if dp * tp * pp != W or dp < 1:
            return
        flags = groups + (f"--dp {dp} " if dp > 1 else "") + (f"--tp {tp} " if tp > 1 else "")
        flags += f"--pp {pp} {micro_of(B, dp)} " if pp > 1 else ""
        rows.append(Row(name, Job(words(flags + more), B, T, W, ceiling=True), base, bar, bar_of))

    add(f"dp={W}", W, bar=0.90)
    add(f"dp={W}, shares auto", W, more="--shares auto", bar=0.85, bar_of="sum of rates")
    add(f"dp={W // 4} · tp=2 · pp=2", W // 4, 2, 2, bar=0.75)
    add(f"dp={W // 2} · tp=2", W // 2, 2)
    add(f"dp={W // 2} · pp=2", W // 2, 1, 2)
    add(f"dp={W // 4} · tp=4", W // 4, 4)
    add(f"dp={W // 4} · pp=4", W // 4, 1, 4)
    add(f"dp={W // 8} · tp=8", W // 8, 8)
    add(f"dp={W}, zero 3", W, more="--zero 3")
    flags = groups + f"--threads {W}"
    rows.append(Row(f"one worker × {W} threads", Job(words(flags), B, T, W, ceiling=True), base))
    return rows


def powers(most):
    counts = [1]
    while counts[-1] * 2 <= most:
        counts.append(counts[-1] * 2)
    return counts


def strong(args):
    (B, T, groups), rows = many_batch(args), []
    for W in powers(args.workers):
        job = Job(words(groups + (f"--dp {W}" if W > 1 else "")), B, T, W, ceiling=True)
        rows.append(Row(f"{W} worker{'s' if W > 1 else ''}", job, rows[0].job if rows else job))
    return rows


def weak(args):
    _, T, _ = many_batch(args)
    rows = []
    for W in powers(args.workers):
        B = 4 * W
        flags = f"--groups {B} " + (f"--dp {W}" if W > 1 else "")
        job = Job(words(flags), B, T, W, ceiling=True)
        rows.append(Row(f"{W} worker{'s' if W > 1 else ''}, B = {B}", job, rows[0].job if rows else job))
    return rows


# ---- running -------------------------------------------------------------------------------------------------------------


class Runner:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.shape = GPT2_7L if not args.quick else TINY
        if args.model:
            with open(args.model) as file:
                self.shape = json.load(file)
        self.shape_file, self.data = os.path.join(folder, "shape.json"), os.path.join(folder, "tokens.bin")
        with open(self.shape_file, "w") as out:
            json.dump(self.shape, out)
        write_tokens(self.data, self.shape["vocab"], 40 * 4096)

    def call(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            lines = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
            raise RuntimeError(next((line for line in lines if "error" in line.lower()), lines[-1]))
        return done.stdout

    def fma_loop(self, cores):
        """(slowest, sum) of the rates, in GFLOP/s"""
        found = self.call([self.args.ceiling, str(cores), "0.1" if self.args.quick else "1.5"]).split()
        return float(found[found.index("slowest") + 1]), float(found[found.index("sum") + 1])

    def steps(self, job):
        """Where a step is short, more of them: it takes the noise out and costs little."""
        return 1 + self.args.steps * max(1, min(job.cores, 16) // 4)

    def lockstep(self, job):
        """(tokens per second, the exact losses)"""
        out = os.path.join(self.folder, "run")
        shutil.rmtree(out, ignore_errors=True)
        threads = () if "--threads" in job.options else ("--threads", "1")
        self.call([self.args.lockstep, "train", "--model", self.shape_file, "--data", self.data, "--seq", str(job.seq),
                   "--global-batch", str(job.batch), "--steps", str(self.steps(job)), "--lr-schedule", "constant", "--warmup",
                   "0", "--val-fraction", "0", "--eval-every", "0", "--keep", "1", "--out", out, *threads, *job.options])
        steps = read_steps(out)
        shutil.rmtree(out)
        seconds = statistics.median(step["ms"] for step in steps[1:]) / 1e3
        return job.batch * job.seq / seconds, tuple(step["loss_hex"] for step in steps)

    def pytorch(self, job):
        processes, micro, mode = job.options
        # A compiled model needs a step more until it is warm.
        steps = self.steps(job) + (mode == "compiled")
        return float(self.call([sys.executable, os.path.join(HERE, "ddp.py"), json.dumps(self.shape), str(job.batch), str(job.seq),
                                str(steps), processes, micro, mode]).split()[-1])

    def run(self, job, number, results):
        if job.ceiling and job.cores <= self.args.cores:
            try:
                results.loop.setdefault(job, {})[number] = self.fma_loop(job.cores)
            except RuntimeError as error:  # other runs are pinned to the cores
                if not self.args.quick:
                    raise
                print(f"no ceiling: {error}", file=sys.stderr, flush=True)
        if job.pytorch:
            speed = self.pytorch(job)
        else:
            speed, losses = self.lockstep(job)
            results.losses[job] = losses
        results.speed.setdefault(job, {})[number] = speed
        return speed


def run_all(args, tables, results):
    names = {}
    # What `promise` compares differs by so little that its runs must follow one another.
    for table, rows in sorted(tables.items(), key=lambda item: item[0] != "promise"):
        for row in rows:
            names.setdefault(row.job, f"{table}: {row.name}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(args, folder)
        for number in range(args.rounds):
            for job, name in names.items():
                if args.seconds and time.monotonic() - began > args.seconds:
                    print(f"stopped after {args.seconds} s, in round {number + 1} of {args.rounds}", file=sys.stderr)
                    return
                if job in results.failed:
                    continue
                try:
                    said = f"{runner.run(job, number, results):.1f} tok/s"
                except (RuntimeError, OSError, ValueError) as error:
                    results.failed[job] = said = f"failed: {error}"
                loop = results.loop.get(job, {}).get(number)
                said += f"; loop {loop[0]:.1f} slowest, {loop[1]:.1f} GFLOP/s in all" if loop else ""
                print(f"round {number + 1}/{args.rounds} {time.monotonic() - began:6.0f} s  {name}: {said}", file=sys.stderr,
                      flush=True)


# ---- telling -------------------------------------------------------------------------------------------------------------


def span(values, digits=2):
    """Median, and the range where there are several."""
    if not values:
        return "–"
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f} – {max(values):.{digits}f})"


def bar_text(row, figure):
    if not row.bar or figure is None:
        return ""
    return f"{row.bar:.2f}{'' if row.bar_of == 'speed-up' else ' of ' + row.bar_of}: {'ok' if figure >= row.bar else 'MISSED'}"


def middle(values):
    return statistics.median(values) if values else None


def print_table(table, rows, args, results):
    job = rows[0].job
    shape = args.model or ("tiny" if args.quick else "GPT-2 124M shapes with 7 layers")
    batch = f"B = {job.batch}" if table != "weak" else "4 sequences a worker"
    print(f"\n{table}: {shape}, {batch}, T = {job.seq}, median of {args.rounds} rounds\n")
    heads = {"promise": ["layout", "tok/s", "of plain", "cost", "bar"], "ddp": ["", "tok/s", "lockstep dp=2 is … × as fast"]}
    with_ceiling = table in ("many", "strong", "weak")
    head = heads.get(table, ["layout", "tok/s", "speed-up"] + (
        ["ceiling", "of it", "sum of rates", "of it"] if with_ceiling else []) + ["bar"])
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        if row.job in results.failed:
            print(f"| {row.name} | {results.failed[row.job]} |" + " |" * (len(head) - 2))
            continue
        ratios = list(results.ratios(row.job, row.base).values())
        cells = [row.name, span(list(results.speed.get(row.job, {}).values()), 1)]
        if table == "ddp":
            cells.append(span([1 / ratio for ratio in ratios]))
        elif table == "promise":
            is_plain = row.job == row.base
            cost = "" if is_plain or not ratios else f"{100 * (1 - middle(ratios)):.1f} %"
            cells += [span(ratios, 3), cost, bar_text(row, middle(ratios))]
        else:
            cells.append(span(ratios))
            parts = [results.of_ceiling(row, which) for which in (0, 1)]
            if with_ceiling:
                for which in (0, 1):
                    cells += [span([pair[which] for pair in results.ceilings(row).values()]), span(parts[which])]
            figure = {"speed-up": ratios, "ceiling": parts[0], "sum of rates": parts[1]}[row.bar_of]
            cells.append(bar_text(row, middle(figure)))
        print("| " + " | ".join(cells) + " |")
    sys.stdout.flush()


def same_losses(tables, results):
    """Layouts never change a result; `promise` alone compares different ones on purpose."""
    bad = 0
    for table, rows in tables.items():
        if table in ("promise", "weak"):
            continue
        expected = results.losses.get(rows[0].job)
        for row in rows:
            found = results.losses.get(row.job)
            if expected and found and any(a != b for a, b in zip(expected, found)):
                print(f"error: {table}: {row.name}: losses {', '.join(found)}, those of {rows[0].name} {', '.join(expected)}",
                      file=sys.stderr)
                bad += 1
    return bad == 0


def wanted_rows(rows, only):
    """Those named, or containing a text that is no row's name, and those they are compared with."""
    bases, names = {row.base for row in rows}, {row.name for row in rows}
    texts = only.split(";") if only else [""]
    return [row for row in rows
            if row.job in bases or any(text == row.name if text in names else text in row.name for text in texts)]


def choose_tables(args):
    chosen = args.tables.split(",") if args.tables else ["two", "promise", "ddp"] if args.cores < 4 else ["many", "strong", "weak"]
    unknown = [name for name in chosen if name not in TABLES]
    if unknown:
        sys.exit(f"--tables {','.join(unknown)}: unknown; there are {', '.join(TABLES)}")
    peer.check(args)
    chosen = [name for name in chosen if name != "ddp" or not args.no_peer]
    tables = {}
    for name in chosen:
        rows = globals()[name](args)
        tables[name] = wanted_rows(rows, args.only)
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", metavar="LIST", help="separated by commas: " + ", ".join(TABLES))
    parser.add_argument("--only", metavar="LIST", help="rows of these names, or whose names contain these texts, separated by "
                        "semicolons, and those they are compared with")
    parser.add_argument("--rounds", type=int, default=0, help="default 3, with --quick 1")
    parser.add_argument("--steps", type=int, default=0, help="steps that count in each run (on 8 cores twice, on 16 four times as "
                        "many); default 1, with --quick 2")
    parser.add_argument("--workers", type=int, default=0, help="of many, and the most of strong and weak; default: the cores")
    parser.add_argument("--batch", type=int, default=0, help="sequences of a step")
    parser.add_argument("--seq", type=int, default=0, help="tokens of a sequence")
    parser.add_argument("--groups", type=int, default=0, help="gradient groups of many and strong; default: the batch")
    parser.add_argument("--model", metavar="FILE", help="another shape file")
    parser.add_argument("--quick", action="store_true", help="a tiny model and one round: a look, not a measurement")
    peer.add_option(parser)
    parser.add_argument("--no-compile", action="store_true", help="PyTorch without torch.compile")
    parser.add_argument("--seconds", type=int, default=0, help="begin no run after this time, and print what there is")
    parser.add_argument("--lockstep", default="./lockstep")
    parser.add_argument("--ceiling", default="build/bench/fma_ceiling", help="the program of bench/fma_ceiling.c")
    args = parser.parse_args()
    args.cores = len(os.sched_getaffinity(0))
    args.workers, args.rounds, args.steps = args.workers or args.cores, args.rounds or (1 if args.quick else 3), args.steps or (
        2 if args.quick else 1)
    tables, results = choose_tables(args), Results()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        run_all(args, tables, results)
    finally:
        for name, rows in tables.items():
            print_table(name, rows, args, results)
    sys.exit(0 if same_losses(tables, results) and not results.failed else 1)


if __name__ == "__main__":
    main()
