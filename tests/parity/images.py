#!/usr/bin/env python3
"""images.py: training runs of image models beside PyTorch: the same initial weights, images, order and settings, step by step.

LeNet in both forms, plain layers, and ResNet-18 with both stems. Where a step is one ghost group, batch norm is PyTorch's own; where
it is several, each goes through PyTorch's batch norm by itself and the running statistics follow the mean of theirs. At every
step the losses may differ by 1e-3, relative, at the first by 1e-5, and by the resolution of float32 near 1: a loss is the logarithm of a
probability near 1 once a model knows its images by heart. Running statistics may differ at the end by 1e-3 of what they moved; how far the
weights are apart is shown.

    BUILD=build tests/parity/images.py [--steps N] [--only TEXT]
"""
import argparse
import os
import struct
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file

import ours
from image_models import LeNet, Plain, ResNet, get, put

SEED, COUNT, FIRST, LIMIT, RESOLUTION = 7, 200, 1e-5, 1e-3, 2.0**-23
MEAN, STD = 0.1307, 0.3081  # of IDX files


def write_idx(folder, side):
    """Blobs whose place tells the class, in the format of MNIST."""
    draw = numpy.random.default_rng(3)
    for name, count in (("train", COUNT), ("t10k", 20)):
        labels = draw.integers(0, 10, count)
        y, x = numpy.mgrid[0:side, 0:side]
        at = (labels[:, None, None] // 4 + 0.5) * side / 3, (labels[:, None, None] % 4 + 0.5) * side / 4
        pixels = 200 * numpy.exp(-((y - at[0]) ** 2 + (x - at[1]) ** 2) / side) + draw.integers(0, 55, (count, side, side))
        with open(os.path.join(folder, f"{name}-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">4I", 0x803, count, side, side) + pixels.astype(numpy.uint8).tobytes())
        with open(os.path.join(folder, f"{name}-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + labels.astype(numpy.uint8).tobytes())
        if name == "train":
            kept = pixels.astype(numpy.uint8), labels
    images = (torch.from_numpy(kept[0]).double() / 255 - MEAN) / STD
    return images.float()[:, None], torch.from_numpy(kept[1]).long()


class Dropped(Plain):
    """A quarter of what hidden layers give is dropped, drawn as docs/reference/arithmetic.md has it; every call is a step."""
    step = 0

    def drop(self, x, number):
        n = x.numel()
        words = [word for b in range((n + 3) // 4) for word in ours.random_block(SEED, 0x44454E53 + number, self.step, b)]
        kept = torch.tensor([word >= 2 ** 30 for word in words[:n]]).reshape(x.shape)
        return x * kept / 0.75

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).flatten(1)
        for i in range(1, len(self.widths) - 1):
            x = self.drop(torch.relu(getattr(self, f"fc{i}")(x)), i)
        self.step += 1
        return getattr(self, f"fc{len(self.widths) - 1}")(x)


# ---- both sides ------------------------------------------------------------------------------------------------------------------


def train_pytorch(model, images, labels, batch, steps, lr):
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 1e-3}, {"params": others, "weight_decay": 0}]
    optimizer, losses = torch.optim.SGD(groups, lr=lr, momentum=0.9), []
    sampler = ours.Sampler(SEED, COUNT + 1, 1)
    for step in range(steps):
        index = torch.tensor([sampler.start(step * batch + i) for i in range(batch)])
        loss = torch.nn.functional.cross_entropy(model(images[index]), labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_ours(folder, name, shape, data, batch, groups, steps, lr, flags):
    out, shape_file = os.path.join(folder, name), os.path.join(folder, "shape.json")
    ours.write_json(shape_file, shape)
    ours.run("lockstep", "train", "--model", shape_file, "--data", data, "--out", out, "--steps", steps, "--seed", SEED,
             "--global-batch", batch, "--groups", groups, "--optimizer", "sgd", "--momentum", 0.9, "--weight-decay", 1e-3,
             "--lr", lr, "--lr-schedule", "constant", "--warmup", 0, "--clip", 0, "--eval-every", 0, *flags)
    return out, load_file(ours.weights_of(out, steps))


def apart(end, start, theirs, names):
    def size(values):
        return sum(v.double().pow(2).sum() for v in values) ** 0.5
    moved = size(end[n] - start[n] for n in names)
    return (size(end[n] - theirs[n].reshape(end[n].shape) for n in names) / moved).item() if moved > 0 else 0.0


def check(folder, name, shape, side, batch, groups, lr, make, steps, flags=()):
    data = os.path.join(folder, "idx")
    os.mkdir(data)
    images, labels = write_idx(data, side)
    shape = {**shape, "channels": 1, "image-height": side, "image-width": side, "classes": 10}
    _, start = train_ours(folder, "start", shape, data, batch, groups, 0, lr, flags)
    run, end = train_ours(folder, "run", shape, data, batch, groups, steps, lr, flags)
    model = make()
    put(model, start)
    losses = train_pytorch(model, images, labels, batch, steps, lr)
    found, theirs = ours.metrics(run)[0], get(model, start)
    errors = [max(abs(found[i + 1] - loss) - RESOLUTION, 0) / loss for i, loss in enumerate(losses)]
    running = [n for n in start if n.endswith((".mean", ".var"))]
    weights = [n for n in start if n not in running]
    followed = apart(end, start, theirs, running)
    bad = not errors[0] <= FIRST or not max(errors) <= LIMIT or not followed <= LIMIT
    text = f"; running statistics {followed:.1e}" if running else ""
    print(f"{name}: {steps} steps, loss {losses[0]:.4f} to {losses[-1]:.4f}; apart {errors[0]:.1e} at first, {max(errors):.1e} at most; "
          f"weights {apart(end, start, theirs, weights):.1e} of their way{text}{'  FAILED' if bad else ''}", flush=True)
    return bad


CASES = [
    ("lenet", {"arch": "lenet"}, 28, 24, 8, 0.01, lambda: LeNet(False, 28)),
    ("lenet with sigmoids and means", {"arch": "lenet", "sigmoid": True}, 28, 24, 3, 0.5, lambda: LeNet(True, 28)),
    ("plain layers", {"arch": "mlp", "widths": "40,30"}, 12, 20, 4, 0.05, lambda: Plain([40, 30], 12)),
    ("plain layers with dropout", {"arch": "mlp", "widths": "40,30"}, 12, 20, 4, 0.05, lambda: Dropped([40, 30], 12),
     ("--dropout", "0.25", "--dp", "2")),
    ("resnet18, one ghost group", {"arch": "resnet18", "small": True}, 16, 16, 1, 0.00001, lambda: ResNet(True, 16, 16)),
    ("resnet18, two ghost groups", {"arch": "resnet18", "small": True}, 16, 32, 2, 0.00001, lambda: ResNet(True, 16, 32)),
    ("resnet18 with the large stem", {"arch": "resnet18", "small": False}, 64, 16, 2, 0.00001, lambda: ResNet(False, 8, 16)),
    # As one device has it, from three workers and eight groups.
    ("resnet18, norm over the batch", {"arch": "resnet18", "small": True}, 16, 16, 8, 0.00001, lambda: ResNet(True, 16, 16),
     ("--bn", "sync", "--dp", "3")),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--only", default="", help="only models whose name has this text")
    args = parser.parse_args()
    cases, failed = [case for case in CASES if args.only in case[0]], 0
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            failed += check(folder, *case[:7], args.steps, *case[7:])
    print(f"images: {len(cases)} runs, {failed} failures")
    sys.exit(1 if failed or not cases else 0)


main()
