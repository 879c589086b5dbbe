"""ratio.py FOLDER: bench/ratio.py on a laboratory whose times are known: it must find the crossovers that these have, and draw."""
import json
import math
import os
import random
import sys

REPO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(REPO, "bench"))
import ratio  # noqa: E402
import ratio_page  # noqa: E402

IMAGE = {"lenet": 2e-4, "resnet18": 3e-2}
PARAMETERS = {"lenet": 61706, "resnet18": 11183562}
MESSAGES = {"reduce-scatter": 5, "all-reduce": 7, "all-gather": 6}
OVERHEAD = 4e-5
BIAS = 1.1  # of predicted bandwidths


def link_of(text):
    """Seconds a message and seconds a byte."""
    message, byte = 1e-6, 1 / 3e10
    for piece in (text or "").split(","):
        for unit, scale in (("us", 1e-6), ("ms", 1e-3)):
            message += float(piece[:-2]) * scale if piece.endswith(unit) else 0
        for unit, scale in (("Mbit", 1e6), ("Gbit", 1e9)):
            byte += 8 / (float(piece[:-4]) * scale) if piece.endswith(unit) else 0
    return message, byte


def traffic(model, workers):
    """Bytes by kind."""
    each = 4 * PARAMETERS[model] * (workers - 1) / workers
    return {"reduce-scatter": each, "all-reduce": 1000, "all-gather": each}


def step_of(model, workers, batch, link):
    message, byte = link_of(link)
    sync = sum(message * MESSAGES[kind] + byte * size for kind, size in traffic(model, workers).items()) if workers > 1 else 0
    return IMAGE[model] * math.ceil(batch / workers), sync


def seconds_of(*size):
    return sum(step_of(*size)) + OVERHEAD


def point(model, workers, batch, link, wobble=1.0):
    compute, sync = step_of(model, workers, batch, link)
    step = compute * wobble + sync + OVERHEAD
    speedup = seconds_of(model, 1, batch, link) / step
    kinds = {kind: {"messages": MESSAGES[kind], "bytes": size} for kind, size in traffic(model, workers).items()} if workers > 1 else {}
    return {"workers": workers, "global_batch": batch, "step_s": step, "low_s": step * 0.98, "high_s": step * 1.02, "compute_s": compute * wobble,
            "sync_s": sync, "idle_s": 0.0, "overhead_s": OVERHEAD, "hidden_s": 0.0, "queued_s": 0.0, "crowded": False, "kinds": kinds, "speedup": speedup,
            "efficiency": speedup / workers, "weak_efficiency": None, "compute_to_sync": compute / sync if sync else None}


def first_batch(model, workers, link):
    return next((b for b in range(workers, 100000, workers) if seconds_of(model, workers, b, link) < seconds_of(model, 1, b, link)), None)


def first_rate(model, workers, batch, latency):
    """Mbit/s; by halving."""
    low, high = 1.0, 1e6
    for _ in range(60):
        middle = math.sqrt(low * high)
        wins = seconds_of(model, workers, batch, f"{latency},{middle}Mbit") < seconds_of(model, 1, batch, None)
        low, high = (low, middle) if wins else (middle, high)
    return high


class Lab(ratio.Lab):
    def __init__(self):
        self.seconds, self.worst, self.chance = 300, 0.0, random.Random(1)

    def left(self):
        return 300

    def once(self, model, workers, batches, link, steps):
        counts = sorted({1, *workers})
        sizes = sorted({(w, b) for w in counts for b in [*batches, batches[0] * w]})
        message, byte = link_of(link)
        latency = (link or "").split(",")[0]
        crossovers = []
        for w in counts[1:]:
            rate = first_rate(model, w, batches[-1], latency) * BIAS / 8e-6 if "bit" in (link or "") else None
            batch = first_batch(model, w, link)
            crossovers.append({"workers": w, "global_batch": batch, "low": batch, "high": batch,
                               "bandwidth": rate and {"bytes_per_s": rate, "low": rate, "high": rate}})
        fit = {"sequence_s": IMAGE[model], "contended_s": 0, "shared_s": 0, "fixed_s": 0, "overhead_s": OVERHEAD, "overhead_sequence_s": 0,
               "message_s": message, "byte_s": byte, "hides": 0, "idle": 0}
        return {"measured": [point(model, w, b, link, self.chance.gauss(1, 0.01)) for w, b in sizes], "fit": fit, "crossovers": crossovers,
                "predicted": [point(model, counts[-1] * more, b, link) for more in (2, 4) for b in batches],
                "parameters": PARAMETERS[model], "why": "Why.", "limit": "Limit.", "noise_scale_sequences": 40.0}


def main():
    out = sys.argv[1]
    folder = os.path.join(out, "compute-to-sync")
    os.makedirs(folder)
    for cores in (2, 16):
        result = ratio.experiment(Lab(), cores)
        assert [c["kind"] for c in result["crossings"]] == ["bandwidth", "batch"] * (1 if cores == 2 else 2), result["crossings"]
        for c in result["crossings"]:
            truth = first_batch("lenet", c["workers"], c["link"]) if c["kind"] == "batch" else first_rate("lenet", c["workers"], c["batch"], c["link"])
            error = c["measured"] / truth - 1
            assert abs(error) < 0.08, f"{c['kind']}, {c['workers']} workers: {c['measured']} is measured, and {truth} is true"
            far = ratio_page.apart(c)
            assert c["kind"] == "batch" or abs(far - (BIAS - 1)) < 0.08, f"{far} apart"
            at, _ = min(c["line"], key=lambda point: abs(math.log(point[1])))
            assert abs(math.log(at / truth)) < 0.15, f"the predicted line passes 1 at {at}, not at {truth}"
        with open(os.path.join(folder, f"{cores}.json"), "w", encoding="utf-8") as file:
            json.dump(ratio_page.rounded(result), file)
    ratio_page.write(out, folder)
    with open(os.path.join(out, "compute-to-sync.md"), encoding="utf-8") as file:
        page = file.read()
    for text in ("## 2 cores", "## 16 cores", "| 16 cores | 16 | batch over", "| 2 cores | ResNet-18 |", "below"):
        assert text in page, f"no {text} in the page"
    pictures = sorted(name for name in os.listdir(folder) if name.endswith(".svg"))
    assert len(pictures) == 6 and all(f"(compute-to-sync/{name})" in page for name in pictures), pictures
    print("both machines are in the page, and their crossovers are those of the truth")


if __name__ == "__main__":
    main()
