"""Shared by the counting tests: a small model, text, and runs of `lockstep train`."""
import json
import os
import random
import re
import signal
import subprocess
import time

MODEL = {"arch": "gpt2", "vocab": 256, "width": 36, "layers": 3, "heads": 4, "head-size": 9, "hidden": 50, "positions": 24}


def clean_environment():
    """The environment without LS_* variables that the developer has exported; the device is the CPU unless LS_DEVICE says otherwise."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith("LS_")}
    return {**rest, "LS_DEVICE": os.environ.get("LS_DEVICE", "cpu")}


def write_model(folder, **changes):
    path = os.path.join(folder, "model.json")
    with open(path, "w") as file:
        json.dump({**MODEL, **changes}, file)
    return path


def write_text(folder, lines):
    path = os.path.join(folder, "text.txt")
    with open(path, "w") as file:
        for i in range(1, lines + 1):
            file.write(f"line {i}: {i * i} quick brown foxes jump over {i * 7 % 31} lazy dogs\n")
    return path


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def kill_worker(pid, metrics, steps, worker, limit_s=120):
    """Workers are children of the run, in the order of their ranks."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if os.path.exists(metrics):
            with open(metrics) as file:
                if sum('"loss"' in line for line in file) >= steps:
                    break
        time.sleep(0.02)
    victims = children(pid)
    for victim in victims if worker < 0 else victims[worker:worker + 1]:
        os.kill(victim, signal.SIGKILL)


class Run:
    """A run that has ended: its status, what it said, and the lines of its metrics."""

    def __init__(self, program, folder, options, environment, limit_s=240, kill_at=None):
        """kill_at: (steps, worker): SIGKILL for that worker, or for all of them (−1), once so many steps are recorded."""
        env = {**clean_environment(), "XDG_CACHE_HOME": os.path.join(os.path.dirname(folder), "cache"), **environment}
        command = [program, "train", "--out", folder, "--restarts", "0", *options]
        with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                if kill_at:
                    kill_worker(process.pid, os.path.join(folder, "metrics.jsonl"), *kill_at)
                stdout, stderr = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        done = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
        self.folder = folder
        self.status = done.returncode
        self.said = done.stderr
        found = re.search(r"weights=xxh128:([0-9a-f]{32})", done.stdout)
        self.weights = found.group(1) if found else None
        self.steps, self.events = [], []
        path = os.path.join(folder, "metrics.jsonl")
        if os.path.exists(path):
            with open(path) as file:
                for line in map(json.loads, file):
                    if "event" in line:
                        self.events.append(line)
                    elif "loss" in line:
                        self.steps.append(line)

    def losses(self):
        return [line["loss_hex"] for line in self.steps]


def write_prose(folder, seed, size=300000):
    """Text of one kind from its first line to its last: made-up words, some far more frequent than others, each with favourite followers."""
    draw = random.Random(seed)
    parts = ["ba", "co", "di", "fu", "ga", "he", "lo", "mi", "nu", "pe", "ra", "si", "to", "ve", "an", "er", "in", "or", "st", "th"]
    words = list({"".join(draw.choices(parts, k=draw.choice((1, 2, 2, 3)))) for _ in range(500)})
    words.sort()
    draw.shuffle(words)
    weights = [1 / (i + 3) for i in range(len(words))]
    followers = {word: draw.choices(words, weights, k=5) for word in words}
    path = os.path.join(folder, f"prose{seed}.txt")
    with open(path, "w") as file:
        written = 0
        while written < size:
            line = [draw.choices(words, weights)[0]]
            for _ in range(draw.randint(4, 14)):
                line.append(draw.choice(followers[line[-1]]) if draw.random() < 0.7 else draw.choices(words, weights)[0])
            written += file.write(" ".join(line).capitalize() + draw.choice((".\n", ". ", ", and\n", "?\n")))
    return path


def diagnose(program, folder):
    """What `lockstep doctor` says, as it prints it for programs."""
    told = subprocess.run([program, "doctor", folder, "--json"], env=clean_environment(), capture_output=True, text=True, check=False)
    return json.loads(told.stdout) if told.returncode == 0 else {"cause": "doctor failed", "findings": [], "verdict": told.stderr}
