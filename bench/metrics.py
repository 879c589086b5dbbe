#!/usr/bin/env python3
"""Reads the metrics of a run for all benchmarks. docs/reference/metrics.md lists the lines and their members.

Each reader returns lines of one kind as dictionaries, from all files of the run in their order. A start, an evaluation, a sample or a save is
not a step. A step that was repeated after a restart or a resume counts once, with its last line. Lines that are not JSON are skipped; checksums are not verified.

Usage: bench/metrics.py RUN KIND MEMBER... prints a row of these members for each line of KIND: steps, saves or restarts; first-step is the first
step after the last start. A member that the line lacks prints as "-", a list as its values with commas.
"""
import glob
import json
import os
import sys


def read_lines(run):
    """All lines of the run that are JSON objects, in the order in which they were written. A run without metrics has none."""
    for path in [*sorted(glob.glob(os.path.join(glob.escape(run), "metrics-*.jsonl"))), os.path.join(run, "metrics.jsonl")]:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                texts = file.readlines()
        except FileNotFoundError:
            continue
        for text in texts:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line


def is_step(line):
    return "loss" in line and "event" not in line


def read_steps(run):
    """The steps in ascending order, each once."""
    steps = {line["step"]: line for line in read_lines(run) if is_step(line)}
    return [steps[step] for step in sorted(steps)]


def read_step_times(run):
    """Milliseconds of each step."""
    return [step["ms"] for step in read_steps(run)]


def read_saves(run):
    """The checkpoints that were completed."""
    return [line for line in read_lines(run) if line.get("saved") is True]


def read_restarts(run):
    """The starts of new workers in place of lost ones."""
    return [line for line in read_lines(run) if line.get("started") is True and "restart" in line]


def read_first_step(run):
    """The first step after the last start, in a list; an empty list if that step is not finished."""
    found = []
    for line in read_lines(run):
        if line.get("started") is True:
            found = []
        elif is_step(line) and not found:
            found = [line]
    return found


KINDS = {"steps": read_steps, "saves": read_saves, "restarts": read_restarts, "first-step": read_first_step}


def text_of(value):
    return "-" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)


def main():
    if len(sys.argv) < 4 or sys.argv[2] not in KINDS:
        sys.exit(f"usage: bench/metrics.py RUN {'|'.join(KINDS)} MEMBER...")
    for line in KINDS[sys.argv[2]](sys.argv[1]):
        print(*(text_of(line.get(member)) for member in sys.argv[3:]))


if __name__ == "__main__":
    main()
