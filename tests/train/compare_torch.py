#!/usr/bin/python3
"""Losses and gradients of whole networks, and parameters after ten steps, against PyTorch.

    compare_torch.py ONE_STEP FOLDER [--model NAME]... [--steps] [--low]

ONE_STEP is the program of tests/train/one_step.c, FOLDER holds models and arrays. Each network is
made in PyTorch from a fixed seed and exported as ONNX, so both have the same weights; inputs and
labels are drawn. Loss and every gradient must agree with PyTorch's in float64 (its own in float32
are told: one activation of a hundred thousand at the kink of a ReLU, and they are 10 % off) within
1e-4 of the largest element of that gradient (and gradients that are all but zero, as those of a bias
before a normalisation, within 1e-6 of the largest of all): with our own loops, with oneDNN, and
rewritten as `tenure train` does. --steps also runs ten steps of every optimizer, with decay, Nesterov
and micro-batches: losses and parameters within 1e-3 of float64, or no farther than PyTorch's own in
float32 (in brackets), which kinks drive apart in deep networks with small batches.
--low compares mixed precision instead: PyTorch works on the same network in bfloat16 (normalisations
of batches on float32 parameters), and our gradients, together, may be at most 1.5 times as far from
those of float32 as PyTorch's, and the loss within 1 %; float16, which PyTorch 1.13 does not compute
on a processor, no farther than PyTorch in bfloat16 (elements that cross a kink of a ReLU decide).
Exit status: 0 all agree, 1 not all, 77 something is absent.
"""
import argparse
import copy
import os
import subprocess
import sys
import warnings

try:
    import numpy
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    print("SKIP: python3-torch is not installed")
    sys.exit(77)

LIMIT, STEP_LIMIT, SEED = 1e-4, 1e-3, 11


try:
    import torchvision
except ImportError:
    torchvision = None  # "resnet18" is left out


# --- networks ---

class Attention(nn.Module):
    """Several heads, causal mask."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads, self.width = heads, width
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)) == 0)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.inner(x).split(c, dim=2)
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in (q, k, v))
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        weights = functional.softmax(scores.masked_fill(self.mask, -1e9), dim=-1)
        return self.outer((weights @ v).transpose(1, 2).reshape(b, t, c))


class Transformer(nn.Module):
    def __init__(self, vocabulary=29, width=24, heads=3, length=10):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.attention = Attention(width, heads, length)
        self.first, self.second, self.last = (nn.LayerNorm(width) for _ in range(3))
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("order", torch.arange(length))

    def forward(self, x):
        x = self.words(x) + self.places(self.order)
        x = x + self.attention(self.first(x))
        x = x + self.shrink(functional.gelu(self.grow(self.second(x))))
        return self.head(self.last(x))


class UNet(nn.Module):
    """One level up by a transposed convolution, one by interpolation."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

        def block(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b),
                                 nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.LeakyReLU(0.1))
        self.one, self.two, self.three = block(2, 6), block(6, 8), block(8, 8)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.four, self.five = block(16, 8), block(14, 6)
        self.last = nn.Conv2d(6, 4, 1)

    def forward(self, x):
        a = self.one(x)
        b = self.two(functional.max_pool2d(a, 2))
        c = self.three(functional.avg_pool2d(b, 2))
        d = self.four(torch.cat([self.up(c), b], dim=1))
        more = {} if self.mode == "nearest" else {"align_corners": False}
        e = functional.interpolate(d, scale_factor=2.0, mode=self.mode, **more)
        return self.last(self.five(torch.cat([e, a], dim=1)))


class Recurrent(nn.Module):
    def __init__(self, kind, both):
        super().__init__()
        self.words = nn.Embedding(17, 9)
        self.layer = kind(9, 8, batch_first=True, bidirectional=both)
        self.head = nn.Linear(16 if both else 8, 17)

    def forward(self, x):
        return self.head(self.layer(self.words(x))[0])


class Mixed(nn.Module):
    """As many operators as fit into one network. No bias before InstanceNorm: its gradient would be
    rounding alone, of which Adam makes whole steps."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8),
                                  nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False),
                                  nn.InstanceNorm2d(8, affine=True), nn.PReLU(8))
        self.widen, self.shuffle = nn.Conv2d(8, 16, 1), nn.PixelShuffle(2)
        self.squeeze, self.excite = nn.Linear(4, 6), nn.Linear(6, 4)
        self.scale = nn.Parameter(torch.rand(4, 1, 1))
        self.tail = nn.Sequential(nn.Conv2d(4, 6, 3, stride=2), nn.Hardswish(), nn.ReLU6(),
                                  nn.LocalResponseNorm(3), nn.Softplus(), nn.ELU(), nn.Tanh())
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.shuffle(self.widen(self.stem(x)))
        gate = torch.sigmoid(self.excite(functional.relu(self.squeeze(x.mean((2, 3))))))
        x = x * gate[:, :, None, None] * self.scale + x[:, :1] ** 2
        x = self.tail(x)
        parts = [x.amax((2, 3)), (x.var((2, 3), unbiased=False) + 1e-3).sqrt()]
        return self.head(torch.cat(parts, 1)) / (1 + x.abs().mean())


class Residual(nn.Module):
    def __init__(self):
        super().__init__()

        def layer(a, b, stride):
            return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b))
        self.stem = layer(1, 8, 1)
        self.first, self.second = layer(8, 12, 2), layer(12, 12, 1)
        self.across = nn.Conv2d(8, 12, 1, 2)
        self.head = nn.Linear(12, 6)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.stem(x)), 3, 2, 1)
        y = self.second(functional.relu(self.first(x)))
        x = functional.relu(y + self.across(x))
        return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Encoder(nn.Module):
    """Layers that are copies of each other, so a file that merges equal parameters has one of them; and
    parameters of one element."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True)
        self.words = nn.Embedding(19, 12)
        self.layers = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(12, 7)
        self.gain, self.slope = nn.Parameter(torch.tensor(0.8)), nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.head(self.layers(self.words(x)) * self.gain).mean(1) * self.slope


def numbers(below, *shape):
    return torch.randint(0, below, shape)


# name: network, input, labels, operator set. "merged": as an exporter of a model in inference writes it
NETWORKS = {
    "encoder_merged": lambda: (Encoder(), numbers(19, 4, 6), numbers(7, 4), 17),
    "residual_merged": lambda: (Residual(), torch.randn(5, 1, 14, 14), numbers(6, 5), 13),
    "transformer": lambda: (Transformer(), numbers(29, 3, 10), numbers(29, 3, 10), 17),
    "transformer_14": lambda: (Transformer(), numbers(29, 3, 10), numbers(29, 3, 10), 14),
    "unet_nearest": lambda: (UNet("nearest"), torch.randn(2, 2, 16, 12), numbers(4, 2, 16, 12), 17),
    "unet_linear": lambda: (UNet("bilinear"), torch.randn(2, 2, 16, 12), numbers(4, 2, 16, 12), 13),
    "lstm": lambda: (Recurrent(nn.LSTM, False), numbers(17, 4, 7), numbers(17, 4, 7), 14),
    "lstm_both": lambda: (Recurrent(nn.LSTM, True), numbers(17, 3, 5), numbers(17, 3, 5), 14),
    "gru": lambda: (Recurrent(nn.GRU, True), numbers(17, 4, 7), numbers(17, 4, 7), 14),
    "rnn": lambda: (Recurrent(nn.RNN, False), numbers(17, 4, 7), numbers(17, 4, 7), 14),
    "mixed": lambda: (Mixed(), torch.randn(3, 3, 9, 8), numbers(5, 3), 17),
    "resnet18": lambda: (torchvision.models.resnet18(num_classes=10), torch.randn(4, 3, 64, 64),
                         numbers(10, 4), 13),
    "residual": lambda: (Residual(), torch.randn(5, 1, 14, 14), numbers(6, 5), 17),
}


FULL = ["mixed", "resnet18"]  # not in 16 bits: an If stays in float32; slow in PyTorch

# Words for one_step, and the same in PyTorch. Ten steps each.
OPTIMIZERS = {
    "sgd 0.05 10": lambda p: torch.optim.SGD(p, 0.05),
    "rewrite sgd 0.05 10 decay 0.02 micro 3": lambda p: torch.optim.SGD(p, 0.05, weight_decay=0.02),
    "momentum 0.02 10": lambda p: torch.optim.SGD(p, 0.02, momentum=0.9),
    "rewrite momentum 0.02 10 decay 0.02 nesterov":
        lambda p: torch.optim.SGD(p, 0.02, momentum=0.9, weight_decay=0.02, nesterov=True),
    "adam 0.001 10": lambda p: torch.optim.Adam(p, 1e-3),
    "rewrite adam 0.001 10 decay 0.02 micro 2": lambda p: torch.optim.Adam(p, 1e-3, weight_decay=0.02),
    "rewrite adamw 0.001 10 decay 0.01": lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.01),
}


# --- both sides ---

def loss_of(network, x, labels):
    scores = network(x)
    if scores.dim() == 3:  # classes are the last axis of rank 3
        return functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
    return functional.cross_entropy(scores, labels)


def ours(program, folder, *more):
    """Losses, and an array for every parameter by name."""
    run = subprocess.run([program, os.path.join(folder, "model.onnx"), folder, "cross-entropy",
                          *more], capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip())
    lines = [line.split(" ", 1) for line in run.stdout.splitlines()]
    losses = [float(line[0]) for line in lines if len(line) == 1]
    arrays = {line[1]: numpy.load(os.path.join(folder, line[0] + ".npy"))
              for line in lines if len(line) == 2
              and os.path.exists(os.path.join(folder, line[0] + ".npy"))}
    return losses, arrays


def export(network, x, labels, version, folder, merged):
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    numpy.save(os.path.join(folder, "x.npy"), x.numpy())
    numpy.save(os.path.join(folder, "labels.npy"), labels.numpy())
    state = {name: value.clone() for name, value in network.state_dict().items()}
    mode = torch.onnx.TrainingMode
    network.train(not merged)
    torch.onnx.export(network, x, os.path.join(folder, "model.onnx"), opset_version=version,
                      input_names=["x"], do_constant_folding=False,
                      training=mode.PRESERVE if merged else mode.TRAINING)
    network.train()
    network.load_state_dict(state)  # tracing moved the running statistics


def worst(expected, found, floor, real=None):
    """The largest difference relative to the largest element, and whose it is; of elements that are real."""
    errors = [(1e9, "absent: " + name) for name in expected if name not in found]
    for name, value in expected.items():
        if name in found:
            most = max(float(numpy.abs(value).max()), floor)
            apart = numpy.abs(value - found[name])
            errors.append((float((apart if real is None else apart * real[name]).max()) / most, name))
    return max(errors)


def compare(program, folder, name, steps):
    torch.manual_seed(SEED)
    network, x, labels, version = NETWORKS[name]()
    network.train()
    export(network, x, labels, version, folder, name.endswith("merged"))
    single, single_x, first = copy.deepcopy(network), x, copy.deepcopy(network.state_dict())
    _, theirs = gradients_of(single, x, labels)
    network, x = network.double(), x.double() if x.is_floating_point() else x
    start = {key: value.clone() for key, value in network.state_dict().items()}
    loss, gradients = gradients_of(network, x, labels)
    largest = max(float(numpy.abs(g).max()) for g in gradients.values())
    floor = 1e-2 * largest
    # Gradients that are 0 but for rounding (of a bias of keys, say): Adam makes whole steps of them.
    real = {key: numpy.abs(g) > 1e-6 * largest for key, g in gradients.items()}
    good, own = True, worst(gradients, theirs, floor)[0]
    for how in ([], ["plain"], ["rewrite"]):
        losses, found = ours(program, folder, *how)
        error = abs(losses[0] - loss) / abs(loss)
        most, where = worst(gradients, found, floor)
        good = good and error < LIMIT and most < LIMIT
        print("%-15s %-7s loss %.6f, error %.1e; gradients %.1e (%s; PyTorch's float32 %.1e)%s" % (
            name, how[0] if how else "oneDNN", loss, error, most, where, own,
            "" if error < LIMIT and most < LIMIT else "  WRONG"), flush=True)
    for words, make in OPTIMIZERS.items() if steps else ():
        losses, found = ours(program, folder, *words.split())
        expected, exact = train(network, start, make, x, labels)
        their_losses, theirs = train(single, first, make, single_x, labels)
        error, their_error = (max(abs(a - b) / abs(b) for a, b in zip(some, expected))
                              for some in (losses, their_losses))
        most, where = worst(exact, found, 1e-2, real)
        own = worst(exact, theirs, 1e-2, real)[0]
        agrees = error < max(STEP_LIMIT, their_error) and most < max(STEP_LIMIT, own)
        good = good and agrees
        print("%-15s %-45s ten losses %.1e (%.1e); parameters %.1e (%s; %.1e)%s" % (
            name, words, error, their_error, most, where, own, "" if agrees else "  WRONG"), flush=True)
    return good


def train(network, start, make, x, labels):
    """Ten losses, and the parameters after them."""
    network.load_state_dict(start)
    update, losses = make(network.parameters()), []
    for _ in range(10):
        update.zero_grad()
        loss = loss_of(network, x, labels)
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses, {key: p.detach().double().numpy().copy() for key, p in network.named_parameters()}


def far(expected, found):
    """The distance of all gradients together, relative to their length."""
    difference = sum(float(((expected[name] - found[name]) ** 2).sum()) for name in expected)
    return (difference / sum(float((value ** 2).sum()) for value in expected.values())) ** 0.5


def gradients_of(network, x, labels):
    scores = network(x)
    if scores.dim() == 3:
        scores, labels = scores.flatten(0, 1), labels.flatten()
    wide = scores if scores.dtype == torch.float64 else scores.float()
    loss = functional.cross_entropy(wide, labels)
    loss.backward()
    return loss.item(), {key: p.grad.to(wide.dtype).numpy() for key, p in network.named_parameters()}


def compare_low(program, folder, name):
    torch.manual_seed(SEED)
    network, x, labels, version = NETWORKS[name]()
    network.train()
    export(network, x, labels, version, folder, name.endswith("merged"))
    low = copy.deepcopy(network).bfloat16()
    for module in low.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.float()
        if isinstance(module, nn.ConvTranspose2d):  # 1.13 gives a wrong shape in bfloat16
            module.forward = lambda a, m=module: functional.conv_transpose2d(
                a.float(), m.weight.float(), m.bias.float(), m.stride).bfloat16()
    loss, expected = gradients_of(network, x, labels)
    _, theirs = gradients_of(low, x.bfloat16() if x.is_floating_point() else x, labels)
    theirs, good = far(expected, theirs), True
    for how in (["bf16"], ["plain", "bf16"], ["f16"], ["plain", "f16"]):
        losses, found = ours(program, folder, *how)
        distance = far(expected, found)
        limit = 1.5 * theirs if "bf16" in how else theirs
        agrees = abs(losses[0] - loss) < 0.01 * abs(loss) and distance < limit
        good = good and agrees
        print("%-15s %-10s loss %.6f (%.6f in float32); gradients %.1e from float32, PyTorch's in "
              "bfloat16 %.1e%s" % (name, " ".join(how), losses[0], loss, distance, theirs,
                                     "" if agrees else "  WRONG"), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--model", action="append", choices=sorted(NETWORKS))
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--low", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    wrong = []
    for name in options.model or [n for n in NETWORKS if not options.low or n not in FULL]:
        if name == "resnet18" and torchvision is None:
            print("%-15s SKIP: python3-torchvision is not installed" % name)
            continue
        try:
            place = os.path.join(options.folder, name)
            if not (compare_low(options.program, place, name) if options.low else
                    compare(options.program, place, name, options.steps)):
                wrong.append(name)
        except RuntimeError as error:
            print("%-15s %s  WRONG" % (name, error))
            wrong.append(name)
    print("%d networks differ: %s" % (len(wrong), ", ".join(wrong)) if wrong else "all agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
