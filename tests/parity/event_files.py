"""event_files.py: TensorBoard itself reads the event files of a run that was stopped, resumed, recovered and forked.

Every scalar of metrics.jsonl is there with its value, once, in one curve, and nothing else is. LOCKSTEP names the program.
"""
import json
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"{sys.executable} lacks tensorboard: {error}")
    sys.exit(77)

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")
STEPS = ("loss", "norm", "lr", "ms", "tokens_per_s", "mfu", "gpu_wait_ms", "memory_bytes", "gpu_memory_bytes", "scale")
VALIDATIONS = ("val_loss", "val_accuracy")


def as_float(value):
    """A number of metrics.jsonl as TensorBoard keeps it."""
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def lines(run):
    """All lines of a run, its files in their order."""
    for path in sorted(run.glob("metrics-*.jsonl")) + [run / "metrics.jsonl"]:
        for line in path.read_text().splitlines():
            yield json.loads(line)


def expected(run):
    curves, samples = {}, {}
    parent = run / "parent.json"
    if parent.exists():
        about = json.loads(parent.read_text())
        curves, samples = expected(Path(about["path"]))
        for curve in (*curves.values(), samples):
            for step in [s for s in curve if s > about["step"]]:
                del curve[step]
    for line in lines(run):
        names = STEPS if "loss" in line else VALIDATIONS if "val_loss" in line else ()
        for name in names:
            if name in line:
                tag = f"train/{name}" if names is STEPS else f"validation/{name[4:]}"
                curves.setdefault(tag, {})[line["step"]] = as_float(line[name])
        if names is VALIDATIONS:
            curves.setdefault("validation/ms", {})[line["step"]] = as_float(line["ms"])
        if "sample" in line:
            samples[line["step"]] = line["sample"]
    return curves, samples


def shown(text):
    """A text without what could control a terminal."""
    return "".join("?" if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160) else c for c in text)


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def check(run, board, name):
    curves, samples = expected(run)
    events = EventAccumulator(str(board), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert tags == set(curves), f"{name}: {tags ^ set(curves)}"
    count = 0
    for tag, curve in curves.items():
        got = [(e.step, e.value) for e in events.Scalars(tag)]
        assert [s for s, _ in got] == sorted(curve), f"{name}: the steps of {tag} are {[s for s, _ in got]}"
        for step, value in got:
            assert same(value, curve[step]), f"{name}: {tag} of step {step} is {value}, not {curve[step]}"
            count += 1
    texts = {e.step: e.tensor_proto.string_val[0].decode() for e in events.Tensors("sample")} if samples else {}
    assert set(texts) == set(samples), f"{name}: samples of steps {sorted(texts)}"
    for step, text in texts.items():
        assert text.replace("\n    ", "\n").removeprefix("    ") == shown(samples[step]), f"{name}: sample of step {step}: {text!r}"
    assert count > 0
    print(f"{name}: {len(curves)} curves, {count} scalars, {len(texts)} samples")


def steps_done(run):
    try:
        return sum('"loss_hex"' in line for line in (run / "metrics.jsonl").read_text().splitlines())
    except FileNotFoundError:
        return 0


def main():
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        text = scratch / "text.txt"
        text.write_text("It was the best of times, it was the worst of times; <b>it</b> was the age of wisdom.\n" * 400)
        run, fork = scratch / "run", scratch / "fork"
        common = [LOCKSTEP, "train", "--model", "tiny", "--data", text, "--seq", "16", "--global-batch", "4", "--steps", "40",
                  "--save-every", "7", "--eval-every", "5", "--eval-batches", "1", "--sample-every", "8", "--max-tokens", "8",
                  "--out", run, "--tensorboard"]
        # Killed behind a checkpoint: the steps after it are done again.
        first = subprocess.Popen([*map(str, common)], stdout=subprocess.DEVNULL)
        while first.poll() is None and steps_done(run) < 12:
            time.sleep(0.02)
        first.send_signal(signal.SIGKILL)
        first.wait()
        subprocess.run([LOCKSTEP, "train", "--resume", "--out", run, "--tensorboard"], check=True, stdout=subprocess.DEVNULL)
        check(run, run / "tensorboard", "killed and resumed")
        subprocess.run([LOCKSTEP, "train", "--fork", run, "--out", fork, "--steps", "50", "--lr", "1e-4",
                        "--tensorboard", scratch / "board"], check=True, stdout=subprocess.DEVNULL)
        check(fork, scratch / "board", "forked")
        # A worker is lost: the run goes on by itself, and so does the curve.
        lost = scratch / "lost"
        environment = dict(os.environ, LS_FAULT_POINT="forward:1:9:0")
        subprocess.run([*map(str, common[:-3]), "--out", lost, "--dp", "2", "--tensorboard"], check=True, env=environment,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        starts = [line for line in lines(lost) if line.get("started")]
        assert any("restart" in line for line in starts), "no worker was lost"
        check(lost, lost / "tensorboard", "recovered")
        # After the fact.
        subprocess.run([LOCKSTEP, "metrics", run, "--tensorboard", scratch / "later"], check=True, stdout=subprocess.DEVNULL)
        check(run, scratch / "later", "written later")


main()
