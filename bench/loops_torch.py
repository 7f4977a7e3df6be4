#!/usr/bin/python3
"""One operator of training in PyTorch, one thread of the CPU; for bench/loops.c.

    loops_torch.py NAME

Prints milliseconds of the processor: the least of 20 turns of some 20 ms. A gradient is backward()
alone, of lstm the pass forward alone. Optimizers are torch.optim.SGD on one parameter. bias_gelu:
Add and GELU, and their gradients but for the row's own sum. Needs python3-torch.
"""
import os
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import torch
from torch import nn


def lstm(steps):
    cell = nn.LSTM(256, 256)
    x = torch.rand(steps, 16, 256, requires_grad=True)
    state = [torch.rand(1, 16, 256, requires_grad=True) for _ in range(2)]
    return cell, x, state


def lstm_ahead():
    cell, x, state = lstm(35)
    return lambda: cell(x, state), None


def lstm_back(steps):
    cell, x, state = lstm(steps)
    dy = torch.rand(steps, 16, 256)
    return (lambda y: y.backward(dy)), lambda: cell(x, state)[0]


def optimizer(count, momentum):
    p = nn.Parameter(torch.rand(count))
    p.grad = torch.rand(count)
    step = torch.optim.SGD([p], lr=1e-6, momentum=momentum)
    return step.step, None


def bias_gelu():
    x, row = torch.rand(1024, 1024), torch.rand(1024)
    return lambda: nn.functional.gelu(x + row), None


def bias_gelu_back():
    x, row, dy = torch.rand(1024, 1024, requires_grad=True), torch.rand(1024), torch.rand(1024, 1024)
    return (lambda y: y.backward(dy)), lambda: nn.functional.gelu(x + row)


ROWS = {"lstm": lstm_ahead, "lstm_grad": lambda: lstm_back(35), "lstm_cell_grad": lambda: lstm_back(1),
        "sgd_step": lambda: optimizer(4194304, 0), "momentum_step": lambda: optimizer(4194304, 0.9),
        "momentum_step_small": lambda: optimizer(32768, 0.9), "bias_gelu": bias_gelu, "bias_gelu_grad": bias_gelu_back}


def main():
    torch.set_num_threads(1)
    call, before = ROWS[sys.argv[1]]()
    best = float("inf")
    for _ in range(20):
        took, count = 0, 0
        while took < 0.02:
            given = [before()] if before else []
            start = time.process_time()
            call(*given)
            took += time.process_time() - start
            count += 1
        best = min(best, took / count)
    print(f"torch_ms {best * 1e3}")


if __name__ == "__main__":
    main()
