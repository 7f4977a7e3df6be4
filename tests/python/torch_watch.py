#!/usr/bin/python3
"""tenure.torch.watch on PyTorch: sizes by category are those that follow from the shapes, and results stay the same.

    torch_watch.py SOURCE LIBRARY

Exit status: 0 all of it holds, 1 not, 77 python3-torch is absent.
"""
import gc
import os
import pathlib
import sys
import unittest

source = pathlib.Path(sys.argv[1]).resolve()
os.environ["TENURE_LIBRARY"] = os.path.abspath(sys.argv[2])
sys.dont_write_bytecode = True
sys.path.insert(0, str(source / "bindings/python"))
try:
    import torch
except ImportError:
    print("SKIP: python3-torch is not installed")
    sys.exit(77)
from torch import nn  # noqa: E402

import tenure.torch  # noqa: E402


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(256, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 16))


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class Watch(unittest.TestCase):
    def train(self, optimizer_of, watched, steps=4):
        module = network()
        optimizer = optimizer_of(module.parameters())
        losses, sums, past = [], [], []
        x, y = torch.randn(32, 256), torch.randint(0, 16, (32,))

        def step(table):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(module(x), y)
            loss.backward()
            if table is not None:
                sums.append(table.table().by("category"))
            optimizer.step()
            losses.append(loss.item())
        if not watched:
            for _ in range(steps):
                step(None)
            return losses, module, optimizer, sums, past
        with tenure.torch.watch(module, optimizer) as table:
            for _ in range(steps):
                step(table)
            gc.collect()
            sums.append(table.table().by("category"))
            past = table.table().past
        return losses, module, optimizer, sums, past

    def test_categories_have_the_bytes_of_their_tensors(self):
        for optimizer_of in (lambda parameters: torch.optim.SGD(parameters, lr=0.1), torch.optim.Adam):
            plain = self.train(optimizer_of, False)
            losses, module, optimizer, sums, past = self.train(optimizer_of, True)
            self.assertEqual(losses, plain[0])
            parameters, buffers = list(module.parameters()), list(module.buffers())
            states = [tensor for state in optimizer.state.values() for tensor in state.values() if torch.is_tensor(tensor)]
            last = sums[-1]
            self.assertEqual(last["parameter"], bytes_of(parameters))
            self.assertEqual(last["buffer"], bytes_of(buffers))
            self.assertEqual(last["gradient"], bytes_of(parameter.grad for parameter in parameters))
            self.assertEqual(last.get("optimizer_state", 0), bytes_of(states))
            self.assertEqual(last["input"], 32 * 256 * 4)
            self.assertEqual(len(past), 4)
            self.assertEqual([step.growth for step in past[2:]], [0, 0])
            self.assertNotIn("step", optimizer.__dict__)

    def test_a_kept_loss_is_marked_with_its_line(self):
        module, kept = network(), []
        x = torch.randn(32, 256)
        with tenure.torch.watch(module) as table:
            for _ in range(5):
                kept.append(module(x).sum())  # keeps the activations of every step
                table.step()
            past = table.table().past
            self.assertTrue(all(step.growth > 0 and step.category == "activation" for step in past[1:]), past)
            rows = [row for row in table.table().rows if row.category == "activation" and row.module == "0"]
            self.assertEqual(sum(row.bytes for row in rows), 5 * 32 * 512 * 4)
            self.assertTrue(all(row.line.startswith("torch_watch.py:") for row in rows), rows)


unittest.main(argv=sys.argv[:1])
