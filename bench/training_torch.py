#!/usr/bin/python3
"""A training step of one network in PyTorch, on the CPU; for bench/training.c.

    training_torch.py NAME DIR BATCH THREADS REPEAT [processor]

NAME is gpt-tiny, gpt-small, gpt-dropout, unet or a network of torchvision, of images or of clips
(r3d_18: 16 pictures of 112 x 112).
Writes DIR/NAME.onnx if it is not there (REPEAT 0: that is all), then prints the fastest step in
milliseconds (`processor`: of processor time), and the most bytes that tensors of a step held at once with parameters, statistics and
velocities: what is there before a step, and on top the allocations and frees that the profiler tells.
Needs python3-torch and python3-torchvision.
"""
import os
import sys
import time

# Debian's PyTorch multiplies matrices with OpenBLAS, whose threads torch.set_num_threads does not
# reach: left alone it takes every core whatever is asked for.
if __name__ == "__main__":  # module_peak.py borrows the networks
    os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[4]

import torch
import torchvision
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.drop = drop
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.into(self.before(x)).split(c, 2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        score = q @ k.transpose(2, 3) * (c // self.heads) ** -0.5 + mask
        seen = self.drop(score.softmax(3)) @ v
        x = x + self.drop(self.out(seen.transpose(1, 2).reshape(b, t, c)))
        return x + self.drop(self.narrow(nn.functional.gelu(self.wide(self.between(x)))))


class Gpt(nn.Module):
    """Blocks over bytes; gpt-tiny: four of width 256. Dropout lies where GPT-2 has it."""

    def __init__(self, width=256, heads=8, length=128, depth=4, dropout=0):
        super().__init__()
        self.drop = nn.Dropout(dropout) if dropout else nn.Identity()
        self.words, self.places = nn.Embedding(256, width), nn.Parameter(torch.zeros(length, width))
        nn.init.normal_(self.words.weight, std=0.05)
        self.blocks = nn.ModuleList(Block(width, heads, self.drop) for _ in range(depth))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 256)
        self.register_buffer("mask", torch.full((length, length), -1e9).triu(1))

    def forward(self, x):
        x = self.drop(self.words(x) + self.places)
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.last(x))


class Unet(nn.Module):
    """Four levels from 32 channels, two classes a pixel."""

    def __init__(self, width=32, depth=4):
        super().__init__()
        pair = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(),
                                          nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        sizes = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList(pair(a, b) for a, b in zip([3] + sizes, sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * s, s, 2, 2) for s in sizes[:-1])
        self.join = nn.ModuleList(pair(2 * s, s) for s in sizes[:-1])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        kept = []
        for i, pair in enumerate(self.down):
            x = pair(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([kept[i], self.up[i](x)], 1))
        return self.head(x)


GPTS = {"gpt-tiny": {}, "gpt-small": dict(width=128, heads=4, length=64, depth=2),
        "gpt-dropout": dict(dropout=0.1)}


def made(name, batch):
    """The network, a batch and its labels."""
    if name in GPTS:
        net = Gpt(**GPTS[name])
        words = torch.randint(0, 256, (batch, net.places.shape[0]))
        return net, words, torch.randint(0, 256, words.shape)
    if name == "unet":
        return Unet(), torch.rand(batch, 3, 128, 128), torch.randint(0, 2, (batch, 128, 128))
    if hasattr(torchvision.models.video, name):
        net = getattr(torchvision.models.video, name)(weights=None)
        return net, torch.rand(batch, 3, 16, 112, 112), torch.randint(0, 400, (batch,))
    net = getattr(torchvision.models, name)(weights=None)
    return net, torch.rand(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))


def export(name, folder, net, x):
    """Writes the network where it is not there yet."""
    path = os.path.join(folder, name + ".onnx")
    if os.path.exists(path):
        return
    with torch.no_grad():  # the exporter makes one of parameters that are equal
        for tensor in list(net.parameters()) + list(net.buffers()):
            if tensor.is_floating_point() and tensor.dim() == 1:
                tensor += 0.01 * torch.rand_like(tensor)
    # An export for inference leaves dropout out.
    mode = torch.onnx.TrainingMode
    torch.onnx.export(net.eval(), x, path, opset_version=13, do_constant_folding=False,
                      training=mode.TRAINING if name == "gpt-dropout" else mode.PRESERVE)


def peak_of(step, net, optimizer):
    """The most bytes held at once in a step that begins without gradients."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as profile:
        step()
    moves = sorted((event.time_range.start, event.self_cpu_memory_usage)
                   for event in profile.events() if event.self_cpu_memory_usage)
    if not moves:
        sys.exit("the profiler told no allocation")
    held = peak = 0
    for _, size in moves:
        held += size
        peak = max(peak, held)
    there = list(net.parameters()) + list(net.buffers())
    there += [v for state in optimizer.state.values() for v in state.values()
              if torch.is_tensor(v)]
    return peak + sum(t.numel() * t.element_size() for t in there)


def main():
    name, folder, batch, threads, repeat = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    clock = time.process_time if sys.argv[6:] == ["processor"] else time.perf_counter
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net, x, labels = made(name, batch)
    export(name, folder, net, x)
    if repeat == 0:
        return
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        scores = net(x)
        if name in GPTS:
            scores = scores.transpose(1, 2)
        nn.functional.cross_entropy(scores, labels).backward()
        optimizer.step()

    best = float("inf")
    for _ in range(repeat + 1):  # the first makes the velocities
        start = clock()
        step()
        best = min(best, clock() - start)
    optimizer.zero_grad(set_to_none=True)
    peak = peak_of(step, net, optimizer)
    print(f"torch_ms {best * 1e3} torch_peak {peak}")


if __name__ == "__main__":
    main()
