"""openmetrics.py: a parser of Prometheus (prometheus-client) reads /metrics of a run at work, and of several runs.

It accepts every line; names, types and units are as OpenMetrics wants them; each value is that of metrics.jsonl. LOCKSTEP names the program.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as families_of
except ImportError as error:
    print(f"{sys.executable} lacks prometheus-client: {error}")
    sys.exit(77)

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")
CONTENT = "application/openmetrics-text; version=1.0.0; charset=utf-8"
UNITS = {"lockstep_mfu_ratio": "ratio", "lockstep_step_seconds": "seconds", "lockstep_memory_bytes": "bytes",
         "lockstep_gpu_memory_bytes": "bytes"}


def start(*argv):
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen([str(a) for a in argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        log.seek(0)
        found = re.search(r"^page +(http://\S+/)$", log.read(), re.M)
        if found:
            return process, found[1]
        time.sleep(0.05)
    log.seek(0)
    raise AssertionError("no page: " + log.read())


def scrape(page):
    """Values by name and run, as the parser has them."""
    with urllib.request.urlopen(page + "metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"] == CONTENT, answer.headers["Content-Type"]
        text = answer.read().decode()
    assert text.endswith("# EOF\n")
    values, names = {}, []
    for family in families_of(text):
        names.append(family.name)
        assert re.fullmatch(r"lockstep_[a-z_]+", family.name), family.name
        assert family.documentation.endswith("."), family.name
        assert family.unit == UNITS.get(family.name, ""), (family.name, family.unit)
        assert family.type == ("counter" if family.name == "lockstep_steps" else "gauge"), family.name
        for sample in family.samples:
            assert (sample.name == family.name + "_total") == (family.type == "counter"), sample.name
            assert set(sample.labels) == {"run", "id"} and re.fullmatch("[0-9a-f]{16}", sample.labels["id"]), sample.labels
            values[sample.name, sample.labels["run"]] = sample.value
    assert len(names) == len(set(names)) and "lockstep_loss" in names
    return values


def lines(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines() if line.endswith("}")]


def check(values, run, training):
    """Against what the run has recorded; of one at work, against one of its last steps."""
    name, all_lines = run.name, lines(run)
    steps = {line["step"]: line for line in all_lines if "loss" in line}
    step = int(values["lockstep_step", name])
    line = steps[step]
    assert training or step == max(steps)
    assert values["lockstep_training", name] == training
    assert values["lockstep_steps_total", name] == step
    for member, family in (("loss", "loss"), ("lr", "learning_rate"), ("norm", "gradient_norm")):
        assert values["lockstep_" + family, name] == line[member], (name, family)
    memory = [line["memory_bytes"] for s, line in sorted(steps.items()) if s <= step and "memory_bytes" in line]
    assert memory and values["lockstep_memory_bytes", name] == memory[-1], name
    validations = [line["val_loss"] for line in all_lines if "val_loss" in line and line["step"] <= step]
    if validations and not training:
        assert values["lockstep_validation_loss", name] == validations[-1], name
    times = sorted(line["ms"] / 1e3 for s, line in sorted(steps.items()) if step - 100 < s <= step)
    low, high = times[(len(times) - 1) // 2], times[len(times) // 2]
    assert abs(values["lockstep_step_seconds", name] - (low + high) / 2) <= 1e-12, name


def main():
    count = 0
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch) / "runs"
        text = Path(scratch) / "text.txt"
        text.write_text("It was the best of times, it was the worst of times; it was the age of wisdom.\n" * 400)
        common = [LOCKSTEP, "train", "--model", "tiny", "--data", text, "--seq", "16", "--global-batch", "4", "--threads", "1", "--eval-every", "10"]
        odd = 'with "quotes", \\ and a comma'
        for name, steps in (("first", 60), (odd, 130)):
            subprocess.run([str(a) for a in [*common, "--steps", steps, "--out", runs / name]], check=True, stdout=subprocess.DEVNULL)
        living, page = start(*common, "--steps", "1000000", "--out", runs / "living", "--live", "0")
        watch, all_page = start(LOCKSTEP, "watch", runs, "--live", "0")
        try:
            while not ((runs / "living" / "metrics.jsonl").exists() and len(lines(runs / "living")) > 5):
                time.sleep(0.1)
            for _ in range(3):
                values = scrape(page)
                assert {run for _, run in values} == {"living"}
                check(values, runs / "living", True)
                count += len(values)
                time.sleep(1)
            values = scrape(all_page)
            assert {run for _, run in values} == {"living", "first", odd}, {run for _, run in values}
            for name in ("first", odd):
                check(values, runs / name, False)
            check(values, runs / "living", True)
            count += len(values)
        finally:
            for process in (living, watch):
                process.terminate()
                process.wait(60)
    print(f"{count} values of a run at work and of three runs, as recorded")


main()
