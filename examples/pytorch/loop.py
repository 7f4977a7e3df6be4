"""A recurrent cell that runs until its own gate says stop: how often depends on the data, so there is no graph that
could be planned ahead. An ordinary script that knows nothing of Tenure.

    python3 -m tenure.record -o loop.log examples/pytorch/loop.py
"""
import sys

import torch
from torch import nn


class Ponder(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.cell, self.gate, self.head = nn.GRUCell(width, width), nn.Linear(width, 1), nn.Linear(width, width)

    def forward(self, x):
        state, turns = torch.zeros_like(x), 0
        while turns < 64:
            state, turns = self.cell(x, state), turns + 1
            if torch.sigmoid(self.gate(state)).mean().item() > 0.45 + 0.3 * torch.rand(()).item():
                break
        return self.head(state), turns


def main(steps=5, batch=128):
    torch.manual_seed(1)
    net = Ponder()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.randn(batch, 128)
        y, turns = net(x)
        loss = (y - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step %d, %d turns, loss %.4f" % (step, turns, loss.item()))


main(*map(int, sys.argv[1:]))
