#!/usr/bin/env python3
"""Checks the verdicts of `lockstep doctor` on small real runs that fail for a known cause, and on healthy ones.

Each kind of failure has several forms and is made with several seeds; a seed draws text, form, step, worker, size and layout. The right
cause must be first in at least 95 % of the runs, and healthy runs must have none. Exit status 1 otherwise.

  overflow       fp16: gradients of activations that are beyond its range from some step on; or a floor of the loss scale that is too high
  underflow      fp16 with a constant loss scale that is far too low
  lost updates   bf16 without master weights
  outlier group  what the head passes back for one group of one worker is ten times as long, every so many steps
  bad data       a part of the text is random bytes
  lr too high    30 (GPT-2) or 100 to 1000 times the healthy one: the loss rises, stays where it is for long, or falls less than it could
  rate 0         --lr 0
  slow worker    one of two or four takes two to four times as long (--trace)
  slow network   workers behind a link of 5 to 50 Mbit/s
  bubble         a pipeline without overlap, or with a single micro-batch
  slow input     reading a micro-batch takes as long as several of them
  checkpoints    one after every step or two
  too few cores  several times as many workers as cores
  ended early    a worker, or the whole run, is killed

Usage: tests/faults/doctor_runs.py [--each N] [--healthy N] [--seed N] [--only KIND,KIND] [--cores N] [--build FOLDER] [--keep FOLDER] [--verbose]
"""
import argparse
import concurrent.futures
import json
import os
import random
import shutil
import sys
import tempfile
import threading

from runs import Run, diagnose, write_model, write_prose

STEPS = 240
LAYERS = 2
HEAD = LAYERS + 1
BATCH, GROUPS = 16, 8
SHAPE = {"width": 32, "layers": LAYERS, "heads": 4, "hidden": 64, "positions": 32, "head-size": 8}
HEALTHY = ["--lr", "0.001", "--warmup", "40", "--seq", "32", "--global-batch", str(BATCH), "--groups", str(GROUPS), "--steps", str(STEPS),
           "--threads", "1", "--eval-every", "60"]


def spread_over(draw):
    """A layout that only distributes the work differently."""
    return draw.choice(([], ["--dp", "2"], ["--dp", "2", "--zero", "2"], ["--tp", "2"], ["--pp", "2"]))


def overflow(draw, _):
    if draw.random() < 0.3:
        scale = draw.choice((2**23, 2**24))
        return spread_over(draw) + ["--precision", "fp16", "--loss-scale-initial", str(2**24), "--loss-scale-min", str(scale),
                                    "--numerics", "10"], {}
    spoil = f"rank=0 step={draw.randint(60, 180)}+1 place=backward block={draw.randint(2, LAYERS)} part={draw.random():.3f} set=1e9 times=0"
    return ["--precision", "fp16", "--numerics", "10", "--dp", draw.choice("12")], {"LS_SPOIL": spoil}


def underflow(draw, _):
    return spread_over(draw) + ["--precision", "fp16", "--loss-scale", f"2^-{draw.randint(9, 14)}", "--numerics", "10"], {}


def lost_updates(draw, _):
    return spread_over(draw) + ["--precision", "bf16", "--no-master-weights", "--numerics", "10", "--lr", draw.choice(("0.0003", "0.0006"))], {}


def outlier_group(draw, _):
    dp = draw.choice((4, 8))
    spoil = (f"rank={draw.randrange(dp)} step={draw.randint(60, 100)}+{draw.randint(20, 30)} place=backward block={HEAD} index=0 "
             f"span={dp / GROUPS - 1e-4} times=0 add=9")
    return ["--dp", str(dp), "--micro-batch", str(BATCH // dp), "--zero", "1", "--on-outlier", draw.choice(("warn", "skip-group"))], {"LS_SPOIL": spoil}


def bad_data(draw, text):
    """From a third of the text on."""
    with open(text, "rb") as file:
        good = file.read()
    region = int(len(good) * draw.choice((0.005, 0.008, 0.012)))
    at = len(good) // 3
    with open(text, "wb") as file:
        bad = bytes(draw.randrange(1, 256) for _ in range(region))  # a file with NUL is refused as no text
        file.write(good[:at] + bad + good[at + region:])
    return spread_over(draw) + draw.choice((["--on-outlier", "warn"], [], ["--numerics", "10"])), {}


def lr_too_high(draw, text):
    """Without a rising loss it is the length of the updates that tells, or a loss that stands still. Llama models bear 0.03: it is their best rate."""
    with open(os.path.join(os.path.dirname(text), "model.json"), encoding="utf-8") as file:
        rates = (0.03, 0.1, 0.3, 1.0) if json.load(file)["arch"] == "gpt2" else (0.1, 0.3, 1.0)
    return spread_over(draw) + ["--lr", str(draw.choice(rates)), "--numerics", "10"], {}


def ruined(draw, _):
    """From the first steps on: no progress that a rise could be told from."""
    forms = (["--lr", "3", "--clip", "0", "--warmup", "0"], ["--lr", "0.5", "--warmup", "0", "--lr-schedule", "constant"],
             ["--lr", "900", "--precision", "fp16"])
    return spread_over(draw) + draw.choice(forms) + ["--steps", "80"], {}


def rate_0(draw, _):
    return spread_over(draw) + ["--lr", "0", "--steps", "60"], {}


def slow_network(draw, _):
    link = draw.choice(("1ms,50Mbit", "20Mbit", "5Mbit", "2ms,10Mbit"))
    return draw.choice((["--dp", "2"], ["--dp", "2", "--zero", "2"], ["--tp", "2"])) + ["--slow-link", link, "--steps", "40"], {}


def bubble(draw, _):
    form = draw.choice((["--schedule", "naive", "--micro-batch", "4"], ["--micro-batch", "16"], ["--schedule", "naive", "--micro-batch", "2"]))
    return ["--pp", "2", "--steps", "40", *form], {}


def slow_input(draw, _):
    return draw.choice(([], ["--dp", "2"])) + ["--steps", "40", "--micro-batch", "8"], {"LS_FAULT_INPUT": str(draw.choice((30, 60, 100)))}


def checkpoints(draw, _):
    return draw.choice(([], ["--dp", "2"])) + ["--steps", "40", "--eval-every", "0", "--save-every", draw.choice("12")], {}


def too_few_cores(draw, _):
    return ["--dp", "8", "--threads", str(draw.choice((1, 2)) * max(1, (os.cpu_count() or 1) // 2)), "--steps", "40"], {}


def ended_early(draw, _):
    """So many steps that none but the killing ends it."""
    flags = draw.choice((["--dp", "2"], ["--pp", "2"])) + ["--steps", "4000", "--save-every", "10"]
    return flags, {"KILL": (draw.randint(12, 30), draw.choice((0, 1, -1)))}


def slow_worker(draw, _):
    """Without lacking cores at the same time: one thing alone is wrong."""
    dp = min(draw.choice((2, 2, 4)), max(2, os.cpu_count() or 1))
    return ["--dp", str(dp), "--trace", "run", "--steps", "480"], {"LS_FAULT_SLOW": f"{draw.randrange(dp)}:{draw.choice((150, 200, 300))}"}


def healthy(draw, _):
    guards = draw.choice(([], ["--numerics", "10"], ["--numerics", "10", "--on-outlier", "warn", "--check", "state"]))
    types = draw.choice(([], ["--precision", "bf16"], ["--precision", "fp16"]))
    return spread_over(draw) + guards + types + ["--lr", draw.choice(("0.0003", "0.001", "0.002"))], {}


KINDS = {
    "overflow": overflow,
    "underflow": underflow,
    "lost updates": lost_updates,
    "outlier group": outlier_group,
    "bad data": bad_data,
    "learning rate too high": lr_too_high,
    "learning rate too high, from the start": ruined,
    "learning rate is 0": rate_0,
    "slow worker": slow_worker,
    "slow network": slow_network,
    "pipeline bubble": bubble,
    "slow input": slow_input,
    "checkpoints": checkpoints,
    "too few cores": too_few_cores,
    "ended early": ended_early,
    "healthy": healthy,
}


class Cores:
    """As many runs at once as the cores that they are given suffice for."""

    def __init__(self, count):
        self.count = self.free = max(1, count)
        self.changed = threading.Condition()

    def take(self, wanted):
        wanted = min(wanted, self.count)
        with self.changed:
            self.changed.wait_for(lambda: self.free >= wanted)
            self.free -= wanted
        return wanted

    def give(self, taken):
        with self.changed:
            self.free += taken
            self.changed.notify_all()


def cores_of(options):
    """What a run keeps busy; one that has more threads than cores, all of them."""
    cores = 1
    for name in ("--dp", "--tp", "--pp"):
        cores *= int(options[options.index(name) + 1]) if name in options else 1
    return cores * int([value for option, value in zip(options, options[1:]) if option == "--threads"][-1])


def one(program, folder, keep, cores, kind, seed):
    draw = random.Random(f"{seed} {kind}")
    place = os.path.join(folder, f"{kind.replace(' ', '-').replace(',', '')}{seed}")  # a comma would make two files of --data
    os.makedirs(place)
    try:
        model = write_model(place, arch=draw.choice(("llama", "gpt2")), **SHAPE)
        text = write_prose(place, seed)
        options, environment = KINDS[kind](draw, text)
        options = ["--model", model, "--data", text, "--seed", str(seed), *HEALTHY, *options]
        kill_at = environment.pop("KILL", None)
        taken = cores.take(cores_of(options))
        try:
            run = Run(program, os.path.join(place, "run"), options, environment, kill_at=kill_at)
        finally:
            cores.give(taken)
        told = diagnose(program, run.folder)
        return run, told, " ".join(options[4:]) + " " + str(environment)
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def judge(kind, seed, job, verbose):
    run, told, how = job.result()
    expected = None if kind == "healthy" else kind.split(",")[0]
    is_right = told["cause"] == expected
    if verbose or not is_right:
        found = [(f["cause"], f["onset"], f["title"]) for f in told["findings"] if not f["note"]]
        print(f"  {'ok  ' if is_right else 'MISS'} made {kind!r}, seed {seed}; named first {told['cause']!r}\n       {how}\n"
              f"       status {run.status}, {len(run.steps)} steps, loss {run.steps[-1]['loss'] if run.steps else '-'}, "
              f"{len(run.events)} events; {told['verdict']}: {found}")
    return is_right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--each", type=int, default=5, help="runs of each kind")
    parser.add_argument("--healthy", type=int, help="healthy runs, where not as many as of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the first run of each kind")
    parser.add_argument("--only", default="", help="kinds that begin with one of these")
    parser.add_argument("--cores", type=int, default=1, help="runs share so many; one that needs more has them alone")
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--keep", help="a new folder for the runs, which are then left there")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    program = os.path.abspath(os.path.join(args.build, "tests/spoil/lockstep"))
    folder = args.keep or tempfile.mkdtemp(prefix="lockstep-doctor.")
    cores, runs, right, accused = Cores(args.cores), 0, 0, 0
    kinds = [k for k in KINDS if not args.only or any(k.startswith(o) for o in args.only.split(","))]
    counts = {k: args.healthy if k == "healthy" and args.healthy is not None else args.each for k in kinds}
    try:
        print(f"{'failure':38} {'runs':>5} {'named first':>12}")
        with concurrent.futures.ThreadPoolExecutor(cores.count) as pool:
            jobs = {k: [pool.submit(one, program, folder, args.keep, cores, k, args.seed + i) for i in range(counts[k])] for k in kinds}
            for kind in kinds:
                good = sum(judge(kind, args.seed + i, job, args.verbose) for i, job in enumerate(jobs[kind]))
                print(f"{kind:38} {counts[kind]:5} {good if kind != 'healthy' else f'none in {good}':>12}", flush=True)
                if kind == "healthy":
                    accused = counts[kind] - good
                else:
                    runs, right = runs + counts[kind], right + good
        if runs:
            print(f"the right cause first in {right} of {runs} ({100 * right / runs:.1f} %)")
        if "healthy" in kinds:
            print(f"accused {accused} of {counts['healthy']} healthy ones")
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if accused or right < 0.95 * runs else 0


if __name__ == "__main__":
    sys.exit(main())
