#!/usr/bin/env python3
"""Compares learning in 16 bits with fp32: 1,000 steps of small models under several policies.

The full policies must end near the validation loss of fp32, and in each setting one that leaves a part out must end worse, with a
trace in the telemetry (--numerics) that says why. Writes OUT/precision-experiments.md and the folder OUT/precision-experiments; fails where an
expectation is not met.

    TEST_DATA=FOLDER bench/quality.py [--only LIST] [--steps N] [--text FILE] [--out FOLDER] [--runs FOLDER] [--threads N]
                                      [--lockstep PATH] [--quick]

The text is tinyshakespeare.txt in TEST_DATA; without it, this project's own documents and sources. One setting needs the vocabulary of GPT-2, the
folder gpt2-bpe in TEST_DATA with vocab.json and merges.txt, and is left out where that is missing.

--quick: three steps of each run, without expectations: a look, not a measurement.
"""
import argparse
import dataclasses
import glob
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "tests", "parity"))
from metrics import read_lines, read_steps  # noqa: E402
import chart  # noqa: E402

# Of the validation loss, relative to fp32: what a full policy may be apart, and what another must be above.
NEAR, WORSE = 0.005, 0.02
RECORDS = 20  # of the telemetry, and evaluations, in a run


@dataclasses.dataclass(frozen=True)
class Policy:
    name: str
    flags: str


FP32 = Policy("fp32", "")
BF16 = Policy("bf16", "--precision bf16")
FP16 = Policy("fp16", "--precision fp16")
UNSCALED = Policy("fp16 without scaling", "--precision fp16 --loss-scale 1")
NO_MASTER = Policy("bf16 without master weights", "--precision bf16 --no-master-weights")
ROUNDED_SUM = Policy("bf16 accumulation", "--precision bf16 --accumulate-dtype bf16")


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str
    title: str
    shape: dict
    flags: str
    worse: Policy  # must end above fp32 here
    others: tuple  # shown without a bar
    why: str
    tokenizer: str = "bytes"  # or a folder in TEST_DATA
    near: tuple = (BF16, FP16)  # must end near fp32


def gpt2(width, layers, heads, vocab=256):
    return dict(arch="gpt2", vocab=vocab, width=width, layers=layers, heads=heads, positions=64)


SETTINGS = [
    Setting("master-weights", "a usual run, and no master weights", gpt2(64, 2, 4),
            "--seq 64 --global-batch 32 --lr 3e-4 --lr-schedule cosine --eval-batches 20",
            NO_MASTER, (),
            """\
bf16 keeps 8 bits, so an update below 2^-9 of a weight is rounded away when the sum is stored in 16 bits. The smaller the learning rate, the more updates
are: *lost* is their share, and what is lost in every step is never made up for. fp32 master weights add them up until they count; the products still read
16-bit copies."""),
    Setting("loss-scale", "a large vocabulary, and no loss scale", gpt2(16, 1, 2, 50257),
            "--seq 64 --global-batch 16 --lr 1e-3 --lr-schedule cosine --eval-batches 4",
            UNSCALED, (),
            """\
Backward starts from the gradient of a mean, so every gradient carries a factor of 1 / tokens of the batch, and fp16 has nothing below 2^-24. With GPT-2's
50,257 tokens and 1,024 of them in a step, the gradient of a logit is p / 1024, which is 0 in fp16 once the probability p is below 2^-15: nothing pushes
unlikely tokens down, only those that occur are pulled up. *flushed: parameters* is the share of gradients, of the table above all, that fp16 has no number
for. The loss scale, a power of two on everything, costs no bit and brings them back. bf16 has the range and needs none; that its 8 bits cost something
with so narrow a model is another matter, and has no bar here.""", tokenizer="gpt2-bpe", near=(FP16,)),
    Setting("accumulation", "a long sum, accumulated in 16 bits", gpt2(16, 1, 1),
            "--seq 4 --global-batch 4096 --groups 1 --optimizer sgd --momentum 0.9 --clip 0 --weight-decay 0 --lr 0.01 "
            "--lr-schedule constant --warmup 0 --eval-batches 4",
            ROUNDED_SUM, (),
            """\
One group of 4096 short sequences, whose gradient is rounded to bf16 after each of them (`--micro-batch` has no say in it). Once the sum is 2^9 times as
large as what a sequence adds, it stands still: the gradient comes out too short, by the factor in the last column. SGD takes that length as it is; AdamW would
divide by it. The policy adds up in fp32."""),
]

PAGE = """# What 16-bit training does to learning

Small GPT-2 models on {text} (the last 5 % are held out), {steps} steps each, `lockstep train` with the options that are named. bf16 and
fp16 with their whole policy ([precision.md](../explain/precision.md)) may be {near:g} % apart from fp32; the next row leaves a part of the policy out and must end at
least {worse:g} % above. The telemetry (`--numerics`) of the same runs says why:

- *flushed*: gradients of parameters, and of activations where they enter a block, that are 0 in the type of the policy, of those that are not 0;
- *lost*: weights that an update which was not 0 left as they were;
- *gradient*: its length over that of fp32 in the first step, where the weights are the same.

Shares are those of the worst block of the model, as a mean over the {records} records of a run.
"""

# Seen once while settings were looked for, with tinyshakespeare.txt; not repeated by this program.
TRIED = """
## fp16 without a loss scale: where it shows

Found while settings were looked for: one run of each beside fp32, one layer. There were no other seeds, so small differences of either sign may be chance.
With bytes the difference is large early, where the batch is large, and closes later; with a large vocabulary it stays.

| vocabulary | width | tokens of a step | seq | lr | other | steps | beside fp32 |
|---|---|---|---|---|---|---|---|
| bytes | 32 | 8,192 | 256 | 2e-3 | 2 layers | 600 | -0.24 % |
| bytes | 32 | 8,192 | 64 | 6e-3 | | 1000 | +0.71 % |
| bytes | 32 | 8,192 | 256 | 6e-3 | | 1000 | +0.59 % |
| bytes | 32 | 16,384 | 64 | 4e-3 | weight decay 1 | 400 of 1000 | -1.02 % (+1.58 % at 100) |
| bytes | 32 | 65,536 | 64 | 3e-3 | | 200 of 1000 | +1.42 % (+4.27 % at 100, +3.17 % at 150) |
| bytes | 32 | 65,536 | 64 | 4e-4 | | 650 of 1000 | +2.50 % (+5.37 % at 350) |
| bytes, table of 4,096 rows | 32 | 2,048 | 64 | 3e-3 | | 200 | +1.08 % |
| bytes, table of 4,096 rows | 32 | 4,096 | 64 | 3e-3 | | 400 | +0.33 % |
| GPT-2's | 32 | 256 | 64 | 1e-3 | | 100 | +0.11 % |
| GPT-2's | 32 | 2,048 | 64 | 1e-3 | | 300 of 1000 | +7.64 % |
| GPT-2's | 16 | 2,048 | 64 | 1e-3 | | 300 of 1000 | +14.56 % |
| GPT-2's | 16 | 2,048 | 64 | 3e-4 | | 300 of 1000 | +10.36 % |
| GPT-2's | 16 | 1,024 | 64 | 1e-3 | the setting above | 600 of 1000 | +9.13 % |
"""

FOOT = """
## How

This page and its pictures are what

    {command}

wrote on {machine}{where}; it fails where a figure is not as it should be. `chain` gives
fp32, bf16 and fp16 the same bits on every machine, so others find the same figures. Complete runs stay in the build folder and are not repeated by the
same program; `EXPERIMENT_ARGS="--only {first}"` makes one setting alone, and a page of it: name another folder with `--out`.
"""


# ---- running -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Run:
    validation: dict  # losses by step
    norms: dict
    grad_flushed: float
    act_flushed: float
    lost: float


def worst_share(records, member):
    """Mean over the steps of the worst block's share; None where none was recorded."""
    by_step = {}
    for record in records:
        if member in record:
            by_step[record["step"]] = max(by_step.get(record["step"], 0), record[member])
    return sum(by_step.values()) / len(by_step) if by_step else None


def read_run(folder):
    lines = list(read_lines(folder))
    records = [line for line in lines if "numerics" in line]
    return Run(validation={line["step"]: line["val_loss"] for line in lines if "val_loss" in line},
               norms={line["step"]: line["norm"] for line in read_steps(folder)},
               grad_flushed=worst_share(records, "grad_flushed"), act_flushed=worst_share(records, "act_flushed"),
               lost=worst_share(records, "lost"))


def tokenizer_of(setting):
    return setting.tokenizer if setting.tokenizer == "bytes" else os.path.join(os.environ.get("TEST_DATA", ""), setting.tokenizer)


def train(args, setting, policy):
    """A run that is complete in --runs is read again rather than repeated."""
    out = os.path.join(args.runs, f"{setting.name}-{policy.name.replace(' ', '-')}")
    done = os.path.join(out, "complete")
    every = max(1, args.steps // RECORDS)
    shape = os.path.join(args.runs, f"{setting.name}.json")
    command = [args.lockstep, "train", "--model", shape, "--data", args.text, "--tokenizer", tokenizer_of(setting), "--out", out, "--keep", "1",
               "--steps", str(args.steps), "--numerics", str(every), "--eval-every", str(every), *setting.flags.split(),
               *policy.flags.split()]
    # Not part of what a run is: threads change no bit.
    threads = ["--threads", str(args.threads)] if args.threads else []
    told = f"{args.digests} {setting.shape} {' '.join(command)}"
    if os.path.exists(done):
        with open(done) as file:
            if file.read() == told:
                return read_run(out)
    shutil.rmtree(out, ignore_errors=True)
    with open(shape, "w") as file:
        json.dump(setting.shape, file)
    began = time.monotonic()
    found = subprocess.run(command + threads, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": args.runs})
    if found.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}\n{found.stderr.strip()}")
    with open(done, "w") as file:
        file.write(told)
    run = read_run(out)
    print(f"{setting.name}: {policy.name}: validation loss {run.validation[args.steps]:.5f}, {time.monotonic() - began:.0f} s", flush=True)
    return run


def runs_of(args, setting):
    """What must be apart first: a setting that shows nothing is seen early."""
    runs = {policy: train(args, setting, policy) for policy in (FP32, setting.worse, BF16, FP16, *setting.others)}
    return {policy: runs[policy] for policy in (FP32, BF16, FP16, setting.worse, *setting.others)}


def own_text(folder):
    """As the demo has it."""
    root = os.path.join(HERE, "..")
    found = [path for pattern in ("README.md", "docs/*.md", "docs/*/*.md", "include/*.h", "src/*/*.[ch]", "src/*/*/*.[ch]")
             for path in sorted(glob.glob(os.path.join(root, pattern))) if not path.endswith("precision-experiments.md")]
    out = os.path.join(folder, "text.txt")
    with open(out, "wb") as file:
        for path in found:
            with open(path, "rb") as part:
                file.write(part.read())
    return out


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


# ---- telling -------------------------------------------------------------------------------------------------------------


def percent(share):
    return "–" if share is None else "0" if share == 0 else "< 0.01 %" if share < 1e-4 else f"{100 * share:.2g} %"


def judge(setting, policy, apart):
    if policy in setting.near:
        return f"within {100 * NEAR:g} %: {'ok' if abs(apart) <= NEAR else 'MISSED'}"
    if policy == setting.worse:
        return f"at least {100 * WORSE:g} % above: {'ok' if apart >= WORSE else 'MISSED'}"
    return ""


def table_of(setting, runs, steps):
    base = runs[FP32]
    lines = ["| policy | validation loss | beside fp32 | bar | flushed: parameters | activations | lost | gradient |",
             "|---|---|---|---|---|---|---|---|"]
    missed = 0
    for policy, run in runs.items():
        loss = run.validation[steps]
        apart = loss / base.validation[steps] - 1
        verdict = judge(setting, policy, apart)
        missed += "MISSED" in verdict
        lines.append(f"| {policy.name} | {loss:.4f} | {'' if policy == FP32 else f'{100 * apart:+.2f} %'} | {verdict} | {percent(run.grad_flushed)} | "
                     f"{percent(run.act_flushed)} | {percent(run.lost)} | {run.norms[1] / base.norms[1]:.3f} |")
    return lines, missed


def counted(number, what):
    return f"{number} {what}{'' if number == 1 else 's'}"


def results_of(out, setting):
    return os.path.join(out, "precision-experiments", setting.name + ".json")


def keep(out, setting, losses):
    """Validation losses by policy and step, for the picture."""
    os.makedirs(os.path.join(out, "precision-experiments"), exist_ok=True)
    with open(results_of(out, setting), "w", encoding="utf-8") as file:
        rows = (f'  {json.dumps(name)}: {json.dumps(found)}' for name, found in losses.items())
        file.write("{\n" + ",\n".join(rows) + "\n}\n")


def draw(out, setting):
    with open(results_of(out, setting), encoding="utf-8") as file:
        losses = {name: {int(step): loss for step, loss in found.items()} for name, found in json.load(file).items()}
    base = losses[FP32.name]
    # The first evaluations are far apart for many reasons; the picture is about where runs end.
    worst = max(100 * (found[step] / base[step] - 1) for found in losses.values() for step in base if step > max(base) / 4)
    title = setting.title[0].upper() + setting.title[1:]
    chart.draw_against(os.path.join(out, "precision-experiments", setting.name + ".svg"), title,
                       f"nats per {'byte' if setting.tokenizer == 'bytes' else 'token'}", list(losses.items()), max(3, worst * 1.1))


def section(args, setting, runs):
    lines, missed = table_of(setting, runs, args.steps)
    keep(args.out, setting, {policy.name: run.validation for policy, run in runs.items()})
    draw(args.out, setting)
    shape = setting.shape
    text = [f"\n## {setting.title[0].upper()}{setting.title[1:]}\n", setting.why + "\n", *lines,
            f"\n{counted(shape['layers'], 'layer')} of width {shape['width']}, {counted(shape['heads'], 'head')}, "
            f"{'bytes' if setting.tokenizer == 'bytes' else 'vocabulary of GPT-2'};", f"`{setting.flags}`;",
            "policies: " + ", ".join(f"{policy.name} `{policy.flags}`" for policy in runs if policy.flags) + ".",
            f"\n![Validation losses, and how far they are above fp32](precision-experiments/{setting.name}.svg)"]
    return "\n".join(text) + "\n", missed


def write_page(args, sections):
    text = os.path.basename(args.text)
    own = text == "text.txt"
    page = PAGE.format(text="this project's own text" if own else text, steps=args.steps, near=100 * NEAR, worse=100 * WORSE, records=RECORDS)
    page += "".join(sections) + TRIED
    page += FOOT.format(command="make experiment-precision" if own else "TEST_DATA=FOLDER make experiment-precision", machine=platform.machine(),
                        where="" if own else f", FOLDER being that of {text}", first=SETTINGS[0].name)
    with open(os.path.join(args.out, "precision-experiments.md"), "w") as file:
        file.write(page)


def arguments():
    names = [setting.name for setting in SETTINGS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="LIST", default=",".join(names), help="settings, separated by commas: " + ", ".join(names))
    parser.add_argument("--steps", type=int, default=0, help="default 1000, with --quick 3")
    parser.add_argument("--text", help="instead of tinyshakespeare.txt in TEST_DATA")
    parser.add_argument("--out", default=os.path.join(HERE, "..", "docs", "log"))
    parser.add_argument("--runs", metavar="FOLDER", help="keep the runs there; those that are complete are not repeated")
    parser.add_argument("--threads", type=int, help="of each run; all cores if not given")
    parser.add_argument("--lockstep", default="./lockstep")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    args.steps = args.steps or (3 if args.quick else 1000)
    args.wanted = args.only.split(",")
    unknown = [name for name in args.wanted if name not in names]
    if unknown:
        parser.error(f"--only {','.join(unknown)}: unknown; there are {', '.join(names)}")
    if args.text is None and os.environ.get("TEST_DATA"):
        args.text = os.path.join(os.environ["TEST_DATA"], "tinyshakespeare.txt")
    if args.text and not os.path.isfile(args.text):
        parser.error(f"there is no {args.text}; name a text with --text, or its folder with TEST_DATA")
    return args


def main():
    args = arguments()
    sections, missed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        args.runs = os.path.abspath(args.runs or folder)
        os.makedirs(args.runs, exist_ok=True)
        args.text = args.text or own_text(args.runs)
        args.digests = f"{digest(args.lockstep)} {digest(args.text)}"
        for setting in SETTINGS:
            if setting.name in args.wanted and setting.tokenizer != "bytes" and not os.path.isdir(tokenizer_of(setting)):
                print(f"{setting.name}: left out, it needs the folder {setting.tokenizer} in TEST_DATA with the vocabulary of GPT-2")
            elif setting.name in args.wanted:
                found, bad = section(args, setting, runs_of(args, setting))
                sections.append(found)
                missed += bad
    write_page(args, sections)
    print(f"experiment-precision: {missed} expectations missed" if missed else "experiment-precision: all as expected")
    sys.exit(1 if missed and not args.quick else 0)


if __name__ == "__main__":
    main()
