#!/usr/bin/env python3
"""A long run in which nothing is wrong, with all guards on: none of them may say anything, nor may `lockstep doctor` name a cause.

Two workers, a very small model, text of one kind. Exit status 1 when there was an event, or a cause.

Usage: tests/faults/clean_steps.py [--steps N] [--build FOLDER]
"""
import argparse
import os
import shutil
import sys
import tempfile
import time

from runs import Run, diagnose, write_model, write_prose

GUARDS = ["--check", "state", "--audit", "0.125", "--on-outlier", "warn", "--numerics", "10"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    args = parser.parse_args()
    program = os.path.abspath(os.path.join(args.build, "lockstep"))
    folder = tempfile.mkdtemp(prefix="lockstep-clean.")
    try:
        model = write_model(folder, arch="llama", width=24, layers=2, heads=2, hidden=48, positions=32, **{"head-size": 12})
        options = ["--model", model, "--data", write_prose(folder, 0, 1000000), "--seq", "32", "--global-batch", "16", "--groups", "4", "--dp", "2",
                   "--threads", "1", "--lr", "0.001", "--steps", str(args.steps), "--eval-every", "0"]
        begin = time.monotonic()
        run = Run(program, os.path.join(folder, "run"), options + GUARDS, {}, limit_s=7200)
        seconds = time.monotonic() - begin
        told = diagnose(program, run.folder)
        cause = told["cause"]
        print(f"{len(run.steps)} steps in {seconds:.0f} s with {' '.join(GUARDS)}: {len(run.events)} alarms, cause named: {cause or 'none'}; "
              f"loss {run.steps[0]['loss']:.3f} to {run.steps[-1]['loss']:.3f}")
        for event in run.events[:5]:
            print(f"  {event}")
        if run.status != 0:
            print(f"  exit status {run.status}: {run.said.strip()[-300:]}")
        return 0 if run.status == 0 and len(run.steps) == args.steps and not run.events and not cause else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
