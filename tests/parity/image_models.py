"""image_models.py: our image models written for PyTorch, with our names of parameters.

Each takes images [B][channels][height][width] and gives logits. Batch norm goes over ghost groups of images; where these are the
whole batch, it is PyTorch's own. put() and get() turn weights between our order, channels last, and PyTorch's.
"""
import torch


class GhostNorm(torch.nn.BatchNorm2d):
    """Statistics over ghost groups; running ones follow their mean."""

    def __init__(self, channels, ghost):
        super().__init__(channels, momentum=None)
        self.ghost = ghost

    def forward(self, x):
        if not self.training:
            return super().forward(x)
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
    def __init__(self, small, ghost, batch, channels=1):
        super().__init__()
        self.stem0 = torch.nn.Module()
        window = (3, 1, 1) if small else (7, 2, 3)
        self.stem0.conv = torch.nn.Conv2d(channels, 64, *window, bias=False)
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
    def __init__(self, sigmoid, side, channels=1):
        super().__init__()
        self.sigmoid, self.conv1, self.conv2 = sigmoid, torch.nn.Conv2d(channels, 6, 5, padding=2), torch.nn.Conv2d(6, 16, 5)
        last = (side // 2 - 4) // 2
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(16 * last * last, 120), torch.nn.Linear(120, 84), torch.nn.Linear(84, 10)

    def forward(self, x):
        act, pool = (torch.sigmoid, torch.nn.functional.avg_pool2d) if self.sigmoid else (torch.relu, torch.nn.functional.max_pool2d)
        x = pool(act(self.conv2(pool(act(self.conv1(x)), 2))), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # channels last
        return self.fc3(act(self.fc2(act(self.fc1(x)))))


class Plain(torch.nn.Module):
    def __init__(self, widths, side, channels=1):
        super().__init__()
        self.widths = [side * side * channels, *widths, 10]
        for i in range(len(self.widths) - 1):
            self.add_module(f"fc{i + 1}", torch.nn.Linear(self.widths[i], self.widths[i + 1]))

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).flatten(1)
        for i in range(len(self.widths) - 2):
            x = torch.relu(getattr(self, f"fc{i + 1}")(x))
        return getattr(self, f"fc{len(self.widths) - 1}")(x)


# ---- weights --------------------------------------------------------------------------------------------------------------------


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
