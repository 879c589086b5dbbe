"""The PyTorch side of bench/vision.py: LeNet or ResNet-18, SGD with momentum, one process that trains when asked to.

Usage: vision_pytorch.py lenet|resnet18 BATCH eager|channels-last|compiled THREADS. Writes "ready" after some steps that do not
count; then reads a number of steps from each line and writes for each of them the milliseconds it took and those of all its
threads together, as JSON. The images are made beforehand and do not count.
"""
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.side = None
        if stride != 1 or before != after:
            self.side = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)), inplace=True)))
        return F.relu(y + (x if self.side is None else self.side(x)), inplace=True)


class ResNet18(nn.Module):
    """With the stem for small images."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, blocks, before = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), [], 64
        for i in range(8):
            after = 64 << i // 2
            blocks.append(Residual(before, after, 2 if i > 0 and i % 2 == 0 else 1))
            before = after
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(512, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.norm(self.conv(x)), inplace=True))
        return self.head(x.mean((2, 3)))


def main():
    name, batch, mode, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, shape = (LeNet(), (1, 28, 28)) if name == "lenet" else (ResNet18(), (3, 32, 32))
    images, labels = [torch.randn(batch, *shape) for _ in range(4)], [torch.randint(0, 10, (batch,)) for _ in range(4)]
    if mode == "channels-last":
        model = model.to(memory_format=torch.channels_last)
        images = [x.contiguous(memory_format=torch.channels_last) for x in images]
    run = torch.compile(model) if mode == "compiled" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-3, fused=True)

    def step(i):
        start, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(run(images[i % 4]), labels[i % 4]).backward()
        optimizer.step()
        return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - used)

    for i in range(3):
        step(i)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps([step(i) for i in range(int(line))]), flush=True)


if __name__ == "__main__":
    main()
