"""A snapshot of PyTorch's allocator on a GPU, for `tenure report`: resnet18 with Adam, three steps of 16, 20 and 24 pictures.

    python3 bench/torch_cuda_snapshot.py FOLDER plain|streams|oom|ring
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python3 bench/torch_cuda_snapshot.py FOLDER expandable

streams: a second one, and record_stream. oom: a batch of 256 that does not fit in a tenth more than is reserved. ring: 200 steps
more, so that the ring of 60,000 events begins in the middle. Prints what PyTorch says was allocated and reserved. Needs torchvision.
"""
import os
import sys

import torch
import torchvision


def step(net, optimizer, batch, side):
    x, y = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(10, (batch,), device="cuda")
    loss = torch.nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if side is not None:
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.current_stream())
            doubled = x * 2
            x.record_stream(side)
            doubled.sum()


def main(folder, kind):
    torch.cuda.memory._record_memory_history(max_entries=60000, stacks="python")
    net = torchvision.models.resnet18(num_classes=10).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    side = torch.cuda.Stream() if kind == "streams" else None
    for batch in (16, 20, 24) + (8,) * (200 if kind == "ring" else 0):
        step(net, optimizer, batch, side)
    if kind == "oom":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(1.1 * torch.cuda.memory_reserved() / total)
        try:
            step(net, optimizer, 256, side)
        except torch.cuda.OutOfMemoryError as error:
            print(error)
    torch.cuda.synchronize()
    print(kind, "allocated", torch.cuda.memory_allocated(), "reserved", torch.cuda.memory_reserved(),
          "peaks", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
    torch.cuda.memory._dump_snapshot(os.path.join(folder, kind + ".pickle"))


if __name__ == "__main__":
    main(*sys.argv[1:])
