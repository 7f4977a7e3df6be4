#!/usr/bin/python3
"""tenure.torch.fit with saved tensors that are put away, and in fewer bytes: the same bits within the budget.

    torch_away.py SOURCE LIBRARY

Modules of torch_fit.py keep to budgets that computing again alone does not reach, their tensors in a file without a name:
losses, parameters and buffers are those of an untouched copy, bit for bit, and PyTorch's profiler judges what is allocated.
Seed: 7. Exit status: 0 all of it holds, 1 not, 77 python3-torch is absent.
"""
import copy
import gc
import os
import resource
import signal
import sys
import tempfile

import torch_fit as fitted  # beside this file; leaves with 77 where there is no PyTorch
import torch
from torch import nn

import tenure
import tenure.torch
from tenure.torch._away import Folder, packed

AT_ONCE = 1e15  # bytes a second: whatever is put away costs nothing
AWAY = {"residual": 0.3, "unet": 0.5, "encoder": 0.3, "perceptron": 0.25, "convolutions": 0.4, "unrolled": 0.2, "separable": 0.65}


def made(name):
    make, inputs, labels = fitted.MODULES[name]
    torch.manual_seed(7)
    return make(), inputs(), labels()


def trained_alike(plain, module, x, y):
    with torch.no_grad():  # statistics that another step has moved
        for a, b in zip(plain.state_dict().values(), module.state_dict().values()):
            b.copy_(a)
    return fitted.same(fitted.train(plain, x, y), fitted.train(module, x, y))


def check_away(name, folder):
    module, x, y = made(name)
    plain, share = copy.deepcopy(module), AWAY[name]
    gc.disable()  # what is not needed goes by itself
    plan = tenure.torch.fit(module, x, share, loss=fitted.entropy, targets=(y,), timeout=0, offload=folder, link=AT_ONCE)
    assert plan.bytes <= plan.budget and plan.offloaded_bytes > 0 and "put away" in repr(plan), plan
    planned = fitted.profiled(lambda: module(x), module, y)
    allowance = sum(sorted(4 * parameter.numel() for parameter in module.parameters())[-2:])
    good, equal = planned <= plan.budget + allowance, trained_alike(plain, module, x, y)
    store = plan._choice.store
    end = store.end
    fitted.train(module, x, y)
    assert store.end == end, "the file grows"
    assert os.listdir(folder) == [], "something is left"
    print("%-13s %.2f: %9d held plainly, budget %9d, held %9d, profiler %9d, %9d put away, %d operators again%s%s"
          % (name, share, plan.plain_bytes, plan.budget, plan.bytes, planned, plan.offloaded_bytes,
             sum(count for _, count in plan.recomputed), "" if equal else "; OTHER BITS", "" if good else "; TOO MUCH"), flush=True)
    return equal and good


def check_both(folder):
    """Where a link is neither fast nor slow, some are computed again and some are put away."""
    seen = tried = 0
    for link in 1e9, 3e8, 3e9, 1e8, 1e10:
        for name in "unet", "residual", "encoder":
            module, x, y = made(name)
            plain = copy.deepcopy(module)
            plan = tenure.torch.fit(module, x, 0.5, loss=fitted.entropy, targets=(y,), timeout=0, offload=folder, link=link)
            seen, tried = seen + (bool(plan.recomputed) and plan.offloaded_bytes > 0), tried + 1
            assert trained_alike(plain, module, x, y), (name, link)
        if seen > 1:
            break
    print("%d of %d plans do both" % (seen, tried))
    assert seen > 0


class Masks(nn.Module):
    """Truths and places are saved."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.first(x), 2)
        x = torch.where(x > 0.1, x, x * 0.5)
        x = nn.functional.max_pool2d(self.second(x).masked_fill(x < 0, 0), 2)
        return self.head(x.mean((2, 3)))


def check_packed():
    torch.manual_seed(7)
    for _ in range(300):
        shape = [int(torch.randint(1, 9, ())) for _ in range(int(torch.randint(1, 4, ())))]
        for tensor in torch.rand(shape) < 0.5, torch.randint(-2**31, 2**31, shape):
            found = packed(tensor)
            assert found is None or torch.equal(found.unpack(), tensor), tensor
            assert (found is None) == (tensor.numel() < 8), tensor
    wide = torch.arange(8) + 2**31
    assert packed(wide) is None and packed(torch.ones(9)) is None and packed(torch.ones(4, 9, dtype=torch.bool)[:, 1:]) is None
    module, x, y = Masks(), torch.randn(8, 3, 32, 32), torch.randint(10, (8,))
    plain = copy.deepcopy(module)
    plan = tenure.torch.fit(module, x, 0.9, loss=fitted.entropy, targets=(y,), of="saved", timeout=0, pack=True)
    usual, planned = fitted.between(lambda: plain(x), y), fitted.between(lambda: module(x), y)
    print("masks: %d saved plainly, %d packed; between the passes %d -> %d"
          % (plan.plain_saved_bytes, plan.saved_bytes, usual, planned))
    assert not plan.recomputed and plan.overhead == 1 and planned <= plan.budget < usual
    assert trained_alike(plain, module, x, y)


def check_saved(folder):
    module, x, y = made("perceptron")
    plain = copy.deepcopy(module)
    plan = tenure.torch.fit(module, x, 0.2, loss=fitted.entropy, targets=(y,), of="saved", timeout=0, offload=folder, link=AT_ONCE)
    planned = fitted.between(lambda: module(x), y)
    print("saved alone: %d plainly, budget %d, saved %d, between the passes %d" % (plan.plain_saved_bytes, plan.budget, plan.saved_bytes, planned))
    assert max(plan.saved_bytes, planned) <= plan.budget and trained_alike(plain, module, x, y)


def check_use(folder):
    module, x, y = made("encoder")
    plain = copy.deepcopy(module)
    plan = tenure.torch.fit(module, x, 0.5, loss=fitted.entropy, targets=(y,), timeout=0, offload=folder)  # the link is measured

    def gradients(which, text, labels, turns):
        torch.manual_seed(8)
        which.zero_grad(set_to_none=True)
        loss = fitted.entropy(which(text), labels)
        for turn in range(turns):
            loss.backward(retain_graph=turn + 1 < turns)
        return [parameter.grad.clone() for parameter in which.parameters()]
    assert fitted.same(gradients(plain, x, y, 3), gradients(module, x, y, 3)), "a graph that is retained"
    other, labels = torch.randint(200, (3, 20)), torch.randint(200, (60,))
    assert fitted.same(gradients(plain, other, labels, 1), gradients(module, other, labels, 1)), "another shape"
    plan.remove()
    for words, kind in (({"offload": "cpu"}, ValueError), ({"offload": folder + "/none"}, FileNotFoundError), ({"link": 1e9}, ValueError),
                        ({"offload": folder, "link": -1}, ValueError), ({"offload": folder, "link": "fast"}, ValueError),
                        ({"offload": folder, "link": float("nan")}, ValueError), ({"offload": 5}, TypeError)):
        try:
            tenure.torch.fit(module, x, 0.5, loss=fitted.entropy, targets=(y,), timeout=0, **words)
        except kind:
            assert "forward" not in module.__dict__, words
            continue
        raise AssertionError("%r was taken" % words)


def check_full_disk(folder):
    """As on a full disk: no file may be longer. The forward pass says so, and the module is as it was."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    module, x, y = made("perceptron")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, hard))
    try:
        tenure.torch.fit(module, x, 0.3, loss=fitted.entropy, targets=(y,), timeout=0, offload=folder, link=AT_ONCE)
        raise AssertionError("more than fits")
    except (OSError, RuntimeError) as error:  # PyTorch 1.13 makes one of all that a hook raises
        assert "forward" not in module.__dict__ and "File too large" in str(error), error
        print("a full disk: %s" % str(error).splitlines()[0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(folder) == []


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        good = [check_away(name, folder) for name in AWAY]
        check_both(folder)
        check_packed()
        check_use(folder)
        check_full_disk(folder)
        check_saved(folder)
        store = Folder(folder)
        for size in range(1, 50):  # steps of other shapes
            held = [store.put(torch.arange(size)) for _ in range(3)]
            assert all(torch.equal(store.get(place), torch.arange(size)) for place in held)
            del held
        assert store.end == 3 * 49 * 8, "the file grows with every shape"
        assert torch.equal(store.get(store.put(torch.arange(5))), torch.arange(5)) and store.get(store.put(torch.empty(0))).numel() == 0
    sys.exit(0 if all(good) else 1)


main()
