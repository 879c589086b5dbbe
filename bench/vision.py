#!/usr/bin/env python3
"""Compares training steps of LeNet and ResNet-18 in lockstep and PyTorch: forward, backward, SGD with momentum, fp32.

PyTorch runs eager, with channels last, and compiled, with all cores and on more than two with half of them; the fastest of these
counts. lockstep runs as one worker with a thread for each core, and as single-threaded workers, one for each core. All take turns
in every round. The figure of a round is the median of its steps, the first aside; that of a program is its best round, since other
users of a machine can only make a step longer. A ratio is PyTorch's time by lockstep's; in brackets the ratios of single rounds,
smallest and largest. CPU is the time of all threads, without that in which others had the core: with one thread it is what counts,
since nothing else is told apart from a busy machine that way. With several it counts waiting too, and is only told.

Cases (--only: those whose names contain this, several with commas):
  resnet18/all   ResNet-18 for small images, 32 × 32 × 3, 64 images, all cores      bar 1.0
  lenet/all      LeNet with ReLU and maxima, 28 × 28 × 1, 256 images, all cores     bar 2.0
  resnet18/one   the same with one thread                                           bar 1.0
  lenet/one      the same with one thread                                           bar 2.0
  workers        ResNet-18, two single-threaded workers beside one: the same 64     bar 1.9

lockstep reads its images from files in the formats of CIFAR-10 and MNIST, which counts; those of PyTorch are in memory beforehand.

Usage: bench/vision.py [--only LIST] [--rounds N] [--steps N] [--batch N] [--no-peer] [--no-compile] [--quick] [--lockstep PATH]
"""
import argparse
import json
import os
import platform
import random
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import peer
from metrics import read_step_times

HERE = os.path.dirname(os.path.abspath(__file__))
IMAGES = 2048  # in the files
BATCH = {"resnet18": 64, "lenet": 256}
STEPS = {"resnet18": 4, "lenet": 60}
BARS = {"resnet18": 1.0, "lenet": 2.0}
WORKERS_BAR = 1.9
CASES = ["resnet18/all", "lenet/all", "resnet18/one", "lenet/one", "workers"]


# ---- data ------------------------------------------------------------------------------------------------------------------------


def write_images(folder):
    """Noise, as files of MNIST and of CIFAR-10: what pixels show costs nothing."""
    draw = random.Random(1)
    places = {name: os.path.join(folder, name) for name in BATCH}
    for place in places.values():
        os.mkdir(place)
    for name, count in (("train", IMAGES), ("t10k", 10)):
        with open(os.path.join(places["lenet"], f"{name}-images-idx3-ubyte"), "wb") as out:
            out.write(struct.pack(">4I", 0x803, count, 28, 28) + draw.randbytes(count * 784))
        with open(os.path.join(places["lenet"], f"{name}-labels-idx1-ubyte"), "wb") as out:
            out.write(struct.pack(">2I", 0x801, count) + bytes(draw.randrange(10) for _ in range(count)))
    for name, count in (("data_batch_1.bin", IMAGES), ("test_batch.bin", 10)):
        with open(os.path.join(places["resnet18"], name), "wb") as out:
            for _ in range(count):
                out.write(bytes([draw.randrange(10)]) + draw.randbytes(3072))
    return places


# ---- running ---------------------------------------------------------------------------------------------------------------------


class Lockstep:
    """A run of `lockstep train` for each round. Its CPU time is that of a run less that of one with a single step."""

    def __init__(self, bench, model, *flags):
        self.bench, self.model, self.flags = bench, model, [str(flag) for flag in flags]
        self.start_ms = None

    def train(self, steps):
        """Milliseconds of each step, and CPU milliseconds of all with the start"""
        out = tempfile.mkdtemp(dir=self.bench.folder)
        words = [self.bench.args.lockstep, "train", "--model", self.model, "--data", self.bench.data[self.model], "--global-batch",
                 self.bench.batch(self.model), "--steps", steps, "--optimizer", "sgd", "--momentum", 0.9, "--weight-decay", 1e-3,
                 "--lr", 1e-3, "--clip", 0, "--eval-every", 0, "--keep", 1, "--out", os.path.join(out, "run"), *self.flags]
        command = [str(word) for word in words]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f"failed: {' '.join(command)}\n{done.stderr}")
        times = read_step_times(os.path.join(out, "run"))
        shutil.rmtree(out)
        return times, 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def round(self, steps):
        if self.start_ms is None:
            self.start_ms = self.train(1)[1]
        times, cpu = self.train(steps + 1)
        return statistics.median(times[1:]), max(0, cpu - self.start_ms) / steps

    def close(self):
        pass


class Pytorch:
    """A process that stays, since compiling takes a minute; it waits while the others run."""

    def __init__(self, bench, model, mode, threads):
        command = [sys.executable, os.path.join(HERE, "vision_pytorch.py"), model, bench.batch(model), mode, threads]
        self.errors = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=self.errors, text=True)
        if self.child.stdout.readline() != "ready\n":
            self.close()
            self.errors.seek(0)
            raise RuntimeError(f"PyTorch, {mode}: {(self.errors.read().strip().splitlines() or ['it ended'])[-1]}")

    def round(self, steps):
        self.child.stdin.write(f"{steps + 1}\n")
        self.child.stdin.flush()
        times = json.loads(self.child.stdout.readline())[1:]
        return statistics.median(wall for wall, _ in times), statistics.mean(cpu for _, cpu in times)

    def close(self):
        self.child.communicate()


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder, self.data, self.missed = args, folder, write_images(folder), []
        self.cores, self.began = len(os.sched_getaffinity(0)), time.monotonic()

    def batch(self, model):
        return self.args.batch or BATCH[model]

    def say(self, what):
        print(f"{time.monotonic() - self.began:6.0f} s  {what}", file=sys.stderr, flush=True)

    def peers(self, model, threads):
        """{name: program}; one that does not start is told and left out."""
        found, modes = {}, ["eager", "channels-last"] + ([] if self.args.no_compile else ["compiled"])
        for count in sorted({threads, threads // 2 if threads > 2 else threads}, reverse=True):
            for mode in [] if self.args.no_peer else modes:
                name = f"PyTorch, {mode.replace('-', ' ')}, {plural(count, 'thread')}"
                self.say(f"starting {name}")
                try:
                    found[name] = Pytorch(self, model, mode, count)
                except RuntimeError as error:
                    print(f"left out: {error}", file=sys.stderr, flush=True)
        return found

    def run(self, model, programs):
        """{name: [(milliseconds of a step, CPU milliseconds) in each round]}"""
        steps, times = self.args.steps or STEPS[model], {name: [] for name in programs}
        for number in range(self.args.rounds):
            for name, program in programs.items():
                times[name].append(program.round(steps))
            load = os.getloadavg()[0]
            self.say(f"round {number + 1} of {self.args.rounds}, load {load:.1f}: "
                     + "; ".join(f"{name} {short(found[-1][0])} ms, CPU {short(found[-1][1])}" for name, found in times.items()))
        for program in programs.values():
            program.close()
        return times


# ---- telling ---------------------------------------------------------------------------------------------------------------------


def plural(count, what):
    return f"{count} {what}{'' if count == 1 else 's'}"


def told(mine, other):
    """The ratio of the best, and with the range of those of single rounds."""
    single = [b / a for a, b in zip(mine, other)]
    return min(other) / min(mine), f"{min(other) / min(mine):.2f} ({min(single):.2f} – {max(single):.2f})"


def verdict(bench, case, ratio, bar):
    if ratio < bar:
        bench.missed.append(case)
    return f"≥ {bar:g}: {'ok' if ratio >= bar else 'MISSED'}"


def print_table(title, head, rows):
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


def short(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def figures(bench, model, wall, cpu):
    return [short(min(wall)), short(min(cpu)), short(1e3 * bench.batch(model) / min(wall))]


def run_case(bench, case):
    model, which = case.split("/")
    threads, counts = (bench.cores, 0) if which == "all" else (1, 1)  # counts: wall or CPU time
    ours = {f"lockstep, {plural(threads, 'thread')}": Lockstep(bench, model, "--threads", threads)}
    if threads > 1:
        # Workers share the gradient groups of the batch; as many as that, or as there are cores.
        groups = max(8, 1 << (threads.bit_length() - 1))
        workers = min(threads, groups)
        ours[f"lockstep, {workers} workers"] = Lockstep(bench, model, "--dp", workers, "--threads", 1, "--groups", groups)
    found = bench.run(model, {**ours, **bench.peers(model, threads)})
    times = {name: [[pair[i] for pair in rounds] for i in (0, 1)] for name, rounds in found.items()}
    peers = [name for name in times if name not in ours]
    best = min(ours, key=lambda name: min(times[name][counts]))
    rival = min(peers, key=lambda name: min(times[name][counts])) if peers else None
    rows = []
    for name, pair in times.items():
        ratios = ["", ""]
        if name in ours and rival:
            ratios = [told(pair[i], times[rival][i])[1] for i in (0, 1)]
        bar = verdict(bench, case, told(pair[counts], times[rival][counts])[0], BARS[model]) if name == best and rival else ""
        rows.append([name, *figures(bench, model, *pair), *ratios, bar])
    head = ["", "ms a step", "CPU ms", "images/s", "ratio", "ratio of CPU", f"bar{', by CPU' if counts else ''}"]
    against = f"; ratios against {rival}" if rival else ""
    print_table(f"{case}: {plural(bench.batch(model), 'image')} a step{against}", head, rows)


def run_workers(bench, case):
    if bench.cores < 2:
        print(f"{case}: left out: it takes two cores", file=sys.stderr)
        return
    one, two = "one worker, 1 thread", "two workers, 1 thread each"
    programs = {one: Lockstep(bench, "resnet18", "--threads", 1), two: Lockstep(bench, "resnet18", "--dp", 2, "--threads", 1)}
    found = bench.run("resnet18", programs)
    wall = {name: [pair[0] for pair in rounds] for name, rounds in found.items()}
    rows = []
    for name, rounds in found.items():
        ratio, text = told(wall[name], wall[one])
        bar = verdict(bench, case, ratio, WORKERS_BAR) if name == two else ""
        rows.append([name, *figures(bench, "resnet18", wall[name], [pair[1] for pair in rounds]), text, bar])
    head = ["", "ms a step", "CPU ms", "images/s", "speed-up", "bar"]
    print_table(f"{case}: ResNet-18, {plural(bench.batch('resnet18'), 'image')} a step", head, rows)


def machine():
    model = ""
    try:
        with open("/proc/cpuinfo") as lines:
            model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        pass
    return f"{platform.machine()}{', ' + model if model else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="cases whose names contain this; several with commas")
    parser.add_argument("--rounds", type=int, default=0, help="default 5, with --quick 1")
    parser.add_argument("--steps", type=int, default=0, help=f"steps of a round that count; default {STEPS}")
    parser.add_argument("--batch", type=int, default=0, help=f"images of a step; default {BATCH}")
    parser.add_argument("--no-compile", action="store_true", help="PyTorch without torch.compile")
    peer.add_option(parser)
    parser.add_argument("--quick", action="store_true", help="few images and one round: a look, not a measurement")
    parser.add_argument("--lockstep", default="./lockstep")
    args = parser.parse_args()
    peer.check(args)
    args.rounds = args.rounds or (1 if args.quick else 5)
    if args.quick:
        args.steps, args.batch = args.steps or 1, args.batch or 16
    wanted = args.only.split(",") if args.only else [""]
    cases = [case for case in CASES if any(part in case for part in wanted)]
    if not cases:
        sys.exit(f"--only {args.only}: no such case; there are {', '.join(CASES)}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        print(f"{machine()}, {plural(bench.cores, 'core')}, load {os.getloadavg()[0]:.1f} at the beginning; best of "
              f"{plural(args.rounds, 'round')}", flush=True)
        for case in cases:
            (run_workers if case == "workers" else run_case)(bench, case)
        print(f"\nload {os.getloadavg()[0]:.1f} at the end; {'all bars met' if not bench.missed else 'missed: ' + ', '.join(bench.missed)}")


if __name__ == "__main__":
    main()
