"""A training loop on a GPU whose tensors lie in a pool of Tenure's: use_pool() is all that is added, and comes before
anything is asked of the GPU.

    TENURE_BUDGET=8GiB TENURE_STATS=1 TENURE_TRACE=run.csv python3 examples/pytorch/cuda.py
"""
import ctypes
import sys

import torch


def use_pool(path="libtenure_torch.so"):
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "tenure_torch_alloc", "tenure_torch_free")
    library, hooks = ctypes.CDLL(path), allocator.allocator()
    for hook, function in ((hooks.set_record_stream_fn, library.tenure_torch_record_stream),
                           (hooks.set_reset_fn, library.tenure_torch_empty_cache)):
        hook(ctypes.cast(function, ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(allocator)


def main(path="libtenure_torch.so", steps="20"):
    if not torch.cuda.is_available():
        sys.exit("cuda.py: this PyTorch has no CUDA device here")
    use_pool(path)
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(int(steps)):
        x = torch.randn(512, 1024, device="cuda")
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("step %d, loss %.4f" % (step, loss.item()))


if __name__ == "__main__":
    main(*sys.argv[1:])
