"""tenure.torch.estimate and fit on a GPU: what is held there, with a plan and without, whether the bits are the same, and ms.

    PYTHONPATH=bindings/python TENURE_LIBRARY=build/libtenure.so python3 bench/torch_cuda_fit.py [cuda] [NAME,..]

Estimates (Adam, two steps) beside torch.cuda.max_memory_allocated; then each module trains three steps by SGD plainly and
within 0.7 and 0.5 of what its passes hold. `cpu` instead of `cuda`: the bits alone, and slow. Needs torchvision for two of the four.
"""
import copy
import sys
import time

import torch
from torch import nn

import tenure.torch

DEVICE = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda")
entropy = nn.functional.cross_entropy


def vision(name):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(num_classes=10)
    return make


class Encoder(nn.Module):
    def __init__(self, layers=6, width=512):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.1, batch_first=True) for _ in range(layers))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def perceptron():
    return nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(1024, 1024), nn.GELU())), nn.Linear(1024, 10))


MODULES = {
    "perceptron": (perceptron, (2048, 1024)),
    "resnet18": (vision("resnet18"), (16, 3, 224, 224)),
    "encoder": (Encoder, (16, 128, 512)),
    "mobilenet_v2": (vision("mobilenet_v2"), (8, 3, 160, 160)),
}


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def wait():
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def peak_from(begin=None):
    """Starts to count, or tells the most since."""
    if DEVICE.type != "cuda":
        return 0
    if begin is None:
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    return torch.cuda.max_memory_allocated() - begin


def steps(module, x, y):
    torch.manual_seed(2)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    losses, held, seconds = [], 0, []
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        wait()
        before, begin = peak_from(), time.perf_counter()
        loss = entropy(module(x), y)
        loss.backward()
        wait()
        seconds.append(time.perf_counter() - begin)
        held = max(held, peak_from(before))
        optimizer.step()
        losses.append(loss.item().hex())
    return losses, held, min(seconds)


def estimated(name, module, x, y):
    told = tenure.torch.estimate(copy.deepcopy(module).to("meta"), x.to("meta"), optimizer="adam", loss=entropy, targets=(y.to("meta"),))
    twin, here, there = copy.deepcopy(module).to(DEVICE), x.to(DEVICE), y.to(DEVICE)
    before = peak_from()
    optimizer = torch.optim.Adam(twin.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        entropy(twin(here), there).backward()
        optimizer.step()
    wait()
    took = peak_from(before) + bytes_of([*twin.parameters(), *twin.buffers(), here, there])
    print("%-13s estimate %d, on the device %d, %+.2f %%" % (name, told.total, took, 100 * (told.total / took - 1)), flush=True)


def main():
    torch.backends.cudnn.deterministic = True
    for name in sys.argv[2].split(",") if len(sys.argv) > 2 else MODULES:
        make, shape = MODULES[name]
        torch.manual_seed(1)
        module, x, y = make(), torch.randn(shape), torch.randint(10, shape[:1])
        if DEVICE.type == "cuda":
            estimated(name, module, x, y)
        module, x, y = module.to(DEVICE), x.to(DEVICE), y.to(DEVICE)
        for share in (0.7, 0.5):
            plain, fitted = copy.deepcopy(module), copy.deepcopy(module)
            plan = tenure.torch.fit(fitted, x, share, loss=entropy, targets=(y,))
            usual, planned = steps(plain, x, y), steps(fitted, x, y)
            print("%-13s %.1f: %r; held plainly %d, with it %d; %s; %.1f of %.1f ms"
                  % (name, share, plan, usual[1], planned[1], "the same bits" if usual[0] == planned[0] else "OTHER BITS",
                     1e3 * planned[2], 1e3 * usual[2]), flush=True)


if __name__ == "__main__":
    main()
