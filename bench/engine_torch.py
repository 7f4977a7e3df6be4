#!/usr/bin/python3
"""One network of torchvision in PyTorch, on the CPU; for bench/engine.c.

    engine_torch.py NAME THREADS REPEAT

Prints the fastest run in milliseconds and the most bytes that tensors of one run held at once, as
the profiler tells allocations and frees (inputs and weights are there before and do not count).
Needs python3-torch and python3-torchvision; a name that torchvision does not have exits with 3.
"""
import sys
import time

import torch
import torchvision

name, threads, repeat = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
make = getattr(torchvision.models, name, None)
if not callable(make):
    sys.exit(3)
torch.set_num_threads(threads)
torch.manual_seed(1)
options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
net = make(weights=None, **options).eval()
side = 299 if name == "inception_v3" else 224
image = torch.rand(1, 3, side, side)
best = float("inf")
with torch.no_grad():
    for _ in range(repeat):
        start = time.perf_counter()
        result = net(image)
        best = min(best, time.perf_counter() - start)
        del result
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as profile:
        net(image)
moves = sorted((event.time_range.start, event.self_cpu_memory_usage) for event in profile.events()
               if event.self_cpu_memory_usage)
if not moves:
    sys.exit("the profiler told no allocation")
held = peak = 0
for _, size in moves:
    held += size
    peak = max(peak, held)
print(f"torch_ms {best * 1e3} torch_peak {peak}")
