"""ratio_page.py: the page and the charts of ratio.py, from the results of all machines."""
import glob
import json
import os
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "parity"))
import chart  # noqa: E402

PROMISE = 0.2  # a crossover is predicted within this share of the measured one
BUSY = 0.05
WIDEST = 150
TITLES = {"lenet": "LeNet", "resnet18": "ResNet-18"}

PAGE = """# Compute to synchronisation

Do more workers help? It depends on what a step computes for each byte and each message that workers must exchange. The textbook says that a light model
such as LeNet gains nothing from more workers and that ResNet-18 does. This page compares measurements with the predictions of
[`lockstep scale`](../reference/scaling.md), for each machine on which `make experiment-ratio` ran. `bench/ratio.py` generates it from the results in
`compute-to-sync/`.
"""

FOOT = """
## How it was measured

`make experiment-ratio` (python3 and the built program; `EXPERIMENT_ARGS="--seconds 240"` bounds it; a run on another machine adds its results to the page).
Workers are data parallel (`--zero 1`) with one thread each, on the built-in drawings: LeNet sees 1 × 28 × 28 pixels, ResNet-18 3 × 32 × 32. Sizes of one
measurement alternate in three rounds (few, long steps: one), and the faster half of the steps counts. Time in which a worker was runnable without a core is
recorded: steps without it are preferred, and a result with more than {busy:.0f} % of it says so.

*compute / sync* is time in forward, backward and optimizer over time in collectives, overlapped or not. *Speed-up* is against one worker with the same batch.
Links are emulated (`--slow-link`, [`workers.md`](workers.md)): only time changes. A slow link shows the effect of a network on a step, but not the CPU time
of its driver.

A crossover is *predicted* by a fit to points far from it: bandwidths from one link about a quarter as fast, batches from a quarter of the batch and
four times it. It is *measured* by halving, and by a line through the logarithms of the speed-ups within a factor of 1.7 of it. In brackets is the
band of `scale`: synchronising and idling less and more by twice the error of their fit.
"""


def rounded(value):
    """Six digits: files of results are read by people too."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return value


def apart(crossing):
    return crossing["predicted"] / crossing["measured"] - 1 if crossing["measured"] else None


def name_of(result):
    return f"{result['cores']} cores ({result['cpu']})"


def ms(seconds):
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def factor(value):
    return f"{value:.2f}" if value else "–"


def wrapped(lines):
    """Tables and what is short stay as they are."""
    for line in lines:
        short = len(line) <= WIDEST or line.startswith("|") or "\n" in line
        yield line if short else "\n".join(textwrap.wrap(line, WIDEST, subsequent_indent="  " if line.startswith("- ") else "", break_long_words=False,
                                                        break_on_hyphens=False))


def unit_of(crossing, value):
    if value is None:
        return "–"
    return f"{value:.3g} Mbit/s" if crossing["kind"] == "bandwidth" else f"{value:.0f} images"


def strong_rows(model):
    return [p for p in model["rows"] if p["global_batch"] in model["batches"]]


# ---- charts ----------------------------------------------------------------------------------------------------------


def draw_speedups(path, result):
    curves = []
    for model, found in result["models"].items():
        for batch in found["batches"]:
            measured = [(p["workers"], p["speedup"]) for p in found["rows"] if p["global_batch"] == batch and p["speedup"]]
            known = max(2, max(w for w, _ in measured) // 4)
            predicted = [(p["workers"], p["speedup"]) for p in found["predicted"] if p["global_batch"] == batch and p["speedup"]]
            start = [point for point in measured if point[0] <= known][-1:]
            curves.append((f"{TITLES[model]}, batch {batch}", measured, start + predicted))
    most = max(w for _, measured, predicted in curves for w, _ in measured + predicted)
    lines = [{"name": "ideal", "series": None, "points": [(1, 1), (most, most)]}]
    for i, (name, measured, predicted) in enumerate(curves):
        lines.append({"series": i, "dashed": True, "points": predicted})
        lines.append({"name": name, "series": i, "dots": True, "points": measured})
    chart.write(path, [(f"Speed-up over one worker, shared memory, {name_of(result)}", chart.axis("workers; dashed: predicted", "doubles", True),
                        chart.axis("", "doubles", True), lines)])


def draw_crossings(path, result, kind):
    found = [c for c in result["crossings"] if c["kind"] == kind and c["points"]]
    if not found:
        return False
    first = found[0]
    title = f"LeNet, batch {first['batch']}, latency {first['link']}" if kind == "bandwidth" else f"LeNet over {first['link']}"
    xs = [x for c in found for x, _ in c["points"] + c["line"]]
    lines = [{"name": "no gain", "series": None, "points": [(min(xs), 1), (max(xs), 1)]}]
    for i, crossing in enumerate(found):
        lines.append({"name": f"{crossing['workers']} workers, predicted", "series": i, "dashed": True, "points": crossing["line"]})
        lines.append({"name": f"{crossing['workers']} workers, measured", "series": i, "loose": True, "points": sorted(crossing["points"])})
    chart.write(path, [(f"{title}: speed-up, {name_of(result)}", chart.axis("Mbit/s of each worker's link" if kind == "bandwidth" else
                        "images in a batch, all workers together", log=True), chart.axis("over one worker", log=True), lines)])
    return True


# ---- words -----------------------------------------------------------------------------------------------------------


def verdict(result):
    """What the measurement decides, sentence by sentence."""
    lines = []
    for model, found in result["models"].items():
        most = max(p["workers"] for p in found["rows"])
        parts = [f"{p['speedup']:.2f}× with batch {p['global_batch']} (compute / sync {p['compute_to_sync']:.3g})"
                 for p in strong_rows(found) if p["workers"] == most]
        gains = all(p["speedup"] > 1 for p in strong_rows(found) if p["workers"] == most)
        lines.append(f"{TITLES[model]} over shared memory {'gains' if gains else 'does not always gain'}: {most} workers are {' and '.join(parts)}.")
    if result["smallest"]:
        speeds = ", ".join(f"{one['workers']} workers are {one['speedups'][0][1]:.2f}×" for one in result["smallest"])
        loses = [one for one in result["smallest"] if one["speedups"][0][1] <= 1]
        lines.append(f"LeNet over shared memory with one image for each worker: {speeds}; " +
                     ("some batches are too small." if loses else "no batch is too small."))
    for crossing in result["crossings"]:
        if not crossing["measured"]:
            always = all(s > 1 for _, s in crossing["points"])
            lines.append(f"LeNet, {crossing['workers']} workers over {crossing['link']}: {'always' if always else 'never'} a gain where it was measured.")
        elif crossing["kind"] == "bandwidth":
            lines.append(f"LeNet with batch {crossing['batch']} stops gaining from {crossing['workers']} workers **below {crossing['measured']:.3g} Mbit/s** "
                         f"(latency {crossing['link']}).")
        else:
            lines.append(f"LeNet over {crossing['link']} stops gaining from {crossing['workers']} workers **below {crossing['measured']:.0f} images** a batch.")
    if result["disturbed"] > BUSY:
        lines.append(f"The machine was busy: other programs had the cores for up to {100 * result['disturbed']:.0f} % of a step. "
                     "These figures are not to be relied on.")
    return [f"- {line}" for line in lines]


def ladder_table(model):
    lines = ["| workers | batch | step, ms | compute | sync | overhead | idle | compute / sync | speed-up | efficiency | weak | predicted speed-up |",
             "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    guesses = {(p["workers"], p["global_batch"]): p for p in model["predicted"]}
    rows = {(p["workers"], p["global_batch"]): p for p in model["rows"]}
    for key in sorted(set(rows) | set(guesses)):
        p, guess = rows.get(key), guesses.get(key)
        if key[1] not in model["batches"] and not p:
            continue
        times = ("step_s", "compute_s", "sync_s", "overhead_s", "idle_s")
        factors = ("compute_to_sync", "speedup", "efficiency", "weak_efficiency")
        text = "– | " * 9 if not p else "".join(f"{ms(p[name])} | " for name in times) + "".join(f"{factor(p[name])} | " for name in factors)
        ahead = "" if not guess or not guess["speedup"] else \
            f"{guess['speedup']:.2f} ({guess['speedup'] * guess['step_s'] / guess['high_s']:.2f} to {guess['speedup'] * guess['step_s'] / guess['low_s']:.2f})"
        lines.append(f"| {key[0]}{' *' if p and p['crowded'] else ''} | {key[1]} | {text}{ahead} |")
    return lines


def crossing_table(results):
    lines = ["| machine | workers | what | predicted | measured | apart |", "|---|--:|---|---|---|--:|"]
    for result in results:
        for c in result["crossings"]:
            what = f"bandwidth, batch {c['batch']}, latency {c['link']}" if c["kind"] == "bandwidth" else f"batch over {c['link']}"
            far = apart(c)
            band = f"{c['low']:.4g} to {c['high']:.4g}" if c["high"] else f"from {c['low']:.4g}"
            lines.append(f"| {result['cores']} cores | {c['workers']} | {what} | {unit_of(c, c['predicted'])} ({band}) | {unit_of(c, c['measured'])} | "
                         f"{'–' if far is None else f'{100 * far:+.0f} %'} |")
    return lines


def link_table(results):
    lines = ["| machine | model | batch | link | step, ms | compute | sync | hidden | compute / sync | speed-up of 2 workers |",
             "|---|---|--:|---|--:|--:|--:|--:|--:|--:|"]
    for result in results:
        for p in result["links"]:
            lines.append(f"| {result['cores']} cores | {TITLES[p['model']]} | {p['batch']} | {p['link'] or 'shared memory'} | {ms(p['step_s'])} | "
                         f"{ms(p['compute_s'])} | {ms(p['sync_s'])} | {ms(p['hidden_s'])} | {factor(p['compute_to_sync'])} | {factor(p['speedup'])} |")
    return lines


def behind(model):
    """Seconds of computing for an image; megabytes and messages of a step, for two workers."""
    batch = model["batches"][-1]
    one, two = (next(p for p in model["rows"] if p["workers"] == workers and p["global_batch"] == batch) for workers in (1, 2))
    kinds = two["kinds"].values()
    return one["compute_s"] / batch, 1e-6 * sum(kind["bytes"] for kind in kinds), sum(kind["messages"] for kind in kinds)


def densities(results):
    """Computing that a byte and a message have behind them, on one worker: why which model minds which link."""
    lines = ["| machine | model | computing for an image | bytes a worker sends and gets | messages | computing of an image for each MB | for each message |",
             "|---|---|--:|--:|--:|--:|--:|"]
    for result in results:
        for name, model in result["models"].items():
            image, megabytes, messages = behind(model)
            lines.append(f"| {result['cores']} cores | {TITLES[name]} | {ms(image)} ms | {megabytes:.3g} MB | {messages:.0f} | {ms(image / megabytes)} ms | "
                         f"{1e6 * image / messages:.0f} µs |")
    return lines


def density_words(results):
    """In how far the textbook is right about bytes, and about messages."""
    lines = ["A model minds latency the more, the less it computes for each message, and bandwidth the more, the less it computes for each byte."]
    for result in results:
        if len(result["models"]) < 2:
            continue
        light, heavy = (behind(result["models"][name]) for name in ("lenet", "resnet18"))
        messages, bytes_of = heavy[0] / heavy[2] / (light[0] / light[2]), heavy[0] / heavy[1] / (light[0] / light[1])
        lines.append(f"On {result['cores']} cores an image of ResNet-18 has {messages:.0f} times as much computing for each message as one of LeNet, and "
                     f"{bytes_of:.2g} times as much for each byte: latency sets them apart, and over a link that has only little bandwidth "
                     f"{'ResNet-18' if bytes_of < 1 else 'LeNet'} needs the larger batch.")
    return lines


def machine_section(out, name, result):
    lines = [f"\n## {name_of(result)}\n"]
    if result["models"]:
        draw_speedups(os.path.join(out, "compute-to-sync", f"{name}-speedup.svg"), result)
        lines += [f"![Speed-up by workers](compute-to-sync/{name}-speedup.svg)", ""]
    for model, found in result["models"].items():
        lines += [f"### {TITLES[model]}, {found['parameters']:,} parameters\n", *ladder_table(found), "",
                  f"`scale` on these: {found['why']} {found['limit']}", ""]
        if any(p["crowded"] for p in found["rows"]):
            lines += ["\\* more workers than cores: they take turns.", ""]
    for kind in ("bandwidth", "batch"):
        if draw_crossings(os.path.join(out, "compute-to-sync", f"{name}-{kind}.svg"), result, kind):
            lines += [f"![Speed-up by {kind}](compute-to-sync/{name}-{kind}.svg)", ""]
    return lines


def sections(results):
    return ["## Where more workers begin to help\n", *crossing_table(results), "",
            "## Why: what a byte and a message have behind them\n",
            "Bytes and messages are those of a worker and a step, with two workers.\n", *densities(results), "", *density_words(results), "",
            *(["## Two workers over slow links\n", *link_table(results)] if any(result["links"] for result in results) else [])]


def write(out, folder):
    results = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path, encoding="utf-8") as file:
            results[os.path.basename(path)[:-5]] = json.load(file)
    os.makedirs(os.path.join(out, "compute-to-sync"), exist_ok=True)
    named = sorted(results.items(), key=lambda item: (item[1]["cores"], item[0]))
    ordered = [result for _, result in named]
    lines = [PAGE, "## What the measurement decides\n"]
    if not results:
        lines.append("No machine has been measured yet.")
    for result in ordered:
        lines += [f"{name_of(result)}:\n", *verdict(result), ""]
    lines += sections(ordered) if results else []
    for name, result in named:
        lines += machine_section(out, name, result)
    with open(os.path.join(out, "compute-to-sync.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(wrapped(lines)) + "\n" + FOOT.format(busy=100 * BUSY))
