#!/usr/bin/env python3
"""drift_picture.py: the picture of the README, from what the program measures.

    ./lockstep verify --order --lr 0.01 --json | tools/drift_picture.py >docs/img/drift.svg

One model is trained with the same data, kernels and optimizer; only the order differs in which the gradients of its
groups are added (docs/verify.md). A curve is the difference of the loss from that of the run it is compared with.
"""
import json
import math
import sys

WIDTH, HEIGHT = 960, 400
LEFT, RIGHT, TOP, BOTTOM = 78, 600, 84, 318  # of the curves
ZERO = 346  # the line of differences that are 0
LOW, HIGH = -9, 0  # powers of ten

KINDS = {  # light and dark
    "half": ("#8250df", "#ab7df8"),
    "ring": ("#0969da", "#4493f8"),
    "twice": ("#bc4c00", "#f0883e"),
    "same": ("#1a7f37", "#3fb950"),
}


def style():
    def colours(shade):
        return "".join(f"path.{kind}{{stroke:{c[shade]}}}text.{kind}{{fill:{c[shade]}}}" for kind, c in KINDS.items())

    return (
        "text{fill:#24292f;font-family:-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}text.s{fill:#57606a}"
        "path{fill:none;stroke-linejoin:round}.g{stroke:#d8dee4}.c{fill:#fff;stroke:#d0d7de}"
        f"{colours(0)}@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}text.s{{fill:#8d96a0}}.g{{stroke:#30363d}}"
        f".c{{fill:#0d1117;stroke:#30363d}}{colours(1)}}}"
    )


def losses(row):
    return [float.fromhex(value) for value in row["loss_hex"]]


def curve(a, b):
    return [abs(x - y) for x, y in zip(losses(a), losses(b))]


def path(values, kind, width):
    points = []
    for i, value in enumerate(values):
        x = LEFT + (RIGHT - LEFT) * i / (len(values) - 1)
        share = (math.log10(value) - LOW) / (HIGH - LOW) if value > 10**LOW else None
        y = ZERO if share is None else BOTTOM - (BOTTOM - TOP) * min(share, 1)
        points.append(f"{x:.1f} {y:.1f}")
    return f'<path class="{kind}" stroke-width="{width}" d="M{"L".join(points)}"/>'


def label(y, kind, head, tail):
    return (
        f'<text x="{RIGHT + 22}" y="{y}" class="{kind}" font-size="15" font-weight="600">{head}</text>'
        f'<text x="{RIGHT + 22}" y="{y + 19}" class="s" font-size="13">{tail}</text>'
    )


def main():
    model = next(m for m in json.load(sys.stdin)["models"] if m["model"] == "verify-gpt2")
    rows = {row["sum"]: row for row in model["sums"]}
    steps = model["steps"]
    ring = [curve(rows[f"ring, {n} workers"], rows["ring, 1 worker"]) for n in (2, 4, 8)]
    half = [curve(rows[f"ring, bf16, {n} workers"], rows["ring, bf16, 1 worker"]) for n in (2, 4, 8)]
    twice = curve(rows["arrival, run 2"], rows["arrival, run 1"])
    same = [curve(rows[f"lockstep, {n} workers"], rows["lockstep, 1 worker"]) for n in (2, 4, 8)]
    assert not any(map(any, same)), "lockstep's own losses depend on the number of workers"
    hashes = {rows[name]["weights_xxh128"] for name in rows if name.startswith("lockstep")}
    assert len(hashes) == 1, "lockstep's own weights depend on the number of workers"

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f"<style>{style()}</style>",
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8" class="c"/>',
        '<text x="24" y="34" font-size="19" font-weight="600">The same training run on other numbers of workers</text>',
        '<text x="24" y="57" class="s" font-size="14">How far the loss moves when only the order of a gradient sum changes: '
        "same data, model, kernels and optimizer</text>",
    ]
    for power in range(LOW, HIGH + 1, 2):
        y = BOTTOM - (BOTTOM - TOP) * (power - LOW) / (HIGH - LOW)
        out.append(
            f'<path class="g" d="M{LEFT} {y:.1f}H{RIGHT}"/><text x="{LEFT - 10}" y="{y + 4:.1f}" class="s" font-size="12" '
            f'text-anchor="end">10<tspan dy="-5" font-size="9">{str(power).replace("-", "−")}</tspan></text>'
        )
    out.append(f'<text x="{LEFT - 10}" y="{ZERO + 4}" class="s" font-size="12" text-anchor="end">0</text>')
    for step in [1] + list(range(10, steps + 1, 10)):
        x = LEFT + (RIGHT - LEFT) * (step - 1) / (steps - 1)
        anchor = f'<text x="{x:.1f}" y="{ZERO + 26}" class="s" font-size="12" text-anchor="middle">'
        out.append(anchor + (f"step {step}" if step == 1 else str(step)) + "</text>")
    out += [path(values, "half", 1.4) for values in half] + [path(values, "ring", 1.4) for values in ring]
    out += [path(twice, "twice", 1.4), path([0] * steps, "same", 5)]
    out += [
        label(104, "half", "ring all-reduce in bf16", "2, 4, 8 workers against one"),
        label(162, "ring", "ring all-reduce in fp32", "2, 4, 8 workers against one"),
        label(220, "twice", "sum in order of arrival", "the same run, started twice"),
        label(340, "same", "lockstep", "1, 2, 4, 8 workers: no difference, in any bit"),
        "</svg>",
    ]
    print("\n".join(out))


if __name__ == "__main__":
    main()
