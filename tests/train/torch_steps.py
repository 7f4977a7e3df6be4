#!/usr/bin/env python3
"""Whole networks against PyTorch: same weights and batch, every gradient of the first step within
1e-4 of the largest of its tensor, losses and parameters after ten steps of every optimizer within
1e-3 (of all parameters as one vector). Exit status 77 where PyTorch is not installed.

    torch_steps.py PROGRAM FOLDER"""
import os, subprocess, sys
try:
    import numpy, onnx, torch
    from torch import nn
except ImportError as error:
    print("SKIP:", error)
    sys.exit(77)


class Block(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.one = nn.Conv2d(a, b, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
        self.short = None
        if a != b or stride != 1:
            self.short = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

    def forward(self, x):
        y = self.n2(self.two(torch.relu(self.n1(self.one(x)))))
        return torch.relu(y + (x if self.short is None else self.short(x)))


class Resnet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(16)
        widths, layers, a = [16, 32, 64, 128], [], 16
        for i, b in enumerate(widths):
            layers += [Block(a, b, 1 + (i > 0)), Block(b, b, 1)]
            a = b
        self.blocks = nn.Sequential(*layers)
        self.last = nn.Linear(a, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.first(x))), 3, 2, 1)
        return self.last(torch.flatten(nn.functional.adaptive_avg_pool2d(self.blocks(x), 1), 1))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        two = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(),
                                         nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        self.d1, self.d2, self.middle = two(1, 8), two(8, 16), two(16, 32)
        self.u2, self.u1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.c2, self.c1, self.last = two(32, 16), two(16, 8), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(nn.functional.max_pool2d(a, 2))
        c = self.middle(nn.functional.max_pool2d(b, 2))
        y = self.c2(torch.cat([self.u2(c), b], 1))
        return self.last(self.c1(torch.cat([self.u1(y), a], 1)))


class Transformer(nn.Module):
    def __init__(self, vocabulary=40, width=32, heads=4, layers=2, length=12):
        super().__init__()
        self.heads, self.width = heads, width
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Parameter(torch.randn(length, width) * 0.1)
        self.layers = nn.ModuleList(nn.ModuleDict(dict(
            n1=nn.LayerNorm(width), n2=nn.LayerNorm(width), qkv=nn.Linear(width, 3 * width),
            out=nn.Linear(width, width), up=nn.Linear(width, 4 * width),
            down=nn.Linear(4 * width, width))) for _ in range(layers))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("mask", torch.triu(torch.full((length, length), -1e9), 1))

    def forward(self, ids):
        x = self.token(ids) + self.place
        b, t = ids.shape
        for l in self.layers:
            q, k, v = l["qkv"](l["n1"](x)).split(self.width, 2)
            split = lambda y: y.reshape(b, t, self.heads, -1).transpose(1, 2)
            scores = split(q) @ split(k).transpose(2, 3) / (self.width // self.heads) ** 0.5
            y = torch.softmax(scores + self.mask, 3) @ split(v)
            x = x + l["out"](y.transpose(1, 2).reshape(b, t, -1))
            x = x + l["down"](nn.functional.gelu(l["up"](l["n2"](x))))
        return self.last(self.norm(x))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(6, 20, num_layers=2)
        self.last = nn.Linear(20, 5)

    def forward(self, x):
        return self.last(self.cell(x)[0])


IMAGE = lambda c, s: torch.randn(4, c, s, s)
NETS = {
    "resnet18": (Resnet18, lambda: IMAGE(3, 64), lambda: torch.randint(10, (4,)), 1),
    "unet": (Unet, lambda: IMAGE(1, 16), lambda: torch.randint(3, (4, 16, 16)), 1),
    "transformer": (Transformer, lambda: torch.randint(40, (3, 12)),
                    lambda: torch.randint(40, (3, 12)), -1),
    "lstm": (Lstm, lambda: torch.randn(7, 3, 6), lambda: torch.randint(5, (7, 3)), -1),
}
OPTIMIZERS = {
    "sgd": (lambda p: torch.optim.SGD(p, 0.01), "0.01"),
    "momentum": (lambda p: torch.optim.SGD(p, 0.01, 0.9), "0.01"),
    "adam": (lambda p: torch.optim.Adam(p, 1e-3), "1e-3"),
    "adamw": (lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.01), "1e-3"),
}


def distance(ours, theirs):
    return float(numpy.abs(ours - theirs).max() / max(numpy.abs(theirs).max(), 1e-3))


def compare(program, folder, name, optimizer, kernels):
    make, draw, label, axis = NETS[name]
    torch.manual_seed(1)
    net, x, y = make().train(), draw(), label()
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        os.remove(os.path.join(folder, old))
    at = lambda file: os.path.join(folder, file)
    torch.onnx.export(net, x, at("model.onnx"), training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, opset_version=14, verbose=False)
    numpy.save(at("x.npy"), x.numpy())
    numpy.save(at("y.npy"), y.numpy())
    build, rate = OPTIMIZERS[optimizer]
    subprocess.run([program, at("model.onnx"), at("x.npy"), at("y.npy"), folder, "cross-entropy",
                    optimizer, rate, "10", kernels], check=True, timeout=300)
    torch.manual_seed(1)
    net = make().train()  # the export ran it
    optim, losses, worst = build(net.parameters()), [], 0.0
    for step in range(10):
        optim.zero_grad()
        scores = net(x)
        if axis == -1:
            scores = scores.reshape(-1, scores.shape[-1])
        loss = nn.functional.cross_entropy(scores, y.reshape(-1) if axis == -1 else y)
        loss.backward()
        losses.append(loss.item())
        for parameter, value in net.named_parameters():
            if step > 0:
                break
            worst = max(worst, distance(numpy.load(at("g.%s.npy" % parameter)),
                                        value.grad.numpy()))
        optim.step()
    apart = distance(numpy.load(at("losses.npy")), numpy.array(losses, "float32"))
    # All parameters as one vector: Adam divides a gradient by its own size, so where the true one is
    # zero (a key's bias in attention) each step goes its full length in whatever direction rounding
    # points; such elements are few and small.
    ours = numpy.concatenate([numpy.load(at("p.%s.npy" % n)).ravel()
                              for n, _ in net.named_parameters()])
    theirs = numpy.concatenate([v.detach().numpy().ravel() for _, v in net.named_parameters()])
    moved = float(numpy.linalg.norm(ours - theirs) / numpy.linalg.norm(theirs))
    fine = worst < 1e-4 and apart < 1e-3 and moved < 1e-3
    print("%-12s %-9s %-8s gradients %.1e  losses %.1e  parameters %.1e %s" % (
        name, optimizer, kernels, worst, apart, moved, "" if fine else "TOO FAR"), flush=True)
    return fine


def main():
    torch.set_num_threads(1)
    import warnings
    warnings.filterwarnings("ignore")
    cases = [(n, o, "library") for n in NETS for o in OPTIMIZERS] + [(n, "sgd", "plain")
                                                                     for n in NETS]
    only = sys.argv[3:]
    bad = sum(not compare(sys.argv[1], os.path.join(sys.argv[2], n), n, o, k)
              for n, o, k in cases if not only or n in only)
    sys.exit(bad > 0)


main()
