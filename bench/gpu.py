#!/usr/bin/env python3
"""Compares lockstep on a GPU with PyTorch, cuBLAS and a copy, which take turns.

Rows (--row, or ROW= of `make bench-gpu`; most take less than four minutes; compiling GPT-2 1.5B may take longer):
  gpt2            GPT-2 124M in fp32, 16 sequences of 1024 tokens, AdamW, clipped         bar 0.80 of PyTorch's tokens/s, without TF32
  resnet18        ResNet-18 for images of 32 × 32 in fp32, 512 images, SGD with momentum  bar 0.80 of PyTorch's images/s, without TF32
  gemm            GEMMs in fp32 beside cuBLAS                                             bar 0.85, of sums in slices 0.75
  memory          kernels that only move memory, beside a copy                            bars 0.85 in fp32; 16 bits: 0.90, loss 0.70, GELU and SiLU 0.55
  products        GEMMs in bf16 by our own kernels, with the epilogues of training        bar 0.88 of PyTorch's GEMM without epilogue, geometric mean
  attention       attention in bf16 beside cuDNN's                                        bars 0.80 forward, 0.65 backward; heads of 128: 0.70, 0.65
  gpt2-bf16       GPT-2 124M in bf16, 64 sequences of 1024 tokens                         bar 1.05 of PyTorch's tokens/s, and its memory
  gpt2-1.5b-bf16  GPT-2 1.5B in bf16, 8 sequences of 1024 tokens                          bar 1.05
  llama-1b-bf16   Llama 1B shapes, untied, in bf16, 8 sequences of 4096 tokens            bar 1.00
  qwen-1.5b-bf16  Qwen2.5 1.5B's sizes as a Llama, in bf16, 64 sequences of 1024 tokens in micro-batches of 16, beside what llmq has published

PyTorch runs eager and compiled (ResNet-18 also with channels last), in bf16 under autocast, always with the fused optimizer; the fastest counts.
The figure of a round is the median of its steps, the first two aside; that of a program is its best round. A ratio is lockstep's speed by the
peer's. Memory is what PyTorch has reserved on the GPU and, in brackets, the most that its tensors took of it; and lockstep's bytes of a dry run.
Where there is no GPU it says so and ends with 0; without PyTorch for that GPU (--no-peer: even if there is one) lockstep is measured alone.

LLMC=FOLDER of the environment: a folder of llm.c in which train_gpt2cu was built; it trains GPT-2 in bf16 too, in turns with the others, and is
no PyTorch: ratios are not of it. LLMC_FLAGS has further flags for it ("-ge 1"). Rows it cannot run, and a missing LLMC, are said.

--only compiled (or eager, …): PyTorch in that way alone; a row then takes half the time.

--kinds: also the milliseconds of a step by kind of kernel: PyTorch's from its profiler, lockstep's from the times of streams in a traced run
(`lockstep timeline --kernels`; its fourth step).

--quick: tiny models, one round of one step, lockstep alone: a look, not a measurement.

Usage: bench/gpu.py [--row NAME,NAME] [--rounds N] [--steps N] [--no-peer] [--no-compile] [--quick] [--only MODE] [--kinds] [--lockstep PATH] [--kernels PATH]
                    [--products PATH] [--json FILE]
"""
import argparse
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

from metrics import read_step_times
from train import write_tokens
from vision import write_images

HERE = os.path.dirname(os.path.abspath(__file__))
SGD = ["--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "1e-3", "--clip", "0"]
BF16 = ["--precision", "bf16"]
KEEP = "--keep-activations"  # where PyTorch has more memory all the same
# Training: the model of lockstep (a preset or what a shape file says), sequences or images of a step, their tokens, flags, ways of PyTorch, bar.
TRAINING = {
    "gpt2": dict(model="gpt2-124m", batch=16, seq=1024, flags=[], modes=["eager", "compiled"], bar=0.8),
    "resnet18": dict(model="resnet18", batch=512, seq=0, flags=SGD, modes=["eager", "channels-last", "compiled"], bar=0.8),
    "gpt2-bf16": dict(model="gpt2-124m", batch=64, seq=1024, flags=[*BF16, KEEP], modes=["eager", "compiled"], bar=1.05),
    "gpt2-1.5b-bf16": dict(model={"preset": "gpt2-124m", "width": 1600, "layers": 48, "heads": 25}, batch=8, seq=1024, flags=BF16,
                           modes=["eager", "compiled"], bar=1.05),
    "llama-1b-bf16": dict(model={"preset": "llama-1b", "tied": False}, batch=8, seq=4096, flags=[*BF16, KEEP], modes=["eager", "compiled"], bar=1.0),
    # Sequences and micro-batch as llmq's table of an H100 in bf16 has them (README of IST-DASLab/llmq; 32 micro-batches a step there).
    "qwen-1.5b-bf16": dict(model={"preset": "llama-1b", "vocab": 151936, "width": 1536, "layers": 28, "heads": 12, "kv-heads": 2, "hidden": 8960},
                           batch=64, seq=1024, flags=[*BF16, "--micro-batch", "16"], modes=[], bar=None, published={"llmq, H100, published": 58e3}),
}
ROWS = ["gpt2", "resnet18", "gemm", "memory", "products", "attention", "gpt2-bf16", "gpt2-1.5b-bf16", "llama-1b-bf16", "qwen-1.5b-bf16"]
# What llm.c calls the models of its rows.
LLMC_MODELS = {"gpt2-bf16": "d12", "gpt2-1.5b-bf16": "d48"}
# Kinds of PyTorch's kernels by their names, the first that fits.
KINDS = [("attention", r"attention|flash|fmha|sdpa"), ("products", r"gemm|nvjet|cutlass|xmma|wgrad|dgrad|conv"),
         ("optimizer", r"adam|sgd|multi_tensor|lpnorm"), ("rest", r"")]


def quick(of):
    """A row of TRAINING with a tiny model."""
    return {**of, "model": "tiny" if of["seq"] else "lenet", "batch": 2, "seq": of["seq"] and 8,
            "flags": of["flags"][:-2] if "--micro-batch" in of["flags"] else of["flags"]}


def why_no_peer():
    """Why PyTorch cannot be measured here; None: it can."""
    found = subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available(), 'it sees no GPU'"],
                           capture_output=True, text=True, check=False)
    return None if found.returncode == 0 else "PyTorch: " + (found.stderr.strip().splitlines() or ["it cannot be loaded"])[-1]


def why_no_gpu(lockstep):
    """Why lockstep cannot use a GPU here; None: it can."""
    with tempfile.TemporaryDirectory() as folder:
        ours = subprocess.run([lockstep, "train", "--device", "cuda", "--model", "tiny", "--data", __file__, "--steps", "1", "--seq", "8",
                               "--global-batch", "1", "--eval-every", "0", "--out", os.path.join(folder, "run")],
                              capture_output=True, text=True, check=False)
    return None if ours.returncode == 0 else "lockstep: " + (ours.stderr.strip().splitlines() or ["it cannot use a GPU"])[-1]


class NoPeer:
    """Answers as Peer would, without figures."""

    def ask(self, what):
        return None

    def close(self):
        pass


PEER = os.environ.get("GPU_PEER", "gpu_pytorch.py")  # another program for tests


class Peer:
    """A process of PyTorch that stays, since compiling takes a minute; it waits while the others run."""

    def __init__(self, *words):
        self.errors = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen([sys.executable, os.path.join(HERE, PEER), *map(str, words)], stdin=subprocess.PIPE,
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
    if TRAINING[row]["seq"]:
        data = os.path.join(folder, "tokens.bin")
        write_tokens(data, 256 if TRAINING[row]["model"] == "tiny" else 50257, 400 * 1024)
        return data
    os.mkdir(os.path.join(folder, "images"))
    return write_images(os.path.join(folder, "images"))[TRAINING[row]["model"]]


def write_model(row, folder):
    """A preset's name, or a shape file."""
    model = TRAINING[row]["model"]
    if isinstance(model, str):
        return model
    path = os.path.join(folder, "shape.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(model, out)
    return path


def lockstep_words(args, row, inputs, steps, out):
    of, (model, data) = TRAINING[row], inputs
    words = [args.lockstep, "train", "--device", "cuda", "--model", model, "--data", data, "--global-batch", of["batch"], "--steps", steps,
             "--eval-every", 0, "--keep", 1, "--lr", "1e-3", "--out", out, *of["flags"], *(["--seq", of["seq"]] if of["seq"] else [])]
    return [str(word) for word in words]


def lockstep_round(args, row, inputs, folder):
    """Milliseconds of each step."""
    out = tempfile.mkdtemp(dir=folder)
    done = subprocess.run(lockstep_words(args, row, inputs, args.steps + 2, os.path.join(out, "run")), stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit("lockstep failed: " + done.stderr)
    times = read_step_times(os.path.join(out, "run"))
    shutil.rmtree(out)
    return times[2:]


def lockstep_bytes(args, row, inputs, folder):
    done = subprocess.run(lockstep_words(args, row, inputs, 1, os.path.join(folder, "dry")) + ["--dry-run", "--json"], capture_output=True,
                          text=True, check=False)
    return json.loads(done.stdout)["bytes"] if done.returncode == 0 else None


def by_kind(times):
    """Milliseconds of kernels by name, summed up."""
    kinds = {name: 0.0 for name, _ in KINDS}
    for kernel, ms in times.items():
        kinds[next(name for name, pattern in KINDS if re.search(pattern, kernel))] += ms
    return kinds


def lockstep_kinds(args, row, inputs, folder):
    """Milliseconds of a step by kind, the slowest first, as the streams of a traced run tell."""
    run = os.path.join(tempfile.mkdtemp(dir=folder), "run")
    for words in (lockstep_words(args, row, inputs, 4, run) + ["--trace", "run"], [args.lockstep, "timeline", run, "--step", "4", "--kernels", "--json"]):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit("lockstep failed: " + done.stderr)
    shutil.rmtree(run)
    return dict(sorted(json.loads(done.stdout)["gpu"]["kinds_ms"].items(), key=lambda kind: -kind[1]))


def llmc_round(row, data, folder, steps):
    """Milliseconds of each step, without the first two, and the bytes that it says it allocates; a text instead: why there are none. It keeps all
    activations, as the others do, and evaluates one batch at the beginning and at the end: it divides by how often."""
    of, home = TRAINING[row], os.environ.get("LLMC")
    if not home:
        return "LLMC names no folder with train_gpt2cu"
    if row not in LLMC_MODELS:
        return "it has no such model"
    words = [os.path.join(os.path.abspath(home), "train_gpt2cu"), "-i", data, "-j", data, "-e", LLMC_MODELS[row], "-b", of["batch"], "-t", of["seq"], "-d",
             of["batch"] * of["seq"], "-x", steps + 2, "-v", steps + 2, "-m", 1, "-s", 0, "-h", 0, "-r", 0, "-l", "1e-3",
             *os.environ.get("LLMC_FLAGS", "").split()]
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, cwd=folder)
    except OSError as error:
        return str(error)
    times = [float(found[1]) for found in re.finditer(r"^step +\d+/\d+ .*\| *([0-9.]+) ms \|", done.stdout, re.MULTILINE)]
    if done.returncode != 0 or len(times) < 3:
        return (done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["it ended"])[-1]
    mib = sum(int(found[1]) for found in re.finditer(r"^allocat(?:ed|ing) (\d+) MiB", done.stdout, re.MULTILINE))
    return times[2:], mib << 20


def train_row(args, row):
    of = TRAINING[row]
    seq = [of["seq"]] if of["seq"] else []
    amount, unit = of["batch"] * (of["seq"] or 1), "tok/s" if seq else "img/s"
    peers, best, memory, tensors, kinds = {}, {}, {}, {}, {}
    for mode in of["modes"]:
        if args.no_peer or (mode == "compiled" and args.no_compile) or args.only not in (None, mode):
            continue
        try:
            peers[mode] = Peer(row, mode, of["batch"], *seq)
        except RuntimeError as error:
            print(f"{row}: PyTorch {mode} does not run here: {error}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        inputs = write_model(row, folder), write_data(row, folder)
        llmc = () if row.endswith("bf16") and not args.no_peer else ""
        memory["lockstep"] = lockstep_bytes(args, row, inputs, folder)
        for _ in range(args.rounds):
            rounds = {"lockstep": lockstep_round(args, row, inputs, folder)}
            for mode, peer in peers.items():
                times, memory[mode], tensors[mode] = peer.ask(args.steps + 2)
                rounds[mode] = times[2:]
            if not isinstance(llmc, str):
                llmc = llmc_round(row, inputs[1], folder, args.steps)
            if not isinstance(llmc, str):
                rounds["llm.c"], memory["llm.c"] = llmc
            for name, times in rounds.items():
                best[name] = min(best.get(name, float("inf")), statistics.median(times))
        if args.kinds:
            kinds = {mode: by_kind(peer.ask("kinds")) for mode, peer in peers.items()}
            kinds["lockstep"] = lockstep_kinds(args, row, inputs, folder)
    if isinstance(llmc, str) and llmc:
        print(f"{row}: llm.c does not run here: {llmc}", file=sys.stderr)
    for peer in peers.values():
        peer.close()
    fastest = min(peers, key=lambda mode: best[mode], default=None)
    lines = []
    for name in ["lockstep", *peers, *(["llm.c"] if "llm.c" in best else [])]:
        ratio = best[fastest] / best[name] if fastest else None
        lines.append({"row": row, "name": name, "ms": best[name], "speed": 1e3 * amount / best[name], "unit": unit,
                      "mib": memory[name] / 2**20 if memory.get(name) else None,
                      "tensors_mib": tensors[name] / 2**20 if name in tensors else None, "ratio": ratio, "bar": of["bar"] if name == "lockstep" else None,
                      "kinds": kinds.get(name)})
    for name, speed in of.get("published", {}).items():
        lines.append({"row": row, "name": name, "ms": 1e3 * amount / speed, "speed": speed, "unit": unit, "mib": None, "ratio": None, "bar": None})
    return lines


# ---- single operations -------------------------------------------------------------------------------------------------------


def kernel_rows(args, only):
    """What build/bench/gpu_kernels measures of them."""
    return lines_of([args.kernels, "--json", "--only", only])


def lines_of(words, **environment):
    """The objects that a program writes, one a line."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        print("gpu: " + (done.stderr.strip().splitlines() or [words[0] + " failed"])[0], file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ratio_of(theirs, ours):
    return None if theirs is None else theirs / ours


def gemm_row(args, peer):
    """Products are called gemm/LAYER/FORM/MxNxK/slices=N."""
    lines, theirs = [], {}
    for found in kernel_rows(args, "products"):
        named = re.fullmatch(r"gemm/[^/]+/((NN|NT|TN)/(\d+)x(\d+)x(\d+))/slices=(\d+)", found["kernel"])
        if not named:
            continue
        m, n, k = (int(named[i]) for i in (3, 4, 5))
        if named[1] not in theirs:
            theirs[named[1]] = peer.ask(["gemm", named[2], m, n, k])
        ours = found["time_us"] / 1e3
        lines.append({"row": "gemm", "name": found["kernel"][5:], "ms": ours, "speed": 2e-9 * m * n * k / ours, "unit": "TFLOP/s", "mib": None,
                      "ratio": ratio_of(theirs[named[1]], ours), "bar": 0.85 if named[6] == "1" else 0.75})
    return lines


def geometric_mean(lines, name, bar):
    """A line for the mean of all their ratios."""
    mean = math.exp(statistics.fmean(math.log(line["ratio"]) for line in lines))
    total = sum(line["ms"] for line in lines)
    speed = sum(line["ms"] * line["speed"] for line in lines) / total
    return {"row": lines[0]["row"], "name": name, "ms": total, "speed": speed, "unit": "TFLOP/s", "mib": None, "ratio": mean, "bar": bar}


def products_row(args, peer):
    """Products are called hgmma/LAYER/FORM/MxNxK/HOW: slices and bias, or the activation behind them. Inputs' gradients of one slice, and weights'
    of one group, are not what training makes."""
    lines, theirs = {False: [], True: []}, {}
    for found in lines_of([args.products, "--json"], LS_CUBLASLT="no"):
        named = re.fullmatch(r"hgmma/[^/]+/((NN|NT|TN)/(\d+)x(\d+)x(\d+))/(.+)", found["kernel"])
        if not named or named[6].endswith("apart") or (named[6] == "slices=1" and named[2] != "NT"):
            continue
        m, n, k = (int(named[i]) for i in (3, 4, 5))
        if named[1] not in theirs:
            theirs[named[1]] = peer.ask(["gemm-bf16", named[2], m, n, k])
        ours = found["time_us"] / 1e3
        lines[not named[6].startswith("slices")].append({"row": "products", "name": found["kernel"][6:], "ms": ours, "speed": 2e-9 * m * n * k / ours,
                                                          "unit": "TFLOP/s", "mib": None, "ratio": ratio_of(theirs[named[1]], ours), "bar": None})
    if isinstance(peer, NoPeer):
        return [*lines[False], *lines[True]]
    plain, ended = lines[False], lines[True]
    return [*plain, *ended, *([geometric_mean(ended, "with an activation behind them", None)] if ended else []),
            *([geometric_mean(plain, "all others, geometric mean", 0.88)] if plain else [])]


def attention_row(args, peer):
    """Attention is called attention-hgmma/PASS/BxHEADSxT/KV_HEADS/SIZE."""
    lines = []
    for found in kernel_rows(args, "attention"):
        named = re.fullmatch(r"attention-hgmma/(forward|backward)/(\d+)x(\d+)x(\d+)/(\d+)/(\d+)", found["kernel"])
        if not named:
            continue
        theirs = peer.ask(["attention", *(int(named[i]) for i in range(2, 7))])
        ratio = 1e3 * theirs[named[1] == "backward"] / found["time_us"] if theirs else None
        bar = 0.65 if named[1] == "backward" else 0.70 if int(named[6]) > 64 else 0.80
        lines.append({"row": "attention", "name": found["kernel"][16:], "ms": found["time_us"] / 1e3, "speed": found["flops_per_s"] / 1e12,
                      "unit": "TFLOP/s", "mib": None, "ratio": ratio, "bar": bar})
    return lines


def memory_bar(kernel):
    if kernel.startswith("loss"):
        return 0.70
    if re.match(r"(gelu|silu)_", kernel) and "bf16" in kernel:
        return 0.55
    return 0.90 if "bf16" in kernel else 0.85


def memory_row(args):
    """The copy is gpu_kernels' own, of as many bytes as the others move."""
    return [{"row": "memory", "name": found["kernel"], "ms": found["time_us"] / 1e3, "speed": found["bytes_per_s"] / 1e9, "unit": "GB/s",
             "mib": None, "ratio": found["of_copy"], "bar": None if found["kernel"] == "copy" else memory_bar(found["kernel"])}
            for found in kernel_rows(args, "memory") if "bytes_per_s" in found]


# ---- table -------------------------------------------------------------------------------------------------------------------


def show(line):
    memory = f"{line['mib']:9.0f} MiB" if line["mib"] else " " * 13
    memory += f" ({line['tensors_mib']:.0f})" if line.get("tensors_mib") else ""
    ratio = f"{line['ratio']:6.2f}" if line["ratio"] else "     –"
    verdict = "" if line["bar"] is None or line["ratio"] is None else f"  bar {line['bar']:.2f} {'met' if line['ratio'] >= line['bar'] else 'MISSED'}"
    print(f"{line['row']:14} {line['name']:40} {line['ms']:10.3f} ms {line['speed']:11.1f} {line['unit']:7} {memory} {ratio}{verdict}", flush=True)
    if line.get("kinds"):
        print(" " * 15 + "   ".join(f"{name} {ms:.2f} ms" for name, ms in line["kinds"].items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", default="", help="some of " + ", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=0, help="default 3, with --quick 1")
    parser.add_argument("--steps", type=int, default=0, help="default 12, with --quick 1")
    parser.add_argument("--no-peer", action="store_true", help="measure lockstep alone")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", metavar="MODE", choices=sorted({mode for of in TRAINING.values() for mode in of["modes"]}))
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--lockstep", default="./lockstep")
    parser.add_argument("--kernels", default="build/bench/gpu_kernels")
    parser.add_argument("--products", default="build/bench/gpu_products")
    parser.add_argument("--json", help="also write the table there")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or what it has started goes on, and others measure beside it
    rows = [row for row in args.row.split(",") if row] or ROWS
    if set(rows) - set(ROWS):
        sys.exit("there is no row " + ", ".join(sorted(set(rows) - set(ROWS))))
    args.rounds, args.steps = args.rounds or (1 if args.quick else 3), args.steps or (1 if args.quick else 12)
    if args.quick:
        args.no_peer = True
        TRAINING.update({row: quick(of) for row, of in TRAINING.items()})
    why = why_no_gpu(args.lockstep)
    if why:
        print("gpu: nothing was measured: " + why)
        return
    why = None if args.no_peer else why_no_peer()
    if why:
        print("gpu: lockstep alone is measured: " + why, file=sys.stderr)
        args.no_peer = True
    lines = []
    print("row            what                                           time               speed               memory  ratio")
    for row in rows:
        if row in TRAINING:
            found = train_row(args, row)
        elif row == "memory":
            found = memory_row(args)
        else:
            peer = NoPeer() if args.no_peer else Peer("operations")
            found = {"gemm": gemm_row, "products": products_row, "attention": attention_row}[row](args, peer)
            peer.close()
        for line in found:
            show(line)
        lines += found
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(lines, out, indent=1)


if __name__ == "__main__":
    main()
