#!/usr/bin/env python3
"""Do more workers help LeNet and ResNet-18? Measured on this machine with `lockstep scale`, and predicted from what was not measured.

  ladder     1, 2, 4, … workers up to the cores, two batches each; on more than two cores the larger numbers of workers are
             predicted from the smaller ones before they are measured
  smallest   LeNet over shared memory with as few images as there can be: whether any batch is too small for more workers
  crossover  LeNet: the bandwidth, and over one slow link the batch, from which on W workers beat one. Predicted by a fit of sizes that
             are far from it (a link a quarter as fast; a quarter of the batch and four times it), then found by halving, and read
             off a line through the speed-ups that were measured near it
  links      both models over latency alone and over bandwidth alone

Every figure comes from rounds that go through all sizes in turn, of whose steps the faster half counts. A measurement during which
other programs had the cores is repeated; where that does not help, the page says so.

Writes OUT/compute-to-sync/NAME.json, and from all the files of that folder OUT/compute-to-sync.md and OUT/compute-to-sync/*.svg: results of
several machines stand beside each other. Exit status 1: a crossover was predicted worse than by 20 %.

--quick: twelve seconds in all, without a limit for what crossovers are predicted by: a look, not a measurement.

Usage: bench/ratio.py [--seconds N] [--out FOLDER] [--name NAME] [--draw] [--quick] [--lockstep PATH]
"""
import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time

import ratio_page

HERE = os.path.dirname(os.path.abspath(__file__))
LENET_BATCHES = [32, 256]
CROSS_BATCH = 32  # LeNet, where bandwidths are compared
CROSS_LATENCY = "20us"
CROSS_LINKS = {2: "50us,1Gbit"}  # where batches are compared; other numbers of workers:
CROSS_LINK = "50us,200Mbit"  # slower, so that a batch is many times the workers
LINKS = {"lenet": ["100us", "1ms", "10Gbit", "1Gbit", "100Mbit"], "resnet18": ["1ms", "1Gbit"]}
QUIET = 0.05  # share of a step that other programs may have had the cores
NEAR = 1.7  # points within this factor of a crossover tell where it is


class OutOfTime(Exception):
    pass


class Lab:
    def __init__(self, args):
        self.program = args.lockstep
        self.end = time.monotonic() + args.seconds
        self.seconds = args.seconds
        self.worst = 0.0  # share of a step that others had

    def left(self):
        return self.end - time.monotonic()

    def once(self, model, workers, batches, link, steps):
        if self.left() < 2:
            raise OutOfTime()
        command = [self.program, "scale", "--json", "--model", model, "--workers", ",".join(map(str, workers)),
                   "--global-batch", ",".join(map(str, batches))]
        command += ["--slow-link", link] if link else []
        command += ["--steps", str(steps)] if steps else []
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=self.left() + 20)
        except subprocess.TimeoutExpired:
            raise OutOfTime() from None
        if done.returncode:
            sys.exit(f"ratio: {' '.join(command)}: {done.stderr.strip()}")
        found = json.loads(done.stdout)
        return {**found["models"][0], "cores": found["cores"]}

    def scale(self, model, workers, batches, link=None, steps=None, tries=1):
        """The quietest of some tries; one is enough where it is quiet, or where another would take a tenth of what time is left.
        Without --steps, scale itself tries again while it is disturbed."""
        best = None
        for _ in range(tries):
            begin = time.monotonic()
            try:
                found = self.once(model, workers, batches, link, steps)
            except OutOfTime:
                if best is None:
                    raise
                break
            found["disturbed"] = disturbance(found)
            if best is None or found["disturbed"] < best["disturbed"]:
                best = found
            if best["disturbed"] < QUIET or time.monotonic() - begin > self.left() / 10:
                break
        self.worst = max(self.worst, best["disturbed"])
        say(f"{model}, workers {workers}, batches {batches}{', ' + link if link else ''}: " +
            ", ".join(f"{p['workers']}x{p['global_batch']} {1e3 * p['step_s']:.3g} ms" for p in best["measured"]) +
            (f" (others had {100 * best['disturbed']:.0f} %)" if best["disturbed"] >= QUIET else ""))
        return best


def say(text):
    print(f"ratio: {text}", file=sys.stderr, flush=True)


def disturbance(found):
    """Workers that have no core of their own wait for one in any case."""
    return max((p["queued_s"] / p["step_s"] for p in found["measured"] if not p["crowded"]), default=0)


def row_of(found, workers, batch):
    return next((p for p in found["measured"] if p["workers"] == workers and p["global_batch"] == batch), None)


# ---- the model of scale, for lines in charts -------------------------------------------------------------------------


def predicted_step(fit, workers, images, kinds, byte_s):
    """As src/lab/scale/scaling.h; kinds: messages and bytes, as measured sizes have them."""
    compute = (fit["sequence_s"] + fit["contended_s"] * (1 - 1 / workers)) * images + fit["shared_s"] / workers + fit["fixed_s"]
    step = compute + fit["overhead_sequence_s"] * images + fit["overhead_s"]
    if workers == 1:
        return step
    costs = {name: fit["message_s"] * kind["messages"] + byte_s * kind["bytes"] for name, kind in kinds.items()}
    hidden = min(costs.get("reduce-scatter", 0), fit["hides"] * compute)
    return step + fit["idle"] * compute + sum(costs.values()) - hidden


def rate_line(found, workers, batch, link_mbit, xs):
    fit, kinds = found["fit"], row_of(found, workers, batch)["kinds"]
    own = max(0, fit["byte_s"] - 8e-6 / link_mbit)
    one = predicted_step(fit, 1, batch, {}, 0)
    return [(x, one / predicted_step(fit, workers, math.ceil(batch / workers), kinds, own + 8e-6 / x)) for x in xs]


def batch_line(found, workers, kinds, xs):
    fit = found["fit"]
    return [(x, predicted_step(fit, 1, x, {}, 0) / predicted_step(fit, workers, x / workers, kinds, fit["byte_s"])) for x in xs]


def spread(low, high, count=25):
    return [low * (high / low) ** (i / (count - 1)) for i in range(count)]


# ---- where two lines cross -------------------------------------------------------------------------------------------


def cross_of(points):
    """Where a line through the logarithms of the speed-ups near 1 is 0; else between the last loss and the first gain."""
    lost = max((x for x, speedup in points if speedup <= 1), default=None)
    won = min((x for x, speedup in points if speedup > 1), default=None)
    if lost is None or won is None:
        return None
    middle = math.sqrt(lost * won)
    near = [(math.log(x / middle), math.log(speedup)) for x, speedup in points if abs(math.log(x / middle)) < math.log(NEAR)]
    if len(near) >= 3:
        n, sx, sy = len(near), sum(x for x, _ in near), sum(y for _, y in near)
        bottom = n * sum(x * x for x, _ in near) - sx * sx
        slope = (n * sum(x * y for x, y in near) - sx * sy) / bottom if bottom > 0 else 0
        at = (sx - sy / slope) / n if slope > 0 else math.inf
        if abs(at) < math.log(NEAR):
            return middle * math.exp(at)
    return middle


def find_crossing(speedup_at, start, snap, least):
    """Speed-ups that grow with x: a bracket about `start`, then halves of it (of logarithms), then once more around what was found."""
    points, low, high = [], None, None
    x = snap(start)
    try:
        for _ in range(12):
            points.append((x, speedup_at(x)))
            low = max((a for a, s in points if s <= 1), default=None)
            high = min((a for a, s in points if s > 1), default=None)
            if low is None and high <= least:
                break
            if low is None or high is None or low > high:
                following = snap(high / 2 if low is None else low * 2 if high is None else math.sqrt(low * high))
            elif high / low < 1.12:
                break
            else:
                following = snap(math.sqrt(low * high))
            if following in [a for a, _ in points]:
                break
            x = following
        found = cross_of(points)
        for factor in (0.8, 1.25, 1) if found else ():
            points.append((snap(found * factor), speedup_at(snap(found * factor))))
    except OutOfTime:
        say("time is up: the crossover is from fewer points")
    return points


def bandwidth_crossing(lab, workers):
    batches, x = [CROSS_BATCH // 2, CROSS_BATCH], 100.0
    if workers > CROSS_BATCH // 2:
        batches = [workers, 2 * workers]
    batch, predicted, fitted = batches[1], None, None
    for attempt in range(3):
        fitted = lab.scale("lenet", [workers], batches, f"{CROSS_LATENCY},{x:.4g}Mbit")
        predicted = next(c for c in fitted["crossovers"] if c["workers"] == workers)["bandwidth"]
        rate = 8e-6 * predicted["bytes_per_s"] if predicted else 0
        if predicted is None or 2.5 < rate / x < 8 or attempt == 2:
            break
        x = rate / 4
    if predicted is None:
        say(f"{workers} workers: no bandwidth is predicted to be enough with batch {batch} and {CROSS_LATENCY}")
        return None
    points = find_crossing(lambda at: row_of(lab.scale("lenet", [workers], [batch], f"{CROSS_LATENCY},{at:.4g}Mbit"), workers, batch)["speedup"],
                           rate, lambda at: float(f"{at:.3g}"), 0)
    xs = [at for at, _ in points]
    return {"kind": "bandwidth", "workers": workers, "batch": batch, "link": CROSS_LATENCY, "fit": f"{CROSS_LATENCY},{x:.4g}Mbit",
            "predicted": rate, "low": 8e-6 * predicted["low"], "high": 8e-6 * predicted["high"], "measured": cross_of(points), "points": points,
            "line": rate_line(fitted, workers, batch, x, spread(min(xs + [rate]) / 1.5, max(xs + [rate]) * 1.5))}


def batch_crossing(lab, workers):
    link = CROSS_LINKS.get(workers, CROSS_LINK)

    def snap(batch):
        return max(workers, workers * round(batch / workers))

    batches = [snap(max(16, workers)), snap(max(512, 16 * workers))]
    for attempt in range(3):
        fitted = lab.scale("lenet", [workers], batches, link)
        guess = next(c for c in fitted["crossovers"] if c["workers"] == workers)
        predicted = guess["global_batch"]
        if predicted is None or predicted <= workers or attempt == 2:
            break
        if 2.5 < predicted / batches[0] and 2.5 < batches[-1] / predicted < 8:
            break
        batches = sorted({snap(predicted / 4), snap(predicted * 4)})
    if predicted is None:
        say(f"{workers} workers: no batch is predicted to be enough over {link}")
        return None
    points = find_crossing(lambda at: row_of(lab.scale("lenet", [workers], [at], link), workers, at)["speedup"], predicted, snap, workers)
    xs = [at for at, _ in points]
    kinds = row_of(fitted, workers, batches[0])["kinds"]
    measured = cross_of(points)
    return {"kind": "batch", "workers": workers, "link": link, "fit": f"batches {batches[0]} and {batches[-1]}", "predicted": predicted,
            "low": guess["low"], "high": guess["high"], "measured": measured and workers * math.ceil(measured / workers), "points": points,
            "line": batch_line(fitted, workers, kinds, spread(min(xs + [predicted]) / 1.5, max(xs + [predicted]) * 1.5))}


# ---- parts -----------------------------------------------------------------------------------------------------------


def ladder(lab, model, counts, batches, steps=None):
    """Numbers of workers that are predicted from the others are measured after them."""
    most = max(2, counts[-1] // 4)
    first = lab.scale(model, [w for w in counts if w <= most], batches, steps=steps, tries=2 if steps else 1)
    rest = [w for w in counts if w > most]
    rows = first["measured"]
    if rest:
        later = lab.scale(model, rest, batches, steps=steps)
        rows = rows + [p for p in later["measured"] if p["workers"] > 1]
    return {"batches": batches, "parameters": first["parameters"], "rows": rows, "predicted": first["predicted"], "fit": first["fit"],
            "crossovers": first["crossovers"], "why": first["why"], "limit": first["limit"], "noise": first["noise_scale_sequences"],
            "disturbed": first["disturbed"]}


def resnet_steps(lab, counts, batches, share):
    """As many steps as fit into a share of the time that is left, from how long one image takes."""
    probe = lab.once("resnet18", [1], batches[:1], None, 4)
    image = row_of(probe, 1, batches[0])["step_s"] / batches[0]
    each = sum(image * b / w for w in counts for b in batches) + len(counts) * image * batches[0]
    each += image * sum(batches) if counts[-1] > 2 else 0
    return max(4, min(14, int(share * lab.left() / each)))


def smallest(lab, counts):
    out = []
    for workers in counts[1:]:
        batches = [workers, 2 * workers, 4 * workers]
        found = lab.scale("lenet", [workers], batches)
        guess = next(c for c in found["crossovers"] if c["workers"] == workers)
        out.append({"workers": workers, "predicted": guess["global_batch"],
                    "speedups": [(b, row_of(found, workers, b)["speedup"]) for b in batches]})
    return out


def links(lab, ladders, steps, out):
    """Into a list, so that what was measured stays when time is up."""
    for model in ladders:
        batches = ladders[model]["batches"][:None if model == "lenet" else 1]
        for link in [None] + LINKS[model]:
            rows = ladders[model]["rows"] if link is None else \
                lab.scale(model, [2], batches, link, steps if model == "resnet18" else None)["measured"]
            out += [{"model": model, "batch": batch, "link": link, **p} for batch in batches for p in rows
                    if p["workers"] == 2 and p["global_batch"] == batch]


def experiment(lab, cores):
    counts = [1, 2] + [w for w in (4, 8, 16, 32, 64) if w <= cores]
    result = {"cores": cores, "machine": platform.machine(), "cpu": cpu_name(), "seconds": lab.seconds, "models": {}, "smallest": [], "crossings": [],
              "links": []}
    batches = [max(16, 2 * counts[-1]), max(64, 4 * counts[-1])]

    def crossings(workers):
        for find in (bandwidth_crossing, batch_crossing):
            found = find(lab, workers)
            result["crossings"] += [found] if found else []

    try:
        result["models"]["lenet"] = ladder(lab, "lenet", counts, LENET_BATCHES)
        result["smallest"] = smallest(lab, counts)
        crossings(2)
        steps = resnet_steps(lab, counts, batches, 0.5 if counts[-1] == 2 else 0.4)
        result["models"]["resnet18"] = ladder(lab, "resnet18", counts, batches, steps)
        if counts[-1] > 2:
            crossings(counts[-1])
        links(lab, result["models"], min(steps, 6), result["links"])
    except OutOfTime:
        say("time is up: the rest is left out (--seconds)")
    result["links"].sort(key=lambda p: (p["model"], p["batch"]))
    result["disturbed"] = lab.worst
    return result


def cpu_name():
    try:
        lines = subprocess.run(["lscpu"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=10).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        lines = []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("Model name")), platform.machine())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0, help="in all; what does not fit is left out; default 300, with --quick 12")
    parser.add_argument("--out", default=os.path.join(HERE, "..", "docs", "explain"))
    parser.add_argument("--name", help="of the result; processor and number of cores if not given, such as x86_64-16")
    parser.add_argument("--draw", action="store_true", help="only the page, from the results that are there")
    parser.add_argument("--lockstep", default="./lockstep")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    args.seconds = args.seconds or (12 if args.quick else 300)
    return args


def main():
    args = arguments()
    folder = os.path.join(args.out, "compute-to-sync")
    os.makedirs(folder, exist_ok=True)
    missed = 0
    if not args.draw:
        cores = len(os.sched_getaffinity(0))
        result = experiment(Lab(args), cores)
        with open(os.path.join(folder, f"{args.name or f'{platform.machine()}-{cores}'}.json"), "w", encoding="utf-8") as file:
            json.dump(ratio_page.rounded(result), file, indent=1)
            file.write("\n")
        for crossing in result["crossings"]:
            apart = ratio_page.apart(crossing)
            missed += apart is not None and abs(apart) > ratio_page.PROMISE
            print(f"{crossing['kind']} from which on {crossing['workers']} workers beat one: predicted {crossing['predicted']:.4g}, measured "
                  f"{crossing['measured'] or math.nan:.4g}" + ("" if apart is None else f" ({100 * apart:+.0f} %)"))
    ratio_page.write(args.out, folder)
    print(f"experiment-ratio: {missed} crossovers predicted worse than by {100 * ratio_page.PROMISE:.0f} %" if missed else "experiment-ratio: done")
    sys.exit(1 if missed and not args.quick else 0)


if __name__ == "__main__":
    main()
