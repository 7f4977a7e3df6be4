#!/usr/bin/python3
"""The loss curve of `tenure train` and that of PyTorch: the same initial weights, the same batches.

    curve_torch.py TENURE FOLDER [--steps N] [--batch N] [--seed N] [--threads N] [--picture FILE]

A residual CNN is made in PyTorch and exported to FOLDER as ONNX with its initial weights. TENURE
trains that file on Fashion-MNIST with Adam, and so does PyTorch, which gets its batches in the order
that docs/training.md tells. The losses must agree within 1e-3 of the loss for the first ten steps;
after that rounding has its way with Adam, and means over 50 steps must agree within 5 %. Running
statistics must agree within 1e-3 after one step, and PyTorch must tell as many test pictures right as
TENURE when it is given what TENURE trained. (The shares of the two trainings are told, not compared:
after 50 steps PyTorch's own is 48 to 54 % from weights that differ by 1e-7 of themselves.)
Both curves are drawn to FILE (.svg or .png).
Exit status: 0 they agree, 1 not, 77 something is absent.
"""
import argparse
import copy
import gzip
import json
import os
import struct
import subprocess
import sys
import time

try:
    import numpy
    import torch
    from torch import nn
except ImportError:
    print("SKIP: python3-torch is not installed")
    sys.exit(77)

DATA = "/usr/share/datasets/fashion-mnist/"
FIRST, FIRST_LIMIT, WINDOW, LIMIT = 10, 1e-3, 50, 0.05
STATISTICS_LIMIT, TEST_LIMIT = 1e-3, 5e-4


# --- the network: that of examples/training/residual_cnn.c ---

class Block(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.one, self.norm_one = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.two, self.norm_two = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.across = nn.Identity() if stride == 1 and a == b else nn.Sequential(
            nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

    def forward(self, x):
        y = torch.relu(self.norm_one(self.one(x)))
        return torch.relu(self.norm_two(self.two(y)) + self.across(x))


class Residual(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
                                  nn.ReLU())
        self.blocks = nn.Sequential(Block(width, width, 1), Block(width, 2 * width, 2),
                                    Block(2 * width, 4 * width, 2))
        self.head = nn.Linear(4 * width, 10)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def export(net, path, batch):
    """As for inference, with parameters of their own: the exporter makes one of those that are equal."""
    with torch.no_grad():
        for tensor in list(net.parameters()) + list(net.buffers()):
            if tensor.is_floating_point() and tensor.dim() == 1:
                tensor += 0.01 * torch.rand_like(tensor)
    torch.onnx.export(net.eval(), torch.zeros(batch, 1, 28, 28), path, opset_version=13,
                      do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE,
                      input_names=["image"], output_names=["scores"])


# --- the data ---

def idx(name, head):
    with gzip.open(DATA + name + "-ubyte.gz") as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=head)


def pictures(name):
    images = idx(name + "-images-idx3", 16).reshape(-1, 1, 28, 28).astype(numpy.float32) / 255
    return images, idx(name + "-labels-idx1", 8).astype(numpy.int64)


def order(seed, epoch, count):
    """Fisher and Yates from the end, drawn from splitmix64."""
    mask, golden = (1 << 64) - 1, 0x9e3779b97f4a7c15
    state = seed ^ (golden * (epoch + 1) & mask)
    numbers = list(range(count))
    for i in range(count, 1, -1):
        state = (state + golden) & mask
        z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & mask
        z = (z ^ z >> 27) * 0x94d049bb133111eb & mask
        k = (z ^ z >> 31) * i >> 64
        numbers[i - 1], numbers[k] = numbers[k], numbers[i - 1]
    return numbers


# --- both runs ---

def train_torch(net, steps, batch, seed, rate):
    images, labels = pictures("train")
    per_epoch = len(labels) // batch
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    net.train()
    losses = []
    for step in range(steps):
        if step % per_epoch == 0:
            numbers = order(seed, step // per_epoch, len(labels))
        at = step % per_epoch * batch
        chosen = numbers[at:at + batch]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(torch.from_numpy(images[chosen])),
                                           torch.from_numpy(labels[chosen]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return numpy.array(losses)


def test_torch(net):
    images, labels = pictures("t10k")
    net.eval()
    with torch.no_grad():
        scores = [net(torch.from_numpy(part)) for part in numpy.split(images, 100)]
    return float((torch.cat(scores).argmax(1).numpy() == labels).mean())


def trained(path):
    """Parameters and statistics of a checkpoint by name; the format is told in tenure/train.h."""
    with open(path, "rb") as file:
        data = file.read()
    count, at, tensors = struct.unpack_from("<I", data, 12)[0], 80 + 13 * 8, {}  # the head, and the settings of version 4
    for _ in range(count):
        length = struct.unpack_from("<I", data, at)[0]
        name = data[at + 4:at + 4 + length].decode()
        at += length + 5
        role, _, rank = struct.unpack_from("<3I", data, at)
        shape = struct.unpack_from("<%dq" % rank, data, at + 12)
        size = struct.unpack_from("<Q", data, at + 12 + 8 * rank)[0]
        at += 20 + 8 * rank
        if role < 2:
            tensors[name] = torch.from_numpy(numpy.frombuffer(data, numpy.float32, size // 4, at)
                                             .reshape(shape).copy())
        at += size
    return tensors


def train_tenure(asked, model, steps):
    """Losses, what was told, and what was trained."""
    log, checkpoint = os.path.join(asked.folder, "curve.csv"), os.path.join(asked.folder, "curve.ck")
    out = subprocess.run(
        [asked.tenure, "train", model, "--data", "fashion-mnist", "--batch", str(asked.batch),
         "--steps", str(steps), "--optimizer", "adam", "--lr", str(asked.rate), "--seed",
         str(asked.seed), "--threads", str(asked.threads), "--log", log, "--checkpoint", checkpoint,
         "--json"],
        check=True, stdout=subprocess.PIPE).stdout
    return numpy.loadtxt(log, delimiter=",", skiprows=1, ndmin=2)[:, 1], json.loads(out), trained(checkpoint)


# --- what was trained ---

def statistics_apart(asked, model, net):
    """After one step of both, of the largest of each."""
    ours, theirs = train_tenure(asked, model, 1)[2], copy.deepcopy(net)
    train_torch(theirs, 1, asked.batch, asked.seed, asked.rate)
    return max(float((ours[name] - tensor).abs().max() / tensor.abs().max())
               for name, tensor in theirs.state_dict().items() if "running_" in name)


def test_ours(net, ours):
    """The share of PyTorch's evaluation of what tenure trained."""
    given = copy.deepcopy(net)
    told = given.load_state_dict(ours, strict=False)
    assert not told.unexpected_keys and all("num_batches" in name for name in told.missing_keys), told
    return test_torch(given)


# --- the picture ---

def smooth(losses):
    return numpy.convolve(losses, numpy.ones(WINDOW) / WINDOW, "valid")


def draw(path, ours, theirs, batch):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tenure", "font.size": 10})
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(8, 5.6), sharex=True,
                                             gridspec_kw={"height_ratios": [3, 1]})
    steps = numpy.arange(WINDOW, len(ours) + 1)
    every = max(1, len(steps) // 400)
    above.plot(steps[::every], smooth(theirs)[::every], color="#d98e04", linewidth=4, alpha=0.6,
               label="PyTorch")
    above.plot(steps[::every], smooth(ours)[::every], color="#1f4e79", linewidth=1.3,
               label="tenure train")
    above.set_ylabel("loss (mean of %d steps)" % WINDOW)
    above.set_title("residual CNN on Fashion-MNIST, Adam, batches of %d: the same weights at the start,\n"
                    "the same batches in the same order" % batch, fontsize=10)
    above.legend(frameon=False)
    below.plot(steps[::every], (smooth(ours) - smooth(theirs))[::every], color="#1f4e79", linewidth=1)
    below.axhline(0, color="#888888", linewidth=0.8)
    below.set_ylabel("difference")
    below.set_xlabel("step")
    for part in (above, below):
        part.spines[["top", "right"]].set_visible(False)
        part.grid(axis="y", color="#dddddd", linewidth=0.6)
    figure.tight_layout()
    figure.savefig(path, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
                   if path.endswith(".svg") else None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tenure")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--picture")
    asked = parser.parse_args()
    if not os.path.exists(DATA + "train-images-idx3-ubyte.gz"):
        print("SKIP: no Fashion-MNIST (apt-get install dataset-fashion-mnist)")
        sys.exit(77)
    os.makedirs(asked.folder, exist_ok=True)
    torch.set_num_threads(asked.threads)
    torch.manual_seed(asked.seed)
    net = Residual()
    model = os.path.join(asked.folder, "residual_cnn.onnx")
    export(net, model, asked.batch)
    statistics = statistics_apart(asked, model, net)
    ours, told, kept = train_tenure(asked, model, asked.steps)
    start = time.monotonic()
    theirs = train_torch(net, asked.steps, asked.batch, asked.seed, asked.rate)
    seconds = time.monotonic() - start
    apart = numpy.abs(ours - theirs) / theirs
    first = apart[:FIRST].max()
    print("%d steps, seed %d: tenure %.0f s, PyTorch %.0f s" % (asked.steps, asked.seed,
                                                              told["seconds"], seconds))
    print("first %d steps: losses differ by %.2g of the loss at most" % (FIRST, first))
    good = first <= FIRST_LIMIT
    if asked.steps >= WINDOW:
        means = numpy.abs(smooth(ours) - smooth(theirs)) / smooth(theirs)
        print("means of %d steps: differ by %.2g at most, %.2g on average"
              % (WINDOW, means.max(), means.mean()))
        good = good and means.max() <= LIMIT
    right = test_ours(net, kept)
    print("running statistics of one step: differ by %.2g at most" % statistics)
    print("test pictures right: tenure %.2f %%, PyTorch with what tenure trained %.2f %%, with its own"
          " %.2f %%" % (100 * told["test_accuracy"], 100 * right, 100 * test_torch(net)))
    good = good and statistics <= STATISTICS_LIMIT and abs(told["test_accuracy"] - right) <= TEST_LIMIT
    if asked.picture:
        draw(asked.picture, ours, theirs, asked.batch)
    sys.exit(0 if good else 1)


main()
