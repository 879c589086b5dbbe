"""chart.py: charts of results, drawn by the program's own drawer (tools/chart.c).

A curve is a dict: name, series (its colour; None: a line to compare with), points [(x, y), …] and, where they are true,
dashed, dots and loose (dots alone)."""
import json
import os
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DRAWER = os.path.join(os.environ.get("BUILD", os.path.join(ROOT, "build")), "tools", "chart")


def axis(name, unit="number", log=False, **more):
    return {"name": name, "unit": unit, "log": log, **more}


def write(path, charts):
    """Each of (title, x axis, y axis, curves), one below the other."""
    fields = [dict(zip(("title", "x", "y", "curves"), chart)) for chart in charts]
    subprocess.run([DRAWER, path], input=json.dumps({"charts": fields}), text=True, check=True)


def draw(path, title, ours, theirs, ours_val, theirs_val):
    """Curves that ought to be one, each a dict of losses by step: their values, then how far they are apart."""
    curves = [
        {"name": "lockstep", "series": 0, "points": sorted(ours.items())},
        {"name": "PyTorch", "series": 1, "dashed": True, "points": sorted(theirs.items())},
        {"name": "validation", "series": 2, "loose": True, "points": sorted(ours_val.items())},
    ]
    apart, val_apart = ([(step, abs(a[step] - b[step]) / b[step]) for step in sorted(a)] for a, b in ((ours, theirs), (ours_val, theirs_val)))
    write(path, [
        (title, axis("step", "whole"), axis("nats per byte"), curves),
        ("Difference of the losses", axis("step", "whole"), axis("relative", zero=True),
         [{"name": "training", "series": 0, "points": apart}, {"name": "validation", "series": 2, "loose": True, "points": val_apart}]),
    ])


def draw_against(path, title, unit, curves, most):
    """Curves (name, values by step), then by how much each is above the first, up to `most` per cent."""
    base = curves[0][1]
    shown = [{"name": name, "series": i, "points": sorted(found.items())} for i, (name, found) in enumerate(curves)]
    above = [{"name": name, "series": i, "points": [(step, found[step] / base[step] - 1) for step in sorted(found) if step in base]}
             for i, (name, found) in enumerate(curves)]
    write(path, [
        (f"{title}: validation loss", axis("step", "whole"), axis(unit), shown),
        (f"Above {curves[0][0]}", axis("step", "whole"), axis("validation loss", "share", most=most / 100), above),
    ])
