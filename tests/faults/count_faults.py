#!/usr/bin/env python3
"""Faults planted at random in real runs, and how many of them the guards catch.

The program of tests/spoil changes numbers of one worker. For each fault the kind decides where and with which guards; worker, step,
tensor, element, bits, layout and type of numbers are drawn from --seed. A fault is

  caught   in the step it happens in, or, when it changes what a worker holds between two steps, in the next one, before its update
  named    the report names the worker whose numbers were corrupted; if two cannot be told apart, both
  safe     no wrong number is in the weights: where a repeat heals it they are those of the clean run, to the bit; a step that
           overflowed is skipped as one worker skips it; otherwise the run stopped, and every step before is that of the clean run

A change that leaves every gradient as it was (a bit that rounding takes away) has nothing to be caught; it is counted as "without effect".
A number that is not finite and does not come back when the step is repeated was transient: no worker is named, unless the step was audited.
Exit status 1 unless all are caught, named and safe.

Usage: tests/faults/count_faults.py [--each N] [--seed N] [--only KIND,KIND] [--jobs N] [--build FOLDER] [--verbose]
"""
import argparse
import concurrent.futures
import os
import random
import shutil
import sys
import tempfile

from runs import Run, write_model, write_text

STEPS = 6
LAYERS = 3
BLOCKS = LAYERS + 2
OPTIONS = ["--steps", str(STEPS), "--seq", "11", "--global-batch", "16", "--groups", "8", "--lr", "0.01", "--eval-every", "0", "--threads", "1"]
# Outliers are judged by what came before, in groups of several sequences.
LONG_STEPS, LONG_BATCH = 40, 32
LONG = ["--steps", str(LONG_STEPS), "--seq", "24", "--global-batch", str(LONG_BATCH), "--lr", "0.003"]


class Layout:
    """Up to 8 workers; rank = tp + TP·(dp + DP·pp)."""

    def __init__(self, draw, dps=(1, 2, 4), tps=(1, 1, 2), zeros=(0, 1, 2, 3), types=("fp32", "bf16"), micro=(1, 2, 3)):
        while True:
            self.dp, self.tp, self.pp = draw.choice(dps), draw.choice(tps), draw.choice((1, 1, 2))
            if self.dp * self.tp * self.pp <= 8:
                break
        self.zero = draw.choice([z for z in zeros if self.dp > 1 or z == 0] or [0])
        self.precision = draw.choice(types)
        self.options = ["--dp", str(self.dp), "--tp", str(self.tp), "--pp", str(self.pp), "--zero", str(self.zero),
                        "--precision", self.precision, "--recompute", draw.choice(("none", "selective", "full")),
                        "--micro-batch", str(draw.choice(micro))]
        if self.pp > 1:
            self.options += ["--schedule", draw.choice(("gpipe", "1f1b", "zero-bubble"))]
        if self.tp > 1 and draw.random() < 0.5:
            self.options += ["--sequence-parallel"]

    def workers(self):
        return self.dp * self.tp * self.pp


def bits(draw, multi, half=False):
    width = 16 if half else 32
    return hex(sum(1 << b for b in draw.sample(range(width), draw.randint(2, 8) if multi else 1)))


class Fault:
    """How one fault is planted, and what must come of it."""

    def __init__(self, layout, spoil, guards, expect, late=0):
        self.layout, self.spoil, self.guards, self.expect, self.late = layout, spoil, guards, expect, late


def at(draw, layout, place, what, skips=0, step=None, times=1):
    step = draw.randint(0, STEPS - 2) if step is None else step
    return (f"rank={draw.randrange(layout.workers())} step={step} place={place} part={draw.random():.4f} "
            f"skip={draw.randint(0, skips)} times={times} {what}")


def leaf(multi):
    def make(draw):
        layout = Layout(draw)
        return Fault(layout, at(draw, layout, "leaf", f"flip={bits(draw, multi)}", skips=12), ["--audit", "1"], "audit")
    return make


def activation(place):
    def make(draw):
        layout = Layout(draw)
        return Fault(layout, at(draw, layout, place, f"flip={bits(draw, draw.random() < 0.5)}", skips=4), ["--audit", "1"], "audit")
    return make


def replica(draw):
    """Of the finished sum, where every row has its own: the rows drift apart."""
    layout = Layout(draw, dps=(2, 4), zeros=(0,), types=("fp32", "bf16", "fp16"))
    what = f"flip={hex(0x400000 << draw.randint(0, 3))}" if draw.random() < 0.5 else "add=0.5"
    return Fault(layout, at(draw, layout, "gradient", what, skips=8), [], "replica")


def state(place, **limits):
    """Gathered weights are received again in each step, so a fault in them does not last."""
    def make(draw):
        layout = Layout(draw, types=("fp32", "bf16", "fp16"), **limits)
        what = f"flip={bits(draw, draw.random() < 0.5, half=place in ('copy', 'gathered'))}"
        step = draw.randint(1, STEPS - 2)
        late = place != "gathered"
        return Fault(layout, at(draw, layout, place, what, skips=4, step=step), ["--check", "state"], "state", late)
    return make


def product_always(draw):
    """One row cannot tell that it always errs."""
    layout = Layout(draw, dps=(2, 4))
    tensor = draw.choice(("attn.in.weight", "attn.out.weight", "mlp.in.weight", "mlp.out.weight"))
    spoil = at(draw, layout, "product", f"add={draw.choice((1e-5, 1e-3, -0.01))} tensor={tensor}", times=0)
    return Fault(layout, spoil, ["--audit", "1"], "audit")


def product_once(draw):
    layout = Layout(draw)
    return Fault(layout, at(draw, layout, "product", f"add={draw.choice((1e-4, 1e-2, -0.5))}", skips=10), ["--audit", "1"], "audit")


def not_finite(once):
    def make(draw):
        layout = Layout(draw)
        place = draw.choice(("forward", "backward", "leaf", "product"))
        value = draw.choice(("nan", "inf", "-inf")) if place != "product" or layout.precision == "fp32" else "nan"
        skips = 6 if once else 0
        spoil = at(draw, layout, place, f"set={value}", skips=skips, times=1 if once else 0)
        if not once and place in ("forward", "backward"):
            spoil += f" block={draw.randrange(BLOCKS - 1) + (place == 'backward')}"
        guards = draw.choice(([], ["--audit", "1"], ["--on-outlier", "warn"]))
        return Fault(layout, spoil, guards, "non-finite")
    return make


def long_group(draw):
    """A group whose gradient is ten times as long: what the head passes back is, for the sequences of one group."""
    layout = Layout(draw, dps=(4, 8), tps=(1,), zeros=(0, 1), micro=(LONG_BATCH // 4,))
    own = LONG_BATCH // layout.dp
    groups = own * 8 // LONG_BATCH  # of a row; its first one is hit
    rank = draw.randrange(layout.dp) + layout.dp * (layout.pp - 1)
    spoil = (f"rank={rank} step={draw.randint(20, LONG_STEPS - 2)} place=backward block={BLOCKS - 1} index=0 span={1 / groups - 1e-4} "
             "times=0 add=9")
    return Fault(layout, spoil, ["--on-outlier", "skip-group"], "outlier")


def overflow(draw):
    layout = Layout(draw, types=("fp16",))
    place = draw.choice(("backward", "forward"))
    spoil = at(draw, layout, place, "set=inf", skips=2) + f" block={draw.randint(1, LAYERS)}"
    return Fault(layout, spoil, [], "overflow")


KINDS = {
    "gradient of a group, one bit": leaf(False),
    "gradient of a group, several bits": leaf(True),
    "sum of gradients": replica,
    "activation": activation("forward"),
    "gradient of an activation": activation("backward"),
    "weight": state("weight"),
    "weight as products read it": state("copy", zeros=(0, 1, 2)),
    "weight as it was gathered": state("gathered", dps=(2, 4), zeros=(3,)),
    "optimizer state": state("moment"),
    "product, always slightly wrong": product_always,
    "product, wrong once": product_once,
    "not finite, again and again": not_finite(False),
    "not finite, once": not_finite(True),
    "overflow of fp16": overflow,
    "group ten times as long": long_group,
}


class Judge:
    """Runs that others are compared with: one worker without faults, and one that skips a step."""

    def __init__(self, program, folder):
        self.program, self.folder, self.known = program, folder, {}
        self.base = ["--model", write_model(folder), "--data", write_text(folder, 150), *OPTIONS]

    def run(self, name, options, environment):
        folder = os.path.join(self.folder, name)
        shutil.rmtree(folder, ignore_errors=True)
        run = Run(self.program, folder, self.base + options, environment)
        shutil.rmtree(folder, ignore_errors=True)
        return run

    def prepare(self):
        for precision in ("fp32", "bf16", "fp16"):
            run = self.run("clean", ["--precision", precision, "--audit", "1", "--check", "state", "--on-outlier", "warn"], {})
            if run.status != 0 or run.events:
                sys.exit(f"the clean run in {precision} is not clean: {run.events} {run.said}")
            self.known[precision] = run
        for step in range(STEPS):
            self.known["skips", step] = self.run("skips", ["--precision", "fp16"], {
                "LS_SPOIL": f"rank=0 step={step} place=backward block=2 set=inf"})

    def is_named(self, fault, rank, event):
        if fault.expect == "audit":
            return event["wrong"] == rank
        if fault.expect == "replica":
            return event["workers"] == [rank] or (fault.layout.dp == 2 and rank in event["workers"] and len(event["workers"]) == 2)
        return event["worker"] == (rank % fault.layout.dp if fault.expect == "outlier" else rank)

    def skipped(self, fault, step, group):
        """One worker that leaves this group out."""
        spoil = (f"rank=0 step={step} place=backward block={BLOCKS - 1} part={group / 8 + 1e-6} span={1 / 8 - 1e-4} times=0 add=9")
        options = ["--precision", fault.layout.precision, "--micro-batch", str(LONG_BATCH)]
        return self.run(f"skipped{step}.{group}.{fault.spoil[5:7].strip()}", LONG + options + fault.guards, {"LS_SPOIL": spoil})

    def verdict(self, fault, run, log):
        """(planted, effect, caught, named or None, safe)"""
        clean = self.known[fault.layout.precision]
        if not log:
            return False, False, False, None, run.weights == clean.weights
        if not run.events and run.weights == clean.weights and fault.expect in ("audit", "replica", "non-finite"):
            return True, False, False, None, True
        word = dict(item.split("=", 1) for item in log.split("\n")[0].split())
        rank, step = int(word["rank"]), int(word["step"]) + fault.late
        # A whole worker that stands out is a report without a group, and no group is left out for it.
        events = [e for e in run.events if fault.expect != "outlier" or "group" in e]
        event = events[0] if events else {}
        kinds = (fault.expect, "non-finite") if fault.expect == "audit" else (fault.expect,)
        caught = event.get("event") in kinds and event["step"] == step + 1
        passed = event.get("event") == "overflow" or (event.get("event") == "non-finite" and not event["recurs"])
        named = None if passed and "worker" not in event else caught and self.is_named(fault, rank, event) if caught and event[
            "event"] == fault.expect else caught and event.get("worker") == rank
        if fault.expect == "outlier":
            safe = caught and run.weights == self.skipped(fault, step, event["group"]).weights
        elif fault.expect == "overflow":
            safe = run.weights == self.known["skips", step].weights
        elif run.status == 0:
            safe = run.weights == clean.weights
        else:
            safe = run.losses() == clean.losses()[:step]
        return True, True, caught, named, safe

    def judge(self, number, fault):
        log = os.path.join(self.folder, f"log{number}")
        run = self.run(f"run{number}", fault.layout.options + fault.guards + (LONG if fault.expect == "outlier" else []),
                       {"LS_SPOIL": fault.spoil, "LS_SPOIL_LOG": log})
        text = ""
        if os.path.exists(log):
            with open(log) as file:
                text = file.read().strip()
            os.remove(log)
        return self.verdict(fault, run, text), text, run


def share(count, of):
    return "-" if of == 0 else f"{count}" if count == of else f"{count} !"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--each", type=int, default=20, help="faults of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds that begin with one of these")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    program = os.path.abspath(os.path.join(args.build, "tests/spoil/lockstep"))
    folder = tempfile.mkdtemp(prefix="lockstep-faults.")
    bad = 0
    try:
        judge = Judge(program, folder)
        judge.prepare()
        print(f"{'kind':36} {'planted':>8} {'no effect':>10} {'to catch':>9} {'caught':>8} {'to name':>8} {'named':>8} {'safe':>8}")
        kinds = [k for k in KINDS if not args.only or any(k.startswith(o) for o in args.only.split(","))]
        totals = [0] * 7
        for kind in kinds:
            draw = random.Random(f"{args.seed} {kind}")
            row = [0] * 7
            with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
                number = 0
                # A place that the drawn worker does not have is drawn again.
                while row[0] < args.each and number < 8 * args.each:
                    faults = [KINDS[kind](draw) for _ in range(args.each - row[0])]
                    jobs = [pool.submit(judge.judge, number + i, fault) for i, fault in enumerate(faults)]
                    number += len(faults)
                    for fault, job in zip(faults, jobs):
                        (planted, effect, caught, named, safe), log, run = job.result()
                        row = [a + b for a, b in zip(row, (planted, planted and not effect, effect, caught, named is not None,
                                                           bool(named), planted and safe))]
                        failed = (effect and not (caught and safe and named is not False)) or not safe
                        bad += failed
                        if failed or args.verbose:
                            print(f"  {'FAIL' if failed else 'ok  '} {' '.join(fault.layout.options + fault.guards)} LS_SPOIL='{fault.spoil}'\n"
                                  f"       planted {log or 'nothing'}; status {run.status}, events {run.events[:2]}, {run.said.strip()[-200:]}")
            planted, masked, to_catch, caught, to_name, named, safe = row
            print(f"{kind:36} {planted:8} {masked:10} {to_catch:9} {share(caught, to_catch):>8} {to_name:8} {share(named, to_name):>8} "
                  f"{share(safe, planted):>8}", flush=True)
            bad += planted < args.each
            totals = [a + b for a, b in zip(totals, row)]
        planted, masked, to_catch, caught, to_name, named, safe = totals
        print(f"{'all':36} {planted:8} {masked:10} {to_catch:9} {caught:8} {to_name:8} {named:8} {safe:8}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
