#!/usr/bin/python3
"""tenure.torch.watch on PyTorch: sizes by category are those that follow from the shapes, peaks those of PyTorch's profiler,
and programs behave as without it.

    torch_watch.py SOURCE LIBRARY

Exit status: 0 all of it holds, 1 not, 77 python3-torch is absent.
"""
import copy
import gc
import io
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
from torch.profiler import ProfilerActivity, profile  # noqa: E402

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

    def profiled(self, module, optimizer, given, step):
        """The peak of a step, with PyTorch's own record of allocations."""
        held = {tensor.data_ptr(): bytes_of([tensor]) for tensor in [
            *module.parameters(), *module.buffers(), *given, *(tensor for state in optimizer.state.values() for tensor in state.values())]}
        now = peak = sum(held.values())
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            step()
        for event in seen.profiler.kineto_results.events():
            if event.name() == "[memory]":
                now += event.nbytes()
                peak = max(peak, now)
        return peak

    def test_peaks_are_those_of_the_profiler(self):
        """These layers have no scratch memory, but PyTorch makes tensors of 8 and 4 bytes of a number in an expression."""
        for optimizer_of in (lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), torch.optim.Adam):
            module = network()
            optimizer = optimizer_of(module.parameters())
            x, y = torch.randn(32, 256), torch.randint(0, 16, (32,))

            def step():
                module.zero_grad(set_to_none=True)
                loss = nn.functional.cross_entropy(module(x), y)
                loss.backward()
                del loss
                optimizer.step()
            step()
            module.zero_grad(set_to_none=True)
            peak = self.profiled(module, optimizer, (x, y), step)
            with tenure.torch.watch(module, optimizer) as table:
                step()
                step()
                module.zero_grad(set_to_none=True)
                found = table.table().past[1].peak + bytes_of([y])  # labels are no argument of the module
            self.assertLessEqual(found, peak)
            self.assertGreaterEqual(found, peak - 12)

    def test_programs_go_on_as_before(self):
        """A scheduler made in the block, copies and pickles of the module and the optimizer, and modules of TorchScript."""
        module = network()
        optimizer = torch.optim.Adam(module.parameters())
        x = torch.randn(32, 256)

        def step():
            optimizer.zero_grad(set_to_none=True)
            module(x).sum().backward()
            optimizer.step()
        with tenure.torch.watch(module, optimizer) as table:
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            for _ in range(2):
                step()
                scheduler.step()
            self.assertEqual(table.table().step, 3)
            copies = [copy.deepcopy(module), copy.deepcopy(optimizer)]
            file = io.BytesIO()
            torch.save([module, optimizer], file)
            file.seek(0)
            copies += torch.load(file)
        step()
        scheduler.step()
        self.assertAlmostEqual(scheduler.get_last_lr()[0], 1e-6, 12)
        for kept in copies[::2]:
            self.assertFalse(kept._forward_pre_hooks or kept._forward_hooks)
            self.assertTrue(torch.equal(kept[0].weight, copies[0][0].weight))
        self.assertFalse([kept for kept in copies[1::2] if "step" in kept.__dict__])
        script = torch.jit.script(network())
        with tenure.torch.watch(script) as table:
            script(x).sum().backward()
            sums = table.table().by("category")
        self.assertEqual(sums["parameter"], bytes_of(script.parameters()))
        self.assertEqual(sums["gradient"], bytes_of(script.parameters()))

    def test_tensors_without_gradients_are_no_gradients(self):
        """What is loaded, and what is computed without recording gradients, is 'other'; gradients of a closure are gradients."""
        module = network()
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        with tenure.torch.watch(module) as table:
            loaded = torch.load(file)
            with torch.no_grad():
                mean = torch.zeros(500) + 1
            self.assertEqual(table.table().by("category")["other"], bytes_of(loaded.values()) + bytes_of([mean]))
            self.assertNotIn("gradient", table.table().by("category"))
            found = torch.autograd.grad(module(torch.randn(32, 256)).sum(), list(module.parameters()))
            self.assertEqual(table.table().by("category")["gradient"], bytes_of(found))
        linear = nn.Linear(8, 8)
        optimizer, most = torch.optim.LBFGS(linear.parameters(), max_iter=2), []
        with tenure.torch.watch(linear, optimizer) as table:
            def closure():
                optimizer.zero_grad()
                loss = linear(torch.ones(4, 8)).square().mean()
                loss.backward()
                most.append(table.table().by("category")["gradient"])
                return loss
            optimizer.step(closure)
        self.assertEqual(set(most), {bytes_of(linear.parameters())})

    def test_processes_that_load_data_do_not_change_the_table(self):
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        data = torch.utils.data.TensorDataset(torch.randn(128, 256), torch.randint(0, 16, (128,)))
        with tenure.torch.watch(module, optimizer) as table:
            for x, y in torch.utils.data.DataLoader(data, 32, num_workers=2):
                optimizer.zero_grad(set_to_none=True)
                nn.functional.cross_entropy(module(x), y).backward()
                optimizer.step()
            del x, y
            gc.collect()
            sums = table.table().by("category")
        self.assertEqual(sums, {"parameter": bytes_of(module.parameters()), "gradient": bytes_of(module.parameters()),
                                "buffer": bytes_of(module.buffers())})


unittest.main(argv=sys.argv[:1])
