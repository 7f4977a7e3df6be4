"""Training steps of PyTorch that ask for memory in thirteen ways: for bench/preload.py, which runs it unchanged.

    python3 bench/torch_steps.py NAME [STEPS]

Prints the losses to the last bit, and on standard error the peak of resident memory (KiB) and the seconds of
processor time, of all threads, that the steps took after the first two.
"""
import resource
import sys
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu(x + self.body(x))


class Language(nn.Module):
    def __init__(self, layers=4, width=128, words=1000, saves=True):
        super().__init__()
        self.words, self.saves = nn.Embedding(words, width), saves
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
                                    for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, x):
        x = self.words(x)
        for layer in self.layers:
            x = layer(x) if self.saves else checkpoint(layer, x)
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self, width=128, words=1000):
        super().__init__()
        self.words, self.lstm, self.head = nn.Embedding(words, width), nn.LSTM(width, width, 2), nn.Linear(width, words)

    def forward(self, x):
        return self.head(self.lstm(self.words(x))[0])


class Gated(nn.Module):
    def __init__(self, width=160, words=1000):
        super().__init__()
        self.words, self.gru, self.head = nn.Embedding(words, width), nn.GRU(width, width, 3), nn.Linear(width, words)

    def forward(self, x):
        return self.head(self.gru(self.words(x))[0])


class Inverted(nn.Module):
    """Wide within, each channel by itself there."""

    def __init__(self, width, times=4):
        super().__init__()
        wide = width * times
        self.body = nn.Sequential(nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
                                  nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False), nn.BatchNorm2d(wide),
                                  nn.ReLU6(), nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return x + self.body(x)


class Skips(nn.Module):
    """A U-Net of three levels, whose picture of classes is averaged."""

    def __init__(self, width=12):
        super().__init__()
        wide = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
                                  for a, b in zip([3] + wide, wide))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(wide, wide[1:]))
        self.join = nn.ModuleList(nn.Sequential(nn.Conv2d(2 * a, a, 3, padding=1), nn.ReLU()) for a in wide[:-1])
        self.head = nn.Conv2d(width, 10, 1)

    def forward(self, x):
        kept = []
        for level, down in enumerate(self.down):
            x = down(nn.functional.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for level in (1, 0):
            x = self.join[level](torch.cat([kept[level], self.up[level](x)], 1))
        return self.head(x).mean((2, 3))


class Mixed(nn.Module):
    """A mixer of perceptrons; every second block is computed again in the backward pass."""

    class Mix(nn.Module):
        def __init__(self, tokens, width):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
            self.width = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
            return x + self.width(self.second(x))

    def __init__(self, width=192, patch=4, side=48, layers=6):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.layers = nn.ModuleList(self.Mix((side // patch) ** 2, width) for _ in range(layers))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        for number, layer in enumerate(self.layers):
            x = checkpoint(layer, x) if number % 2 else layer(x)
        return self.head(x.mean(1))


def pictures(batch=8):
    return torch.randn(batch, 3, 48, 48), torch.randint(10, (batch,))


def words(length=64, batch=8):
    text = torch.randint(1000, (batch, length + 1))
    return text[:, :-1], text[:, 1:]


def cnn():
    return nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), Block(24), nn.MaxPool2d(2), Block(24), Block(24),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))


def wide():
    return nn.Sequential(nn.Conv2d(3, 64, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 96, 3), nn.ReLU(),
                         nn.Flatten(), nn.Linear(96 * 81, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 10))


def inverted():
    return nn.Sequential(nn.Conv2d(3, 24, 3, stride=2, padding=1), nn.ReLU6(), Inverted(24), Inverted(24),
                         nn.Conv2d(24, 48, 1), nn.MaxPool2d(2), Inverted(48), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(48, 10))


# name: model, batch of a step, parts of a batch before the optimizer steps, steps between evaluations
WAYS = {
    "cnn": (cnn, lambda step: pictures(), 1, 0),
    "wide": (wide, lambda step: pictures(32), 1, 0),
    "transformer": (Language, lambda step: words(), 1, 0),
    "checkpoint": (lambda: Language(saves=False), lambda step: words(), 1, 0),
    "lstm": (Recurrent, lambda step: words(32), 1, 0),
    "accumulate": (cnn, lambda step: pictures(4), 4, 0),
    "lengths": (Language, lambda step: words(16 + int(torch.randint(64, ()))), 1, 0),
    "evaluate": (cnn, lambda step: pictures(), 1, 10),
    "gru": (Gated, lambda step: words(48), 1, 0),
    "depthwise": (inverted, lambda step: pictures(), 3, 0),
    "unet": (Skips, lambda step: pictures(12), 1, 0),
    "mixer": (Mixed, lambda step: pictures(), 2, 0),
    "smaller": (inverted, lambda step: pictures(5 if step % 8 == 7 else 16), 1, 0),
}


def loss_of(net, batch):
    answer, truth = net(batch[0]), batch[1]
    return nn.functional.cross_entropy(answer.reshape(-1, answer.shape[-1]), truth.reshape(-1))


def main(name, steps):
    torch.manual_seed(1)
    torch.set_num_threads(2)
    make, batch_of, parts, evaluates = WAYS[name]
    net = make()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(steps):
        if step == 2:
            begin = time.process_time()
        optimizer.zero_grad(set_to_none=True)
        for _ in range(parts):
            loss = loss_of(net, batch_of(step))
            loss.backward()
        optimizer.step()
        print(step, loss.item().hex())
        if evaluates and step % evaluates == evaluates - 1:
            net.eval()
            with torch.no_grad():
                print("evaluated", loss_of(net, pictures(24)).item().hex())
            net.train()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("resident %d seconds %.3f" % (peak, time.process_time() - begin), file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40)
