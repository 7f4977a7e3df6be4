"""A module that trains in half of the memory: estimated first, then made to fit, the same losses bit for bit.

    PYTHONPATH=bindings/python TENURE_LIBRARY=build/libtenure.so python3 examples/pytorch/fit.py
"""
import copy

import torch
from torch import nn

import tenure.torch

torch.manual_seed(1)
layers = [layer for _ in range(6) for layer in (nn.Linear(128, 128), nn.LayerNorm(128), nn.GELU(), nn.Dropout(0.1))]
module = nn.Sequential(*layers, nn.Linear(128, 10))
plain, x, y = copy.deepcopy(module), torch.randn(256, 128), torch.randint(10, (256,))
print("to train it takes", tenure.torch.estimate(module, x, optimizer="adam").total, "bytes")

plan = tenure.torch.fit(module, x, 0.5, loss=nn.functional.cross_entropy, targets=(y,))
print(plan)
for which in (plain, module):
    torch.manual_seed(2)
    optimizer = torch.optim.Adam(which.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(which(x), y)
        loss.backward()
        optimizer.step()
    print("loss after 3 steps:", loss.item())
