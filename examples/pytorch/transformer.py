"""A small transformer learns to copy made-up text; an ordinary script that knows nothing of Tenure.

    python3 -m tenure.record -o transformer.log examples/pytorch/transformer.py
"""
import sys

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self, words=64, width=64, blocks=2):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
                                    for _ in range(blocks))
        self.head = nn.Linear(width, words)

    def forward(self, text):
        x = self.embed(text)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main(steps=3, batch=8, length=64):
    torch.manual_seed(1)
    net = Network()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(steps):
        text = torch.randint(64, (batch, length))
        loss = nn.functional.cross_entropy(net(text).flatten(0, 1), text.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print("step %d, loss %.4f" % (step, loss.item()))


main(*map(int, sys.argv[1:]))
