#!/usr/bin/env python3
"""images.py: training runs of models of images beside PyTorch: the same initial weights, images, order and settings, step by step.

LeNet in both forms, plain layers, and ResNet-18 with both stems. Where a step is one ghost group, batch norm is PyTorch's own; where
it is several, each goes through PyTorch's batch norm by itself and the running statistics follow the mean of theirs. At every
step the losses may differ by 1e-3, relative, at the first by 1e-5; the distance of the final weights and of the running statistics,
as a part of what they moved, is shown.

    BUILD=build tests/parity/images.py [--steps N]
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

SEED, COUNT, FIRST, LIMIT = 7, 200, 1e-5, 1e-3
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


# ---- models ----------------------------------------------------------------------------------------------------------------------


class GhostNorm(torch.nn.BatchNorm2d):
    """Statistics over ghost groups; running ones follow their mean."""

    def __init__(self, channels, ghost):
        super().__init__(channels, momentum=None)
        self.ghost = ghost

    def forward(self, x):
        parts = x.split(self.ghost)
        means, variances = [p.mean((0, 2, 3)) for p in parts], [p.var((0, 2, 3)) for p in parts]
        with torch.no_grad():
            self.running_mean += 0.1 * (torch.stack(means).mean(0) - self.running_mean)
            self.running_var += 0.1 * (torch.stack(variances).mean(0) - self.running_var)
        return torch.cat([torch.nn.functional.batch_norm(p, None, None, self.weight, self.bias, True) for p in parts])


def norm_of(channels, ghost, batch):
    return torch.nn.BatchNorm2d(channels) if ghost == batch else GhostNorm(channels, ghost)


class Residual(torch.nn.Module):
    def __init__(self, before, after, stride, ghost, batch):
        super().__init__()
        conv = torch.nn.Conv2d
        self.conv1, self.conv2 = conv(before, after, 3, stride, 1, bias=False), conv(after, after, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = norm_of(after, ghost, batch), norm_of(after, ghost, batch)
        if stride != 1 or before != after:
            self.add_module("conv-side", conv(before, after, 1, stride, bias=False))
            self.add_module("norm-side", norm_of(after, ghost, batch))

    def forward(self, x):
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        side = getattr(self, "conv-side", None)
        return torch.relu(y + (x if side is None else getattr(self, "norm-side")(side(x))))


class ResNet(torch.nn.Module):
    def __init__(self, small, ghost, batch):
        super().__init__()
        self.stem0 = torch.nn.Module()
        self.stem0.conv = torch.nn.Conv2d(1, 64, 3, 1, 1, bias=False) if small else torch.nn.Conv2d(1, 64, 7, 2, 3, bias=False)
        self.stem0.norm, self.small, before = norm_of(64, ghost, batch), small, 64
        for i in range(8):
            after = 64 << i // 2
            self.add_module(f"res{i + 1}", Residual(before, after, 2 if i > 0 and i % 2 == 0 else 1, ghost, batch))
            before = after
        self.fc1 = torch.nn.Linear(512, 10)

    def forward(self, x):
        x = torch.relu(self.stem0.norm(self.stem0.conv(x)))
        x = x if self.small else torch.nn.functional.max_pool2d(x, 3, 2, 1)
        for i in range(8):
            x = getattr(self, f"res{i + 1}")(x)
        return self.fc1(x.mean((2, 3)))


class LeNet(torch.nn.Module):
    def __init__(self, sigmoid, side):
        super().__init__()
        self.sigmoid, self.conv1, self.conv2 = sigmoid, torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.Conv2d(6, 16, 5)
        last = (side // 2 - 4) // 2
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(16 * last * last, 120), torch.nn.Linear(120, 84), torch.nn.Linear(84, 10)

    def forward(self, x):
        act, pool = (torch.sigmoid, torch.nn.functional.avg_pool2d) if self.sigmoid else (torch.relu, torch.nn.functional.max_pool2d)
        x = pool(act(self.conv2(pool(act(self.conv1(x)), 2))), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # channels last
        return self.fc3(act(self.fc2(act(self.fc1(x)))))


class Plain(torch.nn.Module):
    def __init__(self, widths, side):
        super().__init__()
        self.widths = [side * side, *widths, 10]
        for i in range(len(self.widths) - 1):
            self.add_module(f"fc{i + 1}", torch.nn.Linear(self.widths[i], self.widths[i + 1]))

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).flatten(1)
        for i in range(len(self.widths) - 2):
            x = torch.relu(getattr(self, f"fc{i + 1}")(x))
        return getattr(self, f"fc{len(self.widths) - 1}")(x)


# ---- both sides ------------------------------------------------------------------------------------------------------------------


def theirs_of(name):
    return name.replace(".mean", ".running_mean").replace(".var", ".running_var")


def put(model, weights):
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    with torch.no_grad():
        for name, tensor in weights.items():
            to = tensors[theirs_of(name)]
            if to.dim() == 4:
                out, into, high, wide = to.shape
                tensor = tensor.reshape(out, high, wide, into).permute(0, 3, 1, 2)
            to.copy_(tensor.reshape(to.shape))


def get(model, names):
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    found = {name: tensors[theirs_of(name)].detach() for name in names}
    return {name: t.permute(0, 2, 3, 1) if t.dim() == 4 else t for name, t in found.items()}


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


def train_ours(folder, name, shape, data, batch, groups, steps, lr):
    out, shape_file = os.path.join(folder, name), os.path.join(folder, "shape.json")
    ours.write_json(shape_file, shape)
    ours.run("lockstep", "train", "--model", shape_file, "--data", data, "--out", out, "--steps", steps, "--seed", SEED,
             "--global-batch", batch, "--groups", groups, "--optimizer", "sgd", "--momentum", 0.9, "--weight-decay", 1e-3,
             "--lr", lr, "--lr-schedule", "constant", "--warmup", 0, "--clip", 0, "--eval-every", 0)
    return out, load_file(ours.weights_of(out, steps))


def apart(end, start, theirs, names):
    def size(values):
        return sum(v.double().pow(2).sum() for v in values) ** 0.5
    moved = size(end[n] - start[n] for n in names)
    return (size(end[n] - theirs[n].reshape(end[n].shape) for n in names) / moved).item() if moved > 0 else 0.0


def check(folder, name, shape, side, batch, groups, lr, make, steps):
    data = os.path.join(folder, "idx")
    os.mkdir(data)
    images, labels = write_idx(data, side)
    shape = {**shape, "channels": 1, "image-height": side, "image-width": side, "classes": 10}
    _, start = train_ours(folder, "start", shape, data, batch, groups, 0, lr)
    run, end = train_ours(folder, "run", shape, data, batch, groups, steps, lr)
    model = make()
    put(model, start)
    losses = train_pytorch(model, images, labels, batch, steps, lr)
    found, theirs = ours.metrics(run)[0], get(model, start)
    errors = [abs(found[i + 1] - loss) / loss for i, loss in enumerate(losses)]
    running = [n for n in start if n.endswith((".mean", ".var"))]
    weights = [n for n in start if n not in running]
    bad = not errors[0] <= FIRST or not max(errors) <= LIMIT
    text = f"; running statistics {apart(end, start, theirs, running):.1e}" if running else ""
    print(f"{name}: {steps} steps, loss {losses[0]:.4f} to {losses[-1]:.4f}; apart {errors[0]:.1e} at first, {max(errors):.1e} at most; "
          f"weights {apart(end, start, theirs, weights):.1e} of their way{text}{'  FAILED' if bad else ''}", flush=True)
    return bad


CASES = [
    ("lenet", {"arch": "lenet"}, 28, 24, 8, 0.01, lambda: LeNet(False, 28)),
    ("lenet with sigmoids and means", {"arch": "lenet", "sigmoid": True}, 28, 24, 3, 0.5, lambda: LeNet(True, 28)),
    ("plain layers", {"arch": "mlp", "widths": "40,30"}, 12, 20, 4, 0.05, lambda: Plain([40, 30], 12)),
    ("resnet18, one ghost group", {"arch": "resnet18", "small": True}, 16, 16, 1, 0.00001, lambda: ResNet(True, 16, 16)),
    ("resnet18, two ghost groups", {"arch": "resnet18", "small": True}, 16, 32, 2, 0.00001, lambda: ResNet(True, 16, 32)),
    ("resnet18 with the large stem", {"arch": "resnet18", "small": False}, 64, 16, 2, 0.00001, lambda: ResNet(False, 8, 16)),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    steps, failed = parser.parse_args().steps, 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            failed += check(folder, *case, steps)
    print(f"images: {len(CASES)} runs, {failed} failures")
    sys.exit(1 if failed else 0)


main()
