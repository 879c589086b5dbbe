#!/usr/bin/env python3
"""Compares training speed and memory of lockstep and PyTorch.

Both sides train the same shapes on the same number of tokens, taking turns; a figure is the median step of the best of
the rounds. PyTorch runs eager and compiled, each with the best of several thread settings. Peak memory is the largest
resident size of the process. Lines:

    ratio train/gpt2-124m/B=4/T=64 1.62 lockstep 171.2 tok/s pytorch 105.7 tok/s (eager, 2 threads)
    memory train/gpt2-124m/B=4/T=64 0.71 lockstep 2101 MiB pytorch 2954 MiB

Without PyTorch (--no-peer, or not installed) there is no ratio:

    speed train/gpt2-124m/B=4/T=64 lockstep 171.2 tok/s 2101 MiB

Usage: bench/train.py [--only NAME] [--rounds N] [--steps N] [--lockstep PATH] [--no-peer] [--no-compile] [--threads N] [--quick]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import peer
from metrics import read_step_times

HERE = os.path.dirname(os.path.abspath(__file__))

# name, model, batch, sequence
CASES = [
    ("gpt2-124m/B=4/T=64", "gpt2-124m", 4, 64),
    ("gpt2-124m/B=1/T=1024", "gpt2-124m", 1, 1024),
    ("bytes-c256/B=16/T=256", "bytes-c256", 16, 256),
    ("llama-160m/B=4/T=64", "llama-160m", 4, 64),
    ("llama-160m/B=1/T=1024", "llama-160m", 1, 1024),
]
QUICK_CASES = [("tiny-gpt2/B=2/T=16", "tiny-gpt2", 2, 16), ("tiny-llama/B=2/T=16", "tiny-llama", 2, 16)]
SHAPES = {
    "gpt2-124m": dict(arch="gpt2", vocab=50257, width=768, layers=12, heads=12, positions=1024),
    "bytes-c256": dict(arch="gpt2", vocab=256, width=256, layers=6, heads=8, positions=256),
    "llama-160m": dict(arch="llama", vocab=32000, width=768, layers=12, heads=12, hidden=3072, positions=2048),
    "tiny-gpt2": dict(arch="gpt2", vocab=256, width=32, layers=2, heads=2, positions=32),
    "tiny-llama": dict(arch="llama", vocab=256, width=32, layers=2, heads=2, hidden=64, positions=32),
}


def write_tokens(path, vocab, count):
    """A token file as llm.c writes it, of numbers that look random."""
    import array

    header = array.array("i", [20240520, 1, count] + [0] * 253)
    state, ids = 12345, array.array("H")
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        ids.append((state >> 33) % vocab)
    with open(path, "wb") as out:
        out.write(header.tobytes() + ids.tobytes())


def run_child(command, env=None):
    """Runs a program; returns its output and peak resident size in MiB."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, env=env, text=True)
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        out.seek(0)
        if status != 0:
            sys.exit(f"failed: {' '.join(command)}\n{errors}")
        return out.read(), usage.ru_maxrss / 1024


def lockstep_case(args, model, batch, seq, folder):
    data = os.path.join(folder, f"{model}.bin")
    if not os.path.exists(data):
        write_tokens(data, SHAPES[model]["vocab"], 40 * 4096)
    shape = os.path.join(folder, f"{model}.json")
    with open(shape, "w") as out:
        json.dump(SHAPES[model], out)
    out = tempfile.mkdtemp(dir=folder)
    command = [args.lockstep, "train", "--model", shape, "--data", data, "--seq", str(seq), "--global-batch", str(batch),
               "--steps", str(args.steps), "--eval-every", "0", "--keep", "1", "--out", os.path.join(out, "run")]
    if args.threads:
        command += ["--threads", str(args.threads)]
    _, mib = run_child(command)
    times = read_step_times(os.path.join(out, "run"))
    subprocess.run(["rm", "-rf", out], check=True)
    return batch * seq / (statistics.median(times[1:]) / 1e3), mib


def pytorch_case(args, model, batch, seq, mode, threads):
    command = [sys.executable, os.path.join(HERE, "train_pytorch.py"), json.dumps(SHAPES[model]), str(batch), str(seq),
               str(args.steps), mode, str(threads)]
    text, mib = run_child(command)
    return float(text.split()[-1]), mib


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="cases whose names contain this")
    parser.add_argument("--rounds", type=int, default=0, help="default 2, with --quick 1")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--lockstep", default="./lockstep")
    peer.add_option(parser)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--quick", action="store_true", help="tiny models and one round: a look, not a measurement")
    args = parser.parse_args()
    peer.check(args)
    args.rounds = args.rounds or (1 if args.quick else 2)
    cores = args.threads or len(os.sched_getaffinity(0))
    modes = [] if args.no_peer else ["eager"] + ([] if args.no_compile else ["compiled"])
    settings = sorted({cores, max(1, cores // 2)})
    with tempfile.TemporaryDirectory() as folder:
        for name, model, batch, seq in QUICK_CASES if args.quick else CASES:
            if args.only and args.only not in name:
                continue
            ours, theirs = [], {}
            for _ in range(args.rounds):
                ours.append(lockstep_case(args, model, batch, seq, folder))
                for mode in modes:
                    for threads in settings:
                        result = pytorch_case(args, model, batch, seq, mode, threads)
                        theirs.setdefault((mode, threads), []).append(result)
            speed, mib = max(s for s, _ in ours), min(m for _, m in ours)
            if not theirs:
                print(f"speed train/{name} lockstep {speed:.1f} tok/s {mib:.0f} MiB", flush=True)
                continue
            best = max(theirs, key=lambda k: max(s for s, _ in theirs[k]))
            peer_speed = max(s for s, _ in theirs[best])
            peer_mib = min(m for runs in theirs.values() for _, m in runs)
            print(f"ratio train/{name} {speed / peer_speed:.2f} lockstep {speed:.1f} tok/s pytorch {peer_speed:.1f} tok/s "
                  f"({best[0]}, {best[1]} threads)", flush=True)
            print(f"memory train/{name} {mib / peer_mib:.2f} lockstep {mib:.0f} MiB pytorch {peer_mib:.0f} MiB",
                  flush=True)


if __name__ == "__main__":
    main()
