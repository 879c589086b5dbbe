#!/usr/bin/env python3
"""layers.py: every layer of image models by itself against PyTorch in float64: results and all gradients.

Convolutions of many windows, largest numbers and means, batch norm over ghost groups with its statistics and with running ones, ReLU,
sigmoid, dropout (its mask drawn once more, by ours.py), linear layers and the loss. Checked for each tensor:

    ‖ours − reference‖ / ‖reference‖ ≤ 1e-5; where PyTorch in fp32 is not that near itself, at most twice its distance

    BUILD=build tests/parity/layers.py [--only TEXT]
"""
import argparse
import os
import sys
import tempfile

import numpy
import torch

import ours
import plain

F = torch.nn.functional
LIMIT, TIMES_PYTORCH = 1e-5, 2.0


def last(x):
    """From PyTorch's order to channels last; others as they are."""
    return x.permute(0, 2, 3, 1) if x.dim() == 4 else x


class Layer:
    """Named inputs, the numbers for the program, and the function in PyTorch: from inputs to y. `also` gives more tensors to compare."""

    def __init__(self, name, kind, numbers, inputs, function, also=None):
        self.name, self.kind, self.numbers, self.inputs, self.function, self.also = name, kind, numbers, inputs, function, also

    def pytorch(self, dtype, dy):
        inputs = {n: t.to(dtype).requires_grad_() if t.is_floating_point() else t for n, t in self.inputs.items()}
        y = self.function(**inputs)
        dy = torch.ones_like(y) if dy is None else dy
        y.backward(dy.to(dtype))
        result = {"y": y.detach(), **{"d" + n: t.grad for n, t in inputs.items() if t.is_floating_point() and t.grad is not None}}
        return result | (self.also(**{n: t.detach() for n, t in inputs.items()}) if self.also else {})

    def check(self, folder, seed):
        """(failures, the largest distance of ours, of PyTorch's)"""
        draw = torch.Generator().manual_seed(seed)
        y = self.function(**self.inputs)
        dy = None if self.kind == "loss" else torch.randn(y.shape, generator=draw)
        for name, tensor in (self.inputs | ({} if dy is None else {"dy": dy})).items():
            is_id = not tensor.is_floating_point()
            values = last(tensor).contiguous().numpy().astype(numpy.int32 if is_id else numpy.float32)
            values.tofile(os.path.join(folder, name + (".i32" if is_id else ".f32")))
        ours.run("tests/parity/layers", folder, self.kind, *map(int, self.numbers))
        reference, fp32 = self.pytorch(torch.float64, dy), self.pytorch(torch.float32, dy)
        failed, most = 0, (0, 0)
        for name, expected in reference.items():
            found = torch.from_numpy(numpy.fromfile(os.path.join(folder, name + ".f32"), dtype=numpy.float32))
            expected = last(expected)
            mine, theirs = (plain.distance(v.reshape(expected.shape), expected) for v in (found, last(fp32[name])))
            bad = not (mine <= LIMIT or theirs > LIMIT and mine <= TIMES_PYTORCH * theirs)
            failed += bad
            most = max(most[0], mine), max(most[1], theirs)
            if bad:
                print(f"FAILED {self.name}: {name} is off by {mine:.1e}, PyTorch by {theirs:.1e}")
        return failed, most


def random(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- layers ----------------------------------------------------------------------------------------------------------------------


def conv(images, height, width, into, out, kernel, stride, pad):
    inputs = {"x": random(1, images, into, height, width), "w": random(2, out, into, *kernel), "b": random(3, out)}
    name = f"convolution {kernel[0]}×{kernel[1]}, stride {stride[0]} {stride[1]}, pad {pad[0]} {pad[1]}, {height}×{width}, {into} to {out}"
    return Layer(name, "conv", (images, height, width, into, out, *kernel, *stride, *pad), inputs,
                 lambda x, w, b: F.conv2d(x, w, b, stride, pad))


def pool(is_max, images, height, width, channels, kernel, stride, pad, count_pad=False):
    inputs = {"x": random(4, images, channels, height, width)}
    if is_max:
        def function(x):
            return F.max_pool2d(x, kernel, stride, pad)
    else:
        def function(x):
            return F.avg_pool2d(x, kernel, stride, pad, count_include_pad=count_pad)
    name = f"{'maximum' if is_max else 'mean'} {kernel[0]}×{kernel[1]}, stride {stride[0]} {stride[1]}, pad {pad[0]} {pad[1]}"
    name += f"{', pad counted' if count_pad else ''}{', whole image' if kernel == (height, width) else ''}"
    return Layer(name, "max" if is_max else "mean", (images, height, width, channels, *kernel, *stride, *pad, count_pad), inputs, function)


def norm(images, side, channels, ghost, relu):
    """Mean 3 and deviations from 0.5 on: sums of squares without the mean would lose digits."""
    x = 3 + random(5, images, channels, side, side) * torch.linspace(0.5, 2, channels)[:, None, None]
    inputs = {"x": x, "w": 1 + 0.3 * random(6, channels), "b": random(7, channels)}
    running = {"running_mean": random(8, channels), "running_var": 0.5 + random(9, channels).abs()}

    def activate(y):
        return torch.relu(y) if relu else y

    def function(x, w, b, **_):
        return activate(torch.cat([F.batch_norm(part, None, None, w, b, True) for part in x.split(ghost)]))

    def statistics(x, w, b, running_mean, running_var):
        parts = x.split(ghost)
        return {"mean": torch.stack([p.mean((0, 2, 3)) for p in parts]),
                "var": torch.stack([p.var((0, 2, 3), unbiased=False) for p in parts]),
                "inferred": activate(F.batch_norm(x, running_mean, running_var, w, b, False))}

    name = f"batch norm{' and ReLU' if relu else ''}, {images // ghost} ghost groups of {ghost}, {side}×{side}, {channels} channels"
    return Layer(name, "norm", (images, side * side, channels, ghost, relu), inputs | running, function, statistics)


def dropout(rows, columns, percent, seed, purpose, step, first):
    """Number i of 32 bits is word i mod 4 of block ⌊i/4⌋; an element is dropped where it is below the threshold."""
    numbers = range(first * columns, (first + rows) * columns)
    blocks = {b: ours.random_block(seed, purpose, step, b) for b in range(numbers[0] // 4, numbers[-1] // 4 + 1)}
    kept = torch.tensor([blocks[i // 4][i % 4] >= int(percent / 100 * 2 ** 32) for i in numbers]).reshape(rows, columns)
    share = kept.double().mean().item()
    assert abs(share - (1 - percent / 100)) < 0.05, share
    return Layer(f"dropout of {percent} %, {rows}×{columns}", "dropout", (rows, columns, seed, purpose, step, first, percent),
                 {"x": random(10, rows, columns)}, lambda x: x * kept / (1 - percent / 100))


def linear(rows, into, out):
    inputs = {"x": random(11, rows, into), "w": random(12, out, into), "b": random(13, out)}
    return Layer(f"linear, {rows} rows, {into} to {out}", "linear", (rows, into, out), inputs, lambda x, w, b: F.linear(x, w, b))


def flatten(images, side, channels, out):
    """A flattened image is the same memory, channels last: so the linear layer reads it as it is."""
    inputs = {"x": random(14, images, channels, side, side), "w": random(15, out, side * side * channels), "b": random(16, out)}
    return Layer(f"flatten and linear, {side}×{side}×{channels} to {out}", "linear", (images, side * side * channels, out), inputs,
                 lambda x, w, b: F.linear(x.permute(0, 2, 3, 1).flatten(1), w, b))


def loss(rows, classes, scale):
    targets = torch.randint(0, classes, (rows,), generator=torch.Generator().manual_seed(17))
    return Layer(f"loss, {rows} rows of {classes} classes, logits × {scale}", "loss", (rows, classes),
                 {"x": random(18, rows, classes) * scale, "targets": targets}, lambda x, targets: F.cross_entropy(x, targets, reduction="none"))


def layers():
    for into, out in ((1, 6), (3, 64), (7, 13), (64, 32)):
        yield conv(4, 15, 17, into, out, (3, 3), (1, 1), (1, 1))
        yield conv(3, 16, 16, into, out, (3, 3), (2, 2), (1, 1))
        yield conv(3, 13, 11, into, out, (1, 1), (1, 1), (0, 0))
        yield conv(3, 14, 15, into, out, (1, 1), (2, 2), (0, 0))
        yield conv(2, 28, 28, into, out, (5, 5), (1, 1), (2, 2))
        yield conv(2, 14, 14, into, out, (5, 5), (1, 1), (0, 0))
        yield conv(2, 35, 32, into, out, (7, 7), (2, 2), (3, 3))
    yield conv(3, 19, 23, 5, 9, (2, 5), (3, 1), (0, 4))
    yield conv(5, 4, 4, 128, 96, (3, 3), (2, 2), (1, 1))
    yield conv(4, 1, 1, 33, 20, (1, 1), (1, 1), (0, 0))
    for is_max in (True, False):
        yield pool(is_max, 3, 28, 28, 6, (2, 2), (2, 2), (0, 0))
        yield pool(is_max, 3, 17, 15, 7, (2, 2), (2, 2), (0, 0))
        yield pool(is_max, 2, 33, 32, 19, (3, 3), (2, 2), (1, 1))
        yield pool(is_max, 2, 12, 13, 5, (3, 2), (1, 3), (1, 0))
    yield pool(False, 2, 12, 13, 5, (3, 3), (2, 2), (1, 1), True)
    yield pool(False, 4, 4, 4, 512, (4, 4), (1, 1), (0, 0))
    yield pool(False, 4, 7, 5, 33, (7, 5), (1, 1), (0, 0))
    for images, side, channels, ghost in ((8, 8, 64, 8), (8, 8, 64, 2), (12, 5, 13, 4), (6, 1, 40, 3), (16, 16, 3, 16)):
        for relu in (False, True):
            yield norm(images, side, channels, ghost, relu)
    for sigmoid in (0, 1):
        yield Layer("sigmoid" if sigmoid else "ReLU", "act", (10007, sigmoid), {"x": 3 * random(19, 10007)},
                    torch.sigmoid if sigmoid else torch.relu)
    yield dropout(40, 84, 50, 7, 0x51, 3, 0)
    yield dropout(31, 121, 20, 1 << 40 | 5, 0x52, 1 << 33, 1013)
    yield linear(24, 400, 120)
    yield linear(1, 84, 10)
    yield linear(65, 33, 129)
    yield flatten(6, 5, 16, 120)
    yield loss(64, 10, 1)
    yield loss(7, 1000, 5)
    yield loss(9, 3, 40)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="only layers whose name has this text")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    failed, count, worst = 0, 0, (0, 0)
    for seed, layer in enumerate(layers()):
        if only not in layer.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            worse, most = layer.check(folder, 1000 + seed)
        print(f"{layer.name}: {most[0]:.1e}, PyTorch {most[1]:.1e}", flush=True)
        failed, count, worst = failed + worse, count + 1, tuple(map(max, worst, most))
    print(f"layers: {count} layers, {failed} failures; off by {worst[0]:.1e} at most, PyTorch by {worst[1]:.1e}")
    sys.exit(1 if failed or not count else 0)


main()
