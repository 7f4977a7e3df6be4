#!/usr/bin/python3
"""torch.utils.checkpoint on a training step, on the CPU; for bench/fit.c, which talks to it.

    fit_torch.py NAME DIR BATCH THREADS OPTIMIZER

NAME is one of training_torch.py's. Writes DIR/NAME.onnx if it is not there and says "ready", then
answers lines of stdin, one line each:

    plan BYTES  the fastest segmenting found that holds at most so many bytes at once, parameters and
                state of the optimizer with them; where there is none, that which holds least:
                "segmented CHECKPOINTED OF TRIED"
    plain       a step without segments: "ms MILLISECONDS PEAK"
    fitted      a step of what `plan` found, the same

A segmenting cuts the network's blocks into 1 to all runs of consecutive ones that keep alike many
bytes for the backward pass, and checkpoints the fewest of the first (which keep most) that will do;
of all numbers of runs the one that makes least again, by seconds of forward passes. Bytes are what
the profiler tells of allocations, as in training_torch.py. Needs python3-torch, -torchvision.
"""
import os
import sys
import time

if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[4]

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import training_torch as nets


def halves(pair):
    """A U-Net's pair of convolutions; what else is in the state stays."""
    return [lambda x, *rest, part=part: (part(x), *rest) for part in (pair[:2], pair[2:])]


def unet_units(net):
    units = []
    for i, pair in enumerate(net.down):
        if i:  # what comes up again lies behind x, the deepest first
            units.append(lambda x, *rest: (nn.functional.max_pool2d(x, 2), x, *rest))
        units += halves(pair)
    for i in reversed(range(len(net.up))):
        units.append(lambda x, kept, *rest, up=net.up[i]: (torch.cat([kept, up(x)], 1), *rest))
        units += halves(net.join[i])
    return units + [lambda x: (net.head(x),)]


def resnet_units(net):
    units = [lambda x: (net.maxpool(net.relu(net.bn1(net.conv1(x)))),)]
    for layer in (net.layer1, net.layer2, net.layer3, net.layer4):
        units += [lambda x, block=block: (block(x),) for block in layer]
    return units + [lambda x: (net.fc(net.avgpool(x).flatten(1)),)]


def densenet_units(net):
    units, stem = [], []
    for part in net.features.children():
        if hasattr(part, "denselayer1"):
            units += [lambda *x, layer=layer: (*x, layer(list(x))) for layer in part.children()]
        elif units:
            units.append(lambda *x, part=part: (part(torch.cat(x, 1)),))
        else:
            stem.append(part)
    head = lambda x: (net.classifier(nn.functional.relu(x).mean((2, 3))),)
    return [lambda x: (nn.Sequential(*stem)(x),)] + units + [head]


def gpt_units(net):
    units = [lambda x: (net.drop(net.words(x) + net.places),)]
    units += [lambda x, block=block: (block(x, net.mask),) for block in net.blocks]
    return units + [lambda x: (net.head(net.last(x)),)]


def units_of(name, net):
    if name in nets.GPTS:
        return gpt_units(net)
    for kind, make in (("unet", unet_units), ("resnet", resnet_units), ("densenet", densenet_units)):
        if name.startswith(kind):
            return make(net)
    sys.exit(f"{name} has no blocks here")


def run(units, plan, x):
    """plan: (first, last, whether it is checkpointed) of each segment."""
    state = (x,)
    for first, last, again in plan:
        def segment(*state, part=units[first:last]):
            for unit in part:
                state = unit(*state)
            return state
        state = (checkpoint(segment, *state, use_reentrant=False, preserve_rng_state=False)
                 if again else segment(*state))
    return state[0]


def weigh(units, x):
    """Of each unit: bytes it keeps for the backward pass, seconds of its forward pass."""
    bytes_of, seconds, state = [], [], (x,)
    for unit in units:
        kept = {}
        def pack(t):
            kept[t.storage().data_ptr()] = t.numel() * t.element_size()
            return t
        unit(*state)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            start = time.perf_counter()
            state = unit(*state)
            seconds.append(time.perf_counter() - start)
        state = tuple(t.detach().requires_grad_() for t in state)
        bytes_of.append(sum(kept.values()))
    return bytes_of, seconds


def cut(weights, count):
    """`count` runs of consecutive ones, of about the same weight; None: not so many."""
    total, ends, so_far = sum(weights), [], 0
    for i, weight in enumerate(weights):
        so_far += weight
        if so_far >= total * (len(ends) + 1) / count or i + 1 == len(weights):
            ends.append(i + 1)
    return list(zip([0] + ends, ends)) if len(ends) == count else None


class Finder:
    def __init__(self, units, x, peak_of):
        self.units, self.peak_of, self.peaks = units, peak_of, {}
        self.bytes_of, self.seconds = weigh(units, x)

    def peak(self, plan):
        if plan not in self.peaks:
            self.peaks[plan] = self.peak_of(plan)
        return self.peaks[plan]

    def again(self, plan):
        return sum(sum(self.seconds[first:last]) for first, last, again in plan if again)

    def cuts(self):
        """In numbers that rise by a third or so."""
        counts, count = [], 1
        while count <= len(self.units):
            counts.append(count)
            count = max(count + 1, count * 4 // 3)
        ways = {tuple(cut(self.bytes_of, count) or ()) for count in counts + [len(self.units)]}
        ways.add(tuple((i, i + 1) for i in range(len(self.units))))
        return sorted(ways - {()})

    def first_within(self, runs, limit):
        """The fewest checkpointed that are within, by halving: more of them, fewer bytes."""
        low, high = 0, len(runs)
        plan = lambda count: tuple((*run, i < count) for i, run in enumerate(runs))
        if self.peak(plan(high)) > limit:
            high -= 1  # the last one is made again at once: checkpointed for nothing
            if self.peak(plan(high)) > limit:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.peak(plan(middle)) <= limit else (middle, high)
        return plan(high)

    def find(self, limit):
        plain = ((0, len(self.units), False),)
        if self.peak(plain) <= limit:
            return plain
        found = [self.first_within(runs, limit) for runs in self.cuts()]
        within = [plan for plan in found if plan]
        return min(within, key=self.again) if within else min(self.peaks, key=self.peaks.get)



OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-6),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-6, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-6),
}


def main():
    name, folder, batch, threads, optimizer_name = sys.argv[1:6]
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    net, x, labels = nets.made(name, int(batch))
    nets.export(name, folder, net, x)
    net.train()
    units, optimizer = units_of(name, net), OPTIMIZERS[optimizer_name](net.parameters())

    def step(plan):
        optimizer.zero_grad(set_to_none=True)
        scores = run(units, plan, x)
        scores = scores.transpose(1, 2) if name in nets.GPTS else scores
        nn.functional.cross_entropy(scores, labels).backward()
        optimizer.step()

    def peak_of(plan):
        optimizer.zero_grad(set_to_none=True)
        return nets.peak_of(lambda: step(plan), net, optimizer)

    def timed(plan):
        start = time.perf_counter()
        step(plan)
        return f"ms {1e3 * (time.perf_counter() - start)} {finder.peak(plan)}"

    plain = ((0, len(units), False),)
    step(plain)  # the first makes the optimizer's state
    finder, best = Finder(units, x, peak_of), plain
    print("ready", flush=True)
    for line in sys.stdin:
        if line.startswith("plan"):
            best = finder.find(int(line.split()[1]))
            print("segmented", sum(run[2] for run in best), len(best), len(finder.peaks), flush=True)
        else:
            print(timed(plain if line.startswith("plain") else best), flush=True)


if __name__ == "__main__":
    main()
