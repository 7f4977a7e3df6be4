"""Modules for torch_estimate.py, of kinds that its own list does not have; written down at once, after the code."""
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def mlp(*widths):
    layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.SiLU())]
    return nn.Sequential(*layers[:-1])


class Flow(nn.Module):
    """Couplings of halves, and the logarithm of what they stretch."""

    def __init__(self):
        super().__init__()
        self.scale = nn.ModuleList(mlp(32, 128, 32) for _ in range(4))
        self.shift = nn.ModuleList(mlp(32, 128, 32) for _ in range(4))

    def forward(self, x):
        total = 0
        for scale, shift in zip(self.scale, self.shift):
            a, b = x.chunk(2, 1)
            s = torch.tanh(scale(a))
            x, total = torch.cat([b * s.exp() + shift(a), a], 1), total + s.sum(1)
        return (0.5 * x.pow(2).sum(1) - total).mean()


class Ode(nn.Module):
    """A derivative that is learned, followed by Runge and Kutta's steps."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 24))

    def forward(self, x):
        for _ in range(6):
            a = self.slope(x)
            b = self.slope(x + 0.05 * a)
            c = self.slope(x + 0.05 * b)
            x = x + 0.1 / 6 * (a + 2 * b + 2 * c + self.slope(x + 0.1 * c))
        return x


class Denoiser(nn.Module):
    """A picture with noise, how much of it, and the noise again."""

    def __init__(self, width=32):
        super().__init__()
        self.time, self.into = mlp(width, width, width), nn.Conv2d(3, width, 3, padding=1)
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norm, self.out = nn.GroupNorm(8, width), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, when):
        rates = torch.exp(-math.log(1000) * torch.arange(16, device=x.device) / 16)
        angles = when[:, None].float() * rates
        told = self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None]
        x = self.into(x)
        x = x + self.b(functional.silu(self.norm(self.a(functional.silu(x)) + told)))
        return self.out(functional.silu(x))


class Fourier(nn.Module):
    """Products of the lowest frequencies with complex weights."""

    def __init__(self, width=16, modes=8):
        super().__init__()
        self.modes, self.into, self.out = modes, nn.Conv2d(1, width, 1), nn.Conv2d(width, 1, 1)
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(width, width, modes, modes, 2)) for _ in range(2))
        self.beside = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))

    def forward(self, x):
        x, m = self.into(x), self.modes
        for weight, beside in zip(self.weights, self.beside):
            low = torch.fft.rfft2(x)
            some = torch.einsum("bixy,ioxy->boxy", low[:, :, :m, :m], torch.view_as_complex(weight))
            whole = functional.pad(some, (0, low.shape[3] - m, 0, low.shape[2] - m))
            x = functional.gelu(torch.fft.irfft2(whole, s=x.shape[2:]) + beside(x))
        return self.out(x)


class Root(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Rotary(nn.Module):
    """A decoder's block of today: turned queries, few keys, a gate."""

    def __init__(self, width=128, heads=8, groups=2):
        super().__init__()
        self.heads, self.groups, self.each = heads, groups, width // heads
        self.first, self.second = Root(width), Root(width)
        self.q, self.kv = nn.Linear(width, width, False), nn.Linear(width, 2 * groups * self.each, False)
        self.o, self.gate = nn.Linear(width, width, False), nn.Linear(width, 4 * width, False)
        self.up, self.down = nn.Linear(width, 4 * width, False), nn.Linear(4 * width, width, False)

    def turned(self, x):
        rates = 10000 ** (-torch.arange(0, self.each, 2, device=x.device) / self.each)
        angles = torch.arange(x.shape[2], device=x.device)[:, None] * rates
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)

    def forward(self, x):
        batch, length, width = x.shape
        y = self.first(x)
        q = self.turned(self.q(y).view(batch, length, self.heads, -1).transpose(1, 2))
        k, v = self.kv(y).view(batch, length, 2 * self.groups, -1).transpose(1, 2).chunk(2, 1)
        k, v = (part.repeat_interleave(self.heads // self.groups, 1) for part in (self.turned(k), v))
        mask = torch.full((length, length), float("-inf"), device=x.device).triu(1)
        weights = (q @ k.transpose(2, 3) / self.each ** 0.5 + mask).softmax(-1)
        x = x + self.o((weights @ v).transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Adapted(nn.Module):
    """A frozen network, and narrow products beside its layers that are trained."""

    def __init__(self, width=256, rank=4):
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        for parameter in self.body.parameters():
            parameter.requires_grad_(False)
        self.a = nn.ModuleList(nn.Linear(width, rank, False) for _ in range(4))
        self.b = nn.ModuleList(nn.Linear(rank, width, False) for _ in range(4))

    def forward(self, x):
        for body, a, b in zip(self.body, self.a, self.b):
            x = torch.relu(body(x) + b(a(functional.dropout(x, 0.1))))
        return x


class Spatial(nn.Module):
    """A picture that is turned as a small network says, then read."""

    def __init__(self):
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(1, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(3528, 6))
        self.read = nn.Sequential(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(7744, 10))

    def forward(self, x):
        grid = functional.affine_grid(self.where(x).view(-1, 2, 3), x.shape, align_corners=False)
        return self.read(functional.grid_sample(x, grid, align_corners=False))


class Codebook(nn.Module):
    """The nearest of 256 codes for each place, with a gradient that passes by."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1))
        self.codes = nn.Embedding(256, 32)
        self.decode = nn.Sequential(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1))

    def forward(self, x):
        z = self.encode(x)
        flat = z.permute(0, 2, 3, 1).reshape(-1, 32)
        far = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.weight.t() + self.codes.weight.pow(2).sum(1)
        near = self.codes(far.argmin(1)).view(z.shape[0], *z.shape[2:], 32).permute(0, 3, 1, 2)
        beside = functional.mse_loss(near, z.detach()) + 0.25 * functional.mse_loss(z, near.detach())
        return functional.mse_loss(self.decode(z + (near - z).detach()), x) + beside


class Contrast(nn.Module):
    """Two views of each thing: its other view among all."""

    def __init__(self):
        super().__init__()
        self.body = mlp(64, 256, 256, 128)

    def forward(self, a, b):
        z = functional.normalize(self.body(torch.cat([a, b])), dim=1)
        scores = (z @ z.t() / 0.1).masked_fill(torch.eye(len(z), dtype=torch.bool, device=z.device), -1e9)
        return functional.cross_entropy(scores, torch.arange(len(z), device=z.device).roll(len(a)))


class GraphAttention(nn.Module):
    """Edges that weigh their ends: a softmax over what comes in at a node."""

    def __init__(self, width=64):
        super().__init__()
        self.into, self.a, self.b = nn.Linear(32, width), nn.Linear(width, 1), nn.Linear(width, 1)
        self.out = nn.Linear(width, 7)

    def forward(self, nodes, start, end):
        h = self.into(nodes)
        raw = functional.leaky_relu(self.a(h)[start] + self.b(h)[end], 0.2).squeeze(1).exp()
        total = torch.zeros(len(nodes), device=h.device).index_add(0, end, raw)
        mixed = torch.zeros_like(h).index_add(0, end, h[start] * (raw / total[end])[:, None])
        return self.out(functional.elu(mixed))


class Actor(nn.Module):
    """A policy and a value; the loss is clipped."""

    def __init__(self):
        super().__init__()
        self.body, self.policy, self.value = mlp(40, 128, 128), nn.Linear(128, 12), nn.Linear(128, 1)

    def forward(self, seen, action, old, gain):
        h = torch.tanh(self.body(seen))
        logits = self.policy(h).log_softmax(1)
        ratio = (logits.gather(1, action[:, None]).squeeze(1) - old).exp()
        clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        return (self.value(h).squeeze(1) - gain).pow(2).mean() - clipped + 0.01 * (logits.exp() * logits).sum(1).mean()


class Speech(nn.Module):
    """Frames, a recurrent layer both ways, and letters that nobody aligned."""

    def __init__(self):
        super().__init__()
        self.front, self.core = nn.Conv1d(40, 64, 5, 2, 2), nn.GRU(64, 64, batch_first=True, bidirectional=True)
        self.out = nn.Linear(128, 30)

    def forward(self, x):
        x, _ = self.core(functional.hardtanh(self.front(x), 0, 20).transpose(1, 2))
        return self.out(x).log_softmax(2).transpose(0, 1)


class Gated(nn.Module):
    """Causal convolutions with gates, their weights a length and a direction."""

    def __init__(self, width=48):
        super().__init__()
        self.embed, self.out = nn.Embedding(200, width), nn.Linear(width, 200)
        self.convs = nn.ModuleList(nn.utils.weight_norm(nn.Conv1d(width, 2 * width, 4)) for _ in range(4))

    def forward(self, text):
        x = self.embed(text).transpose(1, 2)
        for conv in self.convs:
            x = x + functional.glu(conv(functional.pad(x, (3, 0))), 1)
        return self.out(x.transpose(1, 2)).flatten(0, 1)


def critic():
    return nn.Sequential(*(layer for a, b in ((3, 32), (32, 64), (64, 128)) for layer in (
        nn.utils.spectral_norm(nn.Conv2d(a, b, 4, 2, 1)), nn.LeakyReLU(0.2))), nn.Flatten(), nn.Linear(128 * 36, 1))


class Factors(nn.Module):
    """Clicks: each field with each other, by sums and squares, and a deep part."""

    def __init__(self):
        super().__init__()
        self.embed, self.alone = nn.Embedding(4000, 16), nn.Embedding(4000, 1)
        self.deep = mlp(20 * 16, 200, 100, 1)

    def forward(self, fields):
        e = self.embed(fields)
        pairs = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1)
        return pairs + self.alone(fields).sum((1, 2)) + self.deep(e.flatten(1)).squeeze(1)


class Mixture(nn.Module):
    """How likely: a sum of bells."""

    def __init__(self):
        super().__init__()
        self.body, self.parts = mlp(20, 128, 128), nn.Linear(128, 3 * 16)

    def forward(self, x, y):
        weight, mean, wide = self.parts(functional.silu(self.body(x))).chunk(3, 1)
        bells = torch.distributions.Normal(mean, functional.softplus(wide) + 1e-3, validate_args=False)
        return -(weight.log_softmax(1) + bells.log_prob(y[:, None])).logsumexp(1).mean()


class Additive(nn.Module):
    """A cell step by step that looks back at what was read."""

    def __init__(self, width=64):
        super().__init__()
        self.embed, self.read = nn.Embedding(300, width), nn.LSTM(width, width, batch_first=True)
        self.cell, self.q, self.k = nn.LSTMCell(2 * width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.v, self.out = nn.Linear(width, 1), nn.Linear(2 * width, 300)

    def forward(self, text, wanted):
        kept, (h, c) = self.read(self.embed(text))
        h, c, keys, said = h[0], c[0], self.k(kept), []
        for word in self.embed(wanted).unbind(1):
            weights = self.v(torch.tanh(keys + self.q(h)[:, None])).softmax(1)
            seen = (weights * kept).sum(1)
            h, c = self.cell(torch.cat([word, seen], 1), (h, c))
            said.append(self.out(torch.cat([h, seen], 1)))
        return torch.stack(said, 1).flatten(0, 1)


class Hyper(nn.Module):
    """Filters that another network writes, for each picture its own."""

    def __init__(self):
        super().__init__()
        self.write, self.out = mlp(10, 64, 16 * 3 * 9), nn.Conv2d(16, 4, 1)

    def forward(self, x, told):
        filters = self.write(told).view(-1, 3, 3, 3)
        y = functional.conv2d(x.flatten(0, 1)[None], filters, padding=1, groups=len(x))
        return self.out(torch.relu(y.view(len(x), 16, *x.shape[2:])))


class Checkpointed(nn.Module):
    """Parts that run again in the backward pass."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 384), nn.GELU(), nn.Linear(384, 96))
                                   for _ in range(6))

    def forward(self, x):
        x = x.requires_grad_()
        for part in self.parts:
            x = x + checkpoint(part, x)
        return x


class Masked(nn.Conv2d):
    def forward(self, x):
        mask = torch.ones_like(self.weight)
        mask[:, :, self.kernel_size[0] // 2, self.kernel_size[1] // 2:] = 0
        mask[:, :, self.kernel_size[0] // 2 + 1:] = 0
        return functional.conv2d(x, self.weight * mask, self.bias, padding=self.padding)


def raster():
    return nn.Sequential(Masked(1, 24, 7, padding=3), nn.ReLU(), Masked(24, 24, 3, padding=1), nn.Dropout2d(0.1),
                         nn.Softplus(), Masked(24, 24, 3, padding=1), nn.Hardswish(), nn.Conv2d(24, 64, 1))


class Bells(nn.Module):
    """How far from each of 300 places, on a grid of streets."""

    def __init__(self):
        super().__init__()
        self.into, self.places, self.out = nn.Linear(20, 16), nn.Parameter(torch.randn(300, 16)), nn.Linear(300, 10)

    def forward(self, x):
        return self.out(torch.exp(-torch.cdist(self.into(x), self.places, 1.0)))


class Axial(nn.Module):
    """Rows look at rows and columns at columns; in doubles."""

    def __init__(self, width=32):
        super().__init__()
        self.into = nn.ModuleList(nn.Linear(width, 3 * width).double() for _ in range(2))
        self.out = nn.Linear(width, 5).double()

    def forward(self, x):
        for axis, into in enumerate(self.into):
            y = x.transpose(1, 2) if axis else x
            q, k, v = into(y).chunk(3, 3)
            y = torch.einsum("brij,brjc->bric", torch.einsum("bric,brjc->brij", q, k).softmax(3), v)
            x = x + (y.transpose(1, 2) if axis else y)
        return self.out(x)


class Levels(nn.Module):
    """Quantiles; levels and rows are constants, no buffers."""

    def __init__(self):
        super().__init__()
        self.body, self.levels = mlp(50, 200, 3 * 24), torch.tensor([0.1, 0.5, 0.9])
        self.rows = torch.randn(2048, 24, 1)

    def forward(self, x, wanted):
        beyond = wanted[:, :, None] - self.body(x).view(-1, 24, 3) * self.levels - self.rows
        return torch.maximum(self.levels * beyond, (self.levels - 1) * beyond).mean()


class Chooser(nn.Module):
    """A choice drawn by its chances, and a teacher that is sure of nothing."""

    def __init__(self):
        super().__init__()
        self.body = mlp(60, 200, 400)

    def forward(self, x):
        logits = self.body(x)
        chosen = torch.distributions.Categorical(logits=logits)
        return logits - chosen.log_prob(chosen.sample())[:, None]


def smooth(found, wanted):
    return functional.cross_entropy(found, wanted, label_smoothing=0.1)


class Penalty(nn.Module):
    """How steep a critic is, which is a gradient that is derived again."""

    def __init__(self):
        super().__init__()
        self.body = mlp(64, 256, 256, 1)

    def forward(self, x):
        x = x.clone().requires_grad_()
        found = self.body(x)
        slope, = torch.autograd.grad(found.sum(), x, create_graph=True)
        return found.mean() + (slope.norm(dim=1) - 1).pow(2).mean()


def small():
    return nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
                         nn.Conv2d(32, 32, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def by_depth():
    return nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.SiLU(), nn.Conv2d(32, 32, 3, 1, 1, groups=32),
                         nn.BatchNorm2d(32), nn.Hardswish(), nn.Conv2d(32, 64, 1), nn.AvgPool2d(2),
                         nn.BatchNorm2d(64), nn.ReLU6(), nn.Upsample(scale_factor=2), nn.Conv2d(64, 10, 3, padding=1))


class Half(nn.Module):
    """In bfloat16, as autocast chooses."""

    def __init__(self):
        super().__init__()
        self.body = small()

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.body(x).float()


def hinge(found):
    return functional.relu(1 - found).mean()


def itself(found):
    return found


def letters(scores, wanted):
    count = scores.shape[1]
    return functional.ctc_loss(scores, wanted, (scores.shape[0],) * count, (wanted.shape[1],) * count)


def some(*shape):
    return lambda: (torch.randn(*shape),)


def nothing():
    return ()


LAST = {"memory_format": torch.channels_last}
entropy, squares = functional.cross_entropy, functional.mse_loss
MODULES = {  # as in torch_estimate.py
    "flow": (Flow, some(1024, 64), itself, nothing, "adam"),
    "ode": (Ode, some(1024, 24), squares, some(1024, 24), "sgd"),
    "denoiser": (Denoiser, lambda: (torch.randn(4, 3, 48, 48), torch.randint(1000, (4,))), squares,
                 some(4, 3, 48, 48), "adamw"),
    "fourier": (Fourier, some(8, 1, 48, 48), squares, some(8, 1, 48, 48), "adam"),
    "rotary": (lambda: nn.Sequential(Rotary(), Rotary()), some(4, 64, 128), squares, some(4, 64, 128), "adamw"),
    "adapted": (Adapted, some(2048, 256), squares, some(2048, 256), "adam"),
    "spatial": (Spatial, some(32, 1, 48, 48), entropy, lambda: (torch.randint(10, (32,)),), "momentum"),
    "codebook": (Codebook, some(8, 3, 48, 48), itself, nothing, "adam"),
    "contrast": (Contrast, lambda: (torch.randn(256, 64), torch.randn(256, 64)), itself, nothing, "momentum"),
    "graph_attention": (GraphAttention, lambda: (torch.randn(800, 32), torch.randint(800, (6000,)),
                                                 torch.arange(6000) % 800), entropy,
                        lambda: (torch.randint(7, (800,)),), "adam"),
    "actor": (Actor, lambda: (torch.randn(4096, 40), torch.randint(12, (4096,)), -torch.rand(4096),
                              torch.randn(4096)), itself, nothing, "rmsprop"),
    "speech": (Speech, some(8, 40, 120), letters, lambda: (torch.randint(1, 30, (8, 20)),), "adam"),
    "gated": (Gated, lambda: (torch.randint(200, (8, 120)),), entropy, lambda: (torch.randint(200, (960,)),),
              "momentum"),
    "critic": (critic, some(16, 3, 48, 48), hinge, nothing, "adam"),
    "factors": (Factors, lambda: (torch.randint(4000, (1024, 20)),),
                functional.binary_cross_entropy_with_logits, lambda: (torch.rand(1024),), "adagrad"),
    "mixture": (Mixture, lambda: (torch.randn(2048, 20), torch.randn(2048)), itself, nothing, "adam"),
    "additive": (Additive, lambda: (torch.randint(300, (16, 30)), torch.randint(300, (16, 12))), entropy,
                 lambda: (torch.randint(300, (192,)),), "adam"),
    "hyper": (Hyper, lambda: (torch.randn(8, 3, 48, 48), torch.randn(8, 10)), squares, some(8, 4, 48, 48), "sgd"),
    "checkpointed": (Checkpointed, some(64, 32, 96), squares, some(64, 32, 96), "adamw"),
    "raster": (raster, some(8, 1, 32, 32), entropy, lambda: (torch.randint(64, (8, 32, 32)),), "momentum"),
    "levels": (Levels, lambda: (torch.randn(2048, 50), torch.randn(2048, 24)), itself, nothing, "adam"),
    "chooser": (Chooser, some(512, 60), smooth, lambda: (torch.randint(400, (512,)),), "adam"),
    "sure": (lambda: mlp(40, 300, 80), some(1024, 40), functional.huber_loss, some(1024, 80), "momentum"),
    "bells": (Bells, some(1024, 20), entropy, lambda: (torch.randint(10, (1024,)),), "adam"),
    "penalty": (Penalty, some(1024, 64), itself, nothing, "adam"),
    "last": (lambda: small().to(**LAST), lambda: (torch.randn(8, 16, 48, 48).to(**LAST),), entropy,
             lambda: (torch.randint(10, (8,)),), "momentum"),
    "by_depth": (lambda: by_depth().to(**LAST), some(8, 3, 96, 96), entropy, lambda: (torch.randint(10, (8, 48, 48)),),
                 "adam"),
    "axial": (Axial, lambda: (torch.randn(4, 24, 24, 32, dtype=torch.float64),), entropy,
              lambda: (torch.randint(24, (4, 24, 5)),), "adam"),
}
if "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text():  # else oneDNN has no bfloat16
    MODULES["half"] = (Half, some(16, 16, 48, 48), entropy, lambda: (torch.randint(10, (16,)),), "momentum")
