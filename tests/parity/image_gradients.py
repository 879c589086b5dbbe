#!/usr/bin/env python3
"""image_gradients.py: logits, loss, every gradient and the running statistics of image models against PyTorch in float64.

For each model, random weights and images go to the program `gradients` and to PyTorch. Checked for each tensor:

    ‖ours − reference‖ / ‖reference‖ ≤ 1e-5; where PyTorch in fp32 is not that near itself, at most twice its distance

A ReLU has no gradient where its input is 0, and one that is as near to it as rounding errors goes either way: one of them moves gradients
of a ResNet by 5e-3, in PyTorch as here. So images are drawn until no input of any ReLU is that near to 0.

Then the bits: every micro-batch, number of threads and instruction set must give the same files. At the end a table with both
distances of each model.

    BUILD=build tests/parity/image_gradients.py [--only TEXT]
"""
import os
import sys

import numpy
import torch
from safetensors.torch import load_file, save_file

import image_models as models
import ours
import plain

LIMIT, TIMES_PYTORCH = 1e-5, 2.0
NEAR, TRIES = 4e-6, 200  # to 0, as a part of the deviation of all inputs of a ReLU

# name, shape, side, channels, B, groups, images of a ghost group, first seed to try for the images, model
CASES = [
    ("lenet", {"arch": "lenet"}, 28, 1, 24, 8, 3, 1, lambda: models.LeNet(False, 28)),
    ("lenet, colour, 36 pixels", {"arch": "lenet"}, 36, 3, 10, 4, 1, 0, lambda: models.LeNet(False, 36, 3)),
    ("lenet-sigmoid", {"arch": "lenet", "sigmoid": True}, 28, 1, 24, 3, 8, 0, lambda: models.LeNet(True, 28)),
    ("mlp", {"arch": "mlp", "widths": "256"}, 28, 1, 24, 4, 6, 0, lambda: models.Plain([256], 28)),
    ("mlp, three layers", {"arch": "mlp", "widths": "77,45,30"}, 9, 3, 21, 3, 7, 0, lambda: models.Plain([77, 45, 30], 9, 3)),
    ("resnet18", {"arch": "resnet18", "small": True}, 32, 3, 2, 1, 2, 26, lambda: models.ResNet(True, 2, 2, 3)),
    ("resnet18, 16 pixels", {"arch": "resnet18", "small": True}, 16, 3, 5, 1, 5, 11, lambda: models.ResNet(True, 5, 5, 3)),
    ("resnet18, two ghost groups", {"arch": "resnet18", "small": True}, 16, 1, 6, 2, 3, 18, lambda: models.ResNet(True, 3, 6)),
    ("resnet18-imagenet, 64 pixels", {"arch": "resnet18", "small": False}, 64, 3, 4, 1, 4, 0, lambda: models.ResNet(False, 4, 4, 3)),
    ("resnet18-imagenet, odd side", {"arch": "resnet18", "small": False}, 67, 3, 4, 2, 2, 6, lambda: models.ResNet(False, 2, 4, 3)),
]


def nearest(model, images):
    """How near an input of a ReLU comes to 0."""
    found, relu = [], torch.relu

    def watched(x):
        found.append((x.abs().min() / x.std()).item())
        return relu(x)
    torch.relu = watched
    with torch.no_grad():
        model(images)
    torch.relu = relu
    return min(found, default=1.0)


def names_of(model):
    tensors = dict(model.named_parameters()) | {n: b for n, b in model.named_buffers() if not n.endswith("num_batches_tracked")}
    return {n.replace("running_mean", "mean").replace("running_var", "var"): t for n, t in tensors.items()}


def random_weights(model, seed):
    """In our form: matrices [out][height, width, in]. Norms and biases are not those of a fresh model, so that all of them count."""
    draw, weights = torch.Generator().manual_seed(seed), {}
    for name, like in names_of(model).items():
        inputs = like[0].numel() if like.dim() > 1 else 1
        values = torch.randn(like.shape[0], inputs, generator=draw)
        if like.dim() > 1:
            weights[name] = values * (2 / inputs) ** 0.5
        elif name.endswith(".var") or "norm" in name and name.endswith(".weight"):
            weights[name] = 1 + 0.2 * values[:, 0].clamp(-2, 2)
        else:
            weights[name] = 0.2 * values[:, 0]
    return weights


class Case:
    def __init__(self, number, row, folder):
        self.name, shape, side, channels, self.B, self.G, self.ghost, seed, self.make = row
        self.weights = random_weights(self.make(), number)
        self.draw(seed, channels, side)
        files = ("shape.json", "weights.safetensors", "images.f32", "classes.i32", "out.safetensors", "logits.f32")
        self.files = [os.path.join(folder, name) for name in files]
        ours.write_json(self.files[0], {**shape, "channels": channels, "image-height": side, "image-width": side, "classes": 10})
        save_file(self.weights, self.files[1])
        self.images.permute(0, 2, 3, 1).contiguous().numpy().tofile(self.files[2])
        ours.write_ids(self.files[3], self.classes)

    def draw(self, first, channels, side):
        for self.seed in range(first, first + TRIES):
            draw, model = torch.Generator().manual_seed(self.seed), self.make()
            self.images = torch.randn(self.B, channels, side, side, generator=draw)
            self.classes = torch.randint(0, 10, (self.B,), generator=draw)
            models.put(model, self.weights)
            if nearest(model.double(), self.images.double()) > NEAR:
                return
        sys.exit(f"{self.name}: no images without an input near 0 in {TRIES} tries")

    def run(self, micro, threads, isa="auto"):
        """Hash of everything the program gives."""
        self.loss, bits = ours.gradients(self.files[:4], self.files[4:], (self.B, self.G, self.ghost, micro, threads), isa)
        return bits

    def found(self):
        logits = torch.from_numpy(numpy.fromfile(self.files[5], dtype=numpy.float32)).reshape(2, self.B, 10)
        return {**load_file(self.files[4]), "logits": logits[0], "logits, evaluated": logits[1], "loss": torch.tensor(self.loss)}

    def pytorch(self, dtype):
        model = self.make()
        models.put(model, self.weights)
        model.to(dtype)
        logits = model(self.images.to(dtype))
        loss = torch.nn.functional.cross_entropy(logits, self.classes)
        loss.backward()
        values = {name: tensor if tensor.grad is None else tensor.grad for name, tensor in names_of(model).items()}
        values = {name: t.permute(0, 2, 3, 1) if t.dim() == 4 else t for name, t in values.items()}
        model.eval()
        with torch.no_grad():
            evaluated = model(self.images.to(dtype))
        return {**values, "logits": logits.detach(), "logits, evaluated": evaluated, "loss": loss.detach()}

    def layouts(self):
        """(micro-batch, threads, instruction set); a micro-batch has whole ghost groups."""
        norms = any(".var" in name for name in self.weights)
        for micro in sorted({self.ghost, 2 * self.ghost, self.B} if norms else {1, 5, self.B}):
            if micro <= self.B:
                yield micro, 2, "auto"
        yield self.B, 1, "portable"


def compare(case):
    """(failures, the largest distance of ours and of PyTorch's for: logits, gradients, statistics)"""
    reference, fp32, found = case.pytorch(torch.float64), case.pytorch(torch.float32), case.found()
    if set(found) != set(reference):
        print(f"FAILED {case.name}: other tensors: {sorted(set(found) ^ set(reference))}")
        return 1, {}
    failed, most = 0, {}
    for name, expected in reference.items():
        mine, theirs = (plain.distance(values[name].reshape(expected.shape), expected) for values in (found, fp32))
        bad = not (mine <= LIMIT or theirs > LIMIT and mine <= TIMES_PYTORCH * theirs)
        kind = "logits" if name.startswith(("logits", "loss")) else "statistics" if name.endswith((".mean", ".var")) else "gradients"
        was = most.get(kind, (0, 0))
        most[kind] = max(was[0], mine), max(was[1], theirs)
        failed += bad
        if bad or mine > LIMIT:
            print(f"  {case.name}: {name}: {mine:.1e}, PyTorch {theirs:.1e}{'  FAILED' if bad else ''}")
    return failed, most


def main():
    failed, table = 0, []
    for number, row, folder in ours.each_case(CASES, 2):
        case = Case(number, row, folder)
        bits = case.run(case.B, 2)
        worse, most = compare(case)
        failed += worse + ours.other_bits(case.name, bits, [(layout, case.run(*layout)) for layout in case.layouts()])
        table.append((case.name, most, case.seed, bits))
    print(f"\n{'ours / PyTorch fp32':30} {'logits, loss':>17} {'gradients':>17} {'statistics':>17} {'seed':>4}  bits")
    for name, most, seed, bits in table:
        cells = [f"{most[k][0]:.1e} / {most[k][1]:.1e}" if k in most else "" for k in ("logits", "gradients", "statistics")]
        print(f"{name:30} {cells[0]:>17} {cells[1]:>17} {cells[2]:>17} {seed:4}  {bits}")
    print(f"image gradients: {len(table)} models, {failed} failures")
    sys.exit(1 if failed or not table else 0)


main()
