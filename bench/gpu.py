#!/usr/bin/env python3
"""lockstep on a GPU in fp32 beside PyTorch without TF32, cuBLAS and a copy, in one run and in turns.

Rows (--row, or ROW= of `make bench-gpu`; each takes less than four minutes):
  gpt2       GPT-2 124M, 16 sequences of 1024 tokens, AdamW, clipped            bar 0.80 of PyTorch's tokens/s
  resnet18   ResNet-18 for images of 32 × 32, 512 images, SGD with momentum     bar 0.80 of PyTorch's images/s
  gemm       the products of `lockstep bench kernels` beside cuBLAS             bar 0.85, of sums in slices 0.75
  memory     kernels that only move memory, beside a copy                       bar 0.85 of its bytes/s

PyTorch runs eager and compiled (ResNet-18 also with channels last); the fastest counts. The figure of a round is the median of its steps, the
first two aside; that of a program is its best round. A ratio is lockstep's speed by the peer's. Memory is what PyTorch has reserved on the GPU,
and lockstep's bytes of a dry run. Where there is no GPU or no PyTorch, it says so and ends with 0.

Usage: bench/gpu.py [--row NAME,NAME] [--rounds N] [--steps N] [--no-compile] [--lockstep PATH] [--json FILE]
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = ["gpt2", "resnet18", "gemm", "memory"]
# Of training: model, unit, how many a step, batch, sequence, flags of lockstep, ways of PyTorch.
TRAINING = {
    "gpt2": ("gpt2-124m", "tok/s", 16 * 1024, 16, [1024], [], ["eager", "compiled"]),
    "resnet18": ("resnet18", "img/s", 512, 512, [], ["--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "1e-3", "--clip", "0"],
                 ["eager", "channels-last", "compiled"]),
}
COPY_BYTES = 4 << 30  # read and written: far beyond any cache


def missing(lockstep):
    """What this machine lacks; None: nothing."""
    found = subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available(), 'it sees no GPU'"],
                           capture_output=True, text=True, check=False)
    if found.returncode != 0:
        return "PyTorch: " + (found.stderr.strip().splitlines() or ["it cannot be loaded"])[-1]
    with tempfile.TemporaryDirectory() as folder:
        ours = subprocess.run([lockstep, "train", "--device", "cuda", "--model", "tiny", "--data", __file__, "--steps", "1", "--seq", "8",
                               "--global-batch", "1", "--eval-every", "0", "--out", os.path.join(folder, "run")],
                              capture_output=True, text=True, check=False)
    return None if ours.returncode == 0 else "lockstep: " + (ours.stderr.strip().splitlines() or ["it cannot use a GPU"])[-1]


class Peer:
    """A process of PyTorch that stays, since compiling takes a minute; it waits while the others run."""

    def __init__(self, *words):
        self.errors = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen([sys.executable, os.path.join(HERE, "gpu_pytorch.py"), *map(str, words)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=self.errors, text=True)
        if self.child.stdout.readline() != "ready\n":
            self.fail()

    def fail(self):
        self.close()
        self.errors.seek(0)
        raise RuntimeError((self.errors.read().strip().splitlines() or ["it ended"])[-1])

    def ask(self, what):
        self.child.stdin.write(json.dumps(what) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            self.fail()
        return json.loads(line)

    def close(self):
        self.child.stdin.close()
        self.child.wait()


# ---- training ----------------------------------------------------------------------------------------------------------------


def write_data(row, folder):
    sys.path.insert(0, HERE)
    if row == "gpt2":
        from train import write_tokens

        data = os.path.join(folder, "tokens.bin")
        write_tokens(data, 50257, 400 * 1024)
        return data
    from vision import write_images

    os.mkdir(os.path.join(folder, "images"))
    return write_images(os.path.join(folder, "images"))["resnet18"]


def lockstep_words(args, row, data, steps, out):
    model, _, _, batch, seq, flags, _ = TRAINING[row]
    words = [args.lockstep, "train", "--device", "cuda", "--model", model, "--data", data, "--global-batch", batch, "--steps", steps,
             "--eval-every", 0, "--keep", 1, "--lr", "1e-3", "--out", out, *flags, *(["--seq", *seq] if seq else [])]
    return [str(word) for word in words]


def lockstep_round(args, row, data, folder):
    """Milliseconds of each step."""
    out = tempfile.mkdtemp(dir=folder)
    done = subprocess.run(lockstep_words(args, row, data, args.steps + 2, os.path.join(out, "run")), stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit("lockstep failed: " + done.stderr)
    with open(os.path.join(out, "run", "metrics.jsonl"), encoding="utf-8") as lines:
        times = [found["ms"] for found in map(json.loads, lines) if "ms" in found]
    shutil.rmtree(out)
    return times[2:]


def lockstep_bytes(args, row, data, folder):
    done = subprocess.run(lockstep_words(args, row, data, 1, os.path.join(folder, "dry")) + ["--dry-run", "--json"], capture_output=True,
                          text=True, check=False)
    return json.loads(done.stdout)["bytes"] if done.returncode == 0 else None


def train_row(args, row):
    _, unit, amount, batch, seq, _, modes = TRAINING[row]
    peers, best, memory = {}, {}, {}
    for mode in modes:
        if mode == "compiled" and args.no_compile:
            continue
        try:
            peers[mode] = Peer(row, mode, batch, *seq)
        except RuntimeError as error:
            print(f"{row}: PyTorch {mode} does not run here: {error}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        data = write_data(row, folder)
        memory["lockstep"] = lockstep_bytes(args, row, data, folder)
        for _ in range(args.rounds):
            rounds = {"lockstep": lockstep_round(args, row, data, folder)}
            for mode, peer in peers.items():
                times, memory[mode] = peer.ask(args.steps + 2)
                rounds[mode] = times[2:]
            for name, times in rounds.items():
                best[name] = min(best.get(name, float("inf")), statistics.median(times))
    for peer in peers.values():
        peer.close()
    fastest = min(peers, key=lambda mode: best[mode], default=None)
    lines = []
    for name in ["lockstep", *peers]:
        ratio = best[fastest] / best[name] if fastest else None
        lines.append({"row": row, "name": name, "ms": best[name], "speed": 1e3 * amount / best[name], "unit": unit,
                      "mib": memory[name] / 2**20 if memory.get(name) else None, "ratio": ratio, "bar": 0.8 if name == "lockstep" else None})
    return lines


# ---- single operations -------------------------------------------------------------------------------------------------------


def kernel_rows(args, families):
    """Rows of `lockstep bench kernels` on the GPU."""
    done = subprocess.run([args.lockstep, "bench", "kernels", "--device", "cuda", "--json", "--only", families], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        print("gpu: " + (done.stderr.strip().splitlines() or ["bench kernels failed"])[0], file=sys.stderr)
        return []
    return json.loads(done.stdout)["rows"]


def gemm_row(args, peer):
    """Products are called gemm/FORM/MxNxK, maybe with more behind it where the sum is made in slices."""
    lines = []
    for found in kernel_rows(args, "gemm"):
        named = re.fullmatch(r"gemm/(NN|NT|TN)/(\d+)x(\d+)x(\d+)(/.*)?", found["kernel"])
        if not named:
            continue
        m, n, k = (int(named[i]) for i in (2, 3, 4))
        theirs = peer.ask(["gemm", named[1], m, n, k])
        ours = found["time_us"] / 1e3
        lines.append({"row": "gemm", "name": found["kernel"][5:], "ms": ours, "speed": 2e-9 * m * n * k / ours, "unit": "TFLOP/s", "mib": None,
                      "ratio": theirs / ours, "bar": 0.75 if named[5] else 0.85})
    return lines


def memory_row(args, peer):
    """Whatever tells its bytes per second."""
    copy = COPY_BYTES / peer.ask(["copy", COPY_BYTES]) / 1e6
    lines = [{"row": "memory", "name": "copy", "ms": COPY_BYTES / copy / 1e6, "speed": copy, "unit": "GB/s", "mib": None, "ratio": 1.0, "bar": None}]
    for found in kernel_rows(args, "norm,act,loss,optim,convert,add"):
        if found.get("bytes_per_s"):
            speed = found["bytes_per_s"] / 1e9
            lines.append({"row": "memory", "name": found["kernel"], "ms": found["time_us"] / 1e3, "speed": speed, "unit": "GB/s", "mib": None,
                          "ratio": speed / copy, "bar": 0.85})
    return lines


# ---- table -------------------------------------------------------------------------------------------------------------------


def show(line):
    memory = f"{line['mib']:9.0f} MiB" if line["mib"] else " " * 13
    ratio = f"{line['ratio']:6.2f}" if line["ratio"] else "     –"
    verdict = "" if line["bar"] is None or line["ratio"] is None else f"  bar {line['bar']:.2f} {'met' if line['ratio'] >= line['bar'] else 'MISSED'}"
    print(f"{line['row']:9} {line['name']:32} {line['ms']:10.3f} ms {line['speed']:11.1f} {line['unit']:7} {memory} {ratio}{verdict}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", default="", help="some of " + ", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--lockstep", default="./lockstep")
    parser.add_argument("--json", help="also write the table there")
    args = parser.parse_args()
    rows = [row for row in args.row.split(",") if row] or ROWS
    if set(rows) - set(ROWS):
        sys.exit("there is no row " + ", ".join(sorted(set(rows) - set(ROWS))))
    why = missing(args.lockstep)
    if why:
        print("gpu: nothing was measured: " + why)
        return
    lines = []
    print("row       what                               time                  speed               memory  ratio")
    for row in rows:
        if row in TRAINING:
            found = train_row(args, row)
        else:
            peer = Peer("operations")
            found = gemm_row(args, peer) if row == "gemm" else memory_row(args, peer)
            peer.close()
        for line in found:
            show(line)
        lines += found
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(lines, out, indent=1)


if __name__ == "__main__":
    main()
