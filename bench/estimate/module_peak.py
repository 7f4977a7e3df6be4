#!/usr/bin/python3
"""The most bytes that eager PyTorch holds while it trains a module as its users write it, on the CPU:

    module_peak.py NAME FOLDER BATCH OPTIMIZER...

NAME is a network of torchvision or one of those below. Writes FOLDER/NAME.onnx if it is not there, as
torch.onnx.export writes it with batch normalisation as it is (training=PRESERVE, no constant folding),
then prints a line `OPTIMIZER BYTES` for each optimizer. Counted is what pytorch_peak.py counts.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
torch.set_num_threads(1)


class Lstm(nn.Module):
    """Two layers of width 256 over bytes."""

    def __init__(self, width=256, length=64):
        super().__init__()
        self.words, self.lstm, self.head = nn.Embedding(256, width), nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, 256)

    def forward(self, x):
        return self.head(self.lstm(self.words(x))[0])


class Bert(nn.Module):
    """Four encoder layers of PyTorch's own, without dropout."""

    def __init__(self, width=256, length=128):
        super().__init__()
        layer = lambda: nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.words, self.places = nn.Embedding(8000, width), nn.Parameter(torch.zeros(length, width))
        self.layers = nn.ModuleList(layer() for _ in range(4))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        x = self.words(x) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


def made(name, batch):
    """The network, a batch and the extents of its labels."""
    words = torch.randint(0, 256, (batch, 128))
    if name == "lstm":
        return Lstm(), words[:, :64], 256
    if name == "bert-small":
        return Bert(), words, 2
    if name in ("gpt-tiny", "unet"):
        from training_torch import Gpt, Unet
        return (Gpt(), words, 256) if name == "gpt-tiny" else (Unet(), torch.rand(batch, 3, 128, 128), 2)
    side = 299 if name == "inception_v3" else 224
    more = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return getattr(torchvision.models, name)(weights=None, **more), torch.rand(batch, 3, side, side), 1000


def measure(net, x, classes, name):
    net.train()
    optimizer = {"sgd": lambda p: torch.optim.SGD(p, lr=1e-6), "momentum": lambda p: torch.optim.SGD(p, lr=1e-6, momentum=0.9),
                 "adam": lambda p: torch.optim.Adam(p, lr=1e-6), "adamw": lambda p: torch.optim.AdamW(p, lr=1e-6)}[name](net.parameters())
    with torch.no_grad():
        shape = net(x).shape
    tokens = len(shape) == 3
    labels = torch.randint(0, classes, shape[:2] if tokens else shape[:1] + shape[2:])
    there = [x, labels, *net.parameters(), *net.buffers()]
    now = most = sum(t.numel() * t.element_size() for t in there)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            scores = net(x)
            F.cross_entropy(scores.flatten(0, 1) if tokens else scores, labels.flatten() if tokens else labels).backward()
            optimizer.step()
            del scores
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    optimizer.zero_grad(set_to_none=True)
    return most


def main():
    name, folder, batch, optimizers = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    torch.manual_seed(1)
    net, x, classes = made(name, batch)
    path = pathlib.Path(folder, name + ".onnx")
    if not path.exists():
        with torch.no_grad():  # the exporter makes one of parameters that are equal
            for tensor in list(net.parameters()) + list(net.buffers()):
                if tensor.is_floating_point() and tensor.dim() <= 2:
                    tensor += 0.01 * torch.rand_like(tensor)
        torch.onnx.export(net.eval(), x, str(path), opset_version=13, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.PRESERVE, dynamic_axes={"input": {0: "N"}}, input_names=["input"])
    for optimizer in optimizers:
        print(optimizer, measure(net, x, classes, optimizer), flush=True)


main()
