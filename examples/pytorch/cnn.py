"""A residual CNN learns made-up pictures; an ordinary script that knows nothing of Tenure.

    python3 -m tenure.record -o cnn.log examples/pytorch/cnn.py
"""
import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
                                  nn.ReLU(inplace=True), nn.Conv2d(width, width, 3, padding=1, bias=False),
                                  nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu(x + self.body(x))


def main(steps=3, batch=16):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), Block(16), nn.MaxPool2d(2), Block(16), Block(16),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        pictures, labels = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(pictures), labels)
        loss.backward()
        optimizer.step()
        print("step %d, loss %.4f" % (step, loss.item()))


main(*map(int, sys.argv[1:]))
