#!/usr/bin/python3
"""tenure.Watch and tenure.holders, and the accounting of tenure.torch.watch on a stand-in for PyTorch (torch_standin).

    watch.py SOURCE LIBRARY TENURE

Exit status: 0 all of it holds, 1 not.
"""
import gc
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import types
import unittest

source, library, command = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
os.environ["TENURE_LIBRARY"] = library
sys.dont_write_bytecode = True
sys.path.insert(0, str(source / "bindings/python"))
import torch_standin  # noqa: E402  (beside this file)
import tenure  # noqa: E402

package = types.ModuleType("tenure.torch")  # without its other modules, which need all of PyTorch
package.__path__ = [str(source / "bindings/python/tenure/torch")]
sys.modules["tenure.torch"] = package
from tenure.torch._watch import watch  # noqa: E402

operator, state = torch_standin.operator, torch_standin.state


class Publishing(unittest.TestCase):
    def test_random_keys_are_those_of_a_dictionary(self):
        random.seed(5)
        with tenure.Watch("random") as table:
            held, peak = {}, 0
            for _ in range(3000):
                key, name = random.randrange(50), "line %d" % random.randrange(7)
                if random.random() < 0.5:
                    held[key] = random.randrange(1000), name
                    table.hold(key, held[key][0], line=name)
                elif random.random() < 0.5:
                    table.release(key)
                    held.pop(key, None)
                elif key in held:
                    held[key] = held[key][0], name
                    table.label(key, line=name)
                peak = max(peak, sum(size for size, _ in held.values()))
                self.assertEqual(table.size_of(key), held[key][0] if key in held else None)
            read, sums = table.table(), {}
            for size, name in held.values():
                sums[name] = sums.get(name, 0) + size
            self.assertEqual(read.by("line"), {name: size for name, size in sums.items() if size})
            # a key that is held again is released before: the peak of the dictionary is reached
            self.assertEqual((read.bytes, read.peak, read.exact), (sum(sums.values()), peak, True))
            self.assertEqual(table.bytes, read.bytes)
            self.assertIn(format(read.bytes, ","), str(table))

    def test_the_command_reads_the_same(self):
        with tenure.Watch("same") as table:
            table.hold(1, 123456, line="données.py:7", module="a\nb", category='"<')
            table.step()
            table.hold(2, 5, module="grows")
            table.step()
            answer = subprocess.run([command, "watch", str(os.getpid()), "--once", "--json"], capture_output=True, text=True)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            found, read = json.loads(answer.stdout)["tables"][0], table.table()
            self.assertEqual([(row["line"], row["module"], row["category"], row["bytes"]) for row in found["rows"]],
                             [(row.line, row.module, row.category, row.bytes) for row in read.rows])
            self.assertEqual((found["bytes"], found["step"], found["peak"]), (read.bytes, 2, read.peak))
            shown = subprocess.run([command, "watch", str(os.getpid()), "--once"], capture_output=True, text=True).stdout
            self.assertNotIn("a\nb", shown)  # a name cannot make a line

    def test_a_process_that_exits_leaves_nothing(self):
        script = "import os, tenure; watch = tenure.Watch('gone'); pid = os.fork(); print(os.getpid()) if pid else 0"
        child = subprocess.run([sys.executable, "-c", script], env=dict(os.environ, PYTHONPATH=str(source / "bindings/python")),
                               capture_output=True, text=True)
        self.assertEqual((child.returncode, child.stderr), (0, ""))
        with self.assertRaises(tenure.Error) as caught:
            tenure.holders(int(child.stdout))
        self.assertEqual(caught.exception.status, "E_UNKNOWN")
        self.assertFalse([name for name in os.listdir("/dev/shm") if name.startswith("tenure-watch-%s-" % child.stdout.strip())])

    def test_wrong_arguments_end_in_exceptions(self):
        for name in ("", "a/b", "x" * 40, "ä"):
            with self.assertRaises(tenure.Error):
                tenure.Watch(name)
        for bad, kind in ((dict(source=3), TypeError), (dict(rows=-1), ValueError), (dict(rows="9"), TypeError),
                          (dict(rows=70000), tenure.Error)):
            with self.assertRaises(kind):
                tenure.Watch(**bad)
        for bad, kind in ((0, ValueError), (-4, ValueError), ("1", TypeError), (1 << 31, ValueError)):
            with self.assertRaises(kind):
                tenure.holders(bad)
        with tenure.Watch("bad") as table:
            with self.assertRaises(tenure.Error):
                tenure.Watch("bad")
            for bad, kind in ((dict(size=-1), ValueError), (dict(size=2, line=3), TypeError), (dict(size=2, line="\0"), ValueError)):
                with self.assertRaises(kind):
                    table.hold("key", **bad)
            with self.assertRaises(KeyError):
                table.label("unknown")
            with self.assertRaises(ValueError):
                table.table().by("colour")
            table.release("unknown")
            self.assertEqual(table.table().bytes, 0)
        with self.assertRaises(ValueError):
            table.hold("key", 1)


class Net(torch_standin.Module):
    """Two layers with a parameter of 1000 bytes each, and a buffer of 100; activations of 300 and 50 bytes."""

    def __init__(self):
        super().__init__()
        self.extra["mean"] = torch_standin.Tensor(torch_standin.Memory(100))
        for name in ("first", "second"):
            layer = self.parts[name] = torch_standin.Module()
            layer.own["weight"] = torch_standin.Parameter(torch_standin.Memory(1000))
            layer.forward = lambda x: operator(operator(x, size=300), view=True)
        self.keep = []

    def forward(self, x):
        hidden = self.parts["first"](x)
        return [hidden, self.parts["second"](hidden), operator(hidden, size=50)]


class Optimizer:
    """As Adam with one tensor for each parameter; momentum of 1000 bytes, and 400 bytes while it runs."""

    def __init__(self, module):
        self.module, self.state = module, {}

    def step(self, extra=0):
        state.grad = False
        scratch = operator(size=400)
        for _, parameter in self.module.named_parameters():
            if parameter not in self.state:
                self.state[parameter] = {"step": 1, "momentum": operator(size=1000)}
        del scratch
        state.grad = True
        return extra


def backward(module):
    state.task, state.grad = 3, False
    passing = operator(size=70)
    for _, parameter in module.named_parameters():
        parameter.grad = operator(size=1000)
    del passing
    state.task, state.grad = -1, True


class Torch(unittest.TestCase):
    def test_each_byte_has_its_category_and_module(self):
        module = Net()
        optimizer = Optimizer(module)
        own_step = optimizer.step
        with watch(module, optimizer) as table:
            self.assertEqual(table.table().by("category"), {"parameter": 2000, "buffer": 100})
            x = operator(size=64)
            self.assertEqual(table.table().by("category")["other"], 64)
            outputs = module(x)
            gc.collect()
            read = table.table()
            self.assertEqual(read.by("category"), {"parameter": 2000, "activation": 650, "buffer": 100, "input": 64})
            self.assertEqual(read.by("module"), {"first": 1300, "second": 1300, "Net": 150, "": 64})
            line = [row.line for row in read.rows if row.category == "activation" and row.module == "first"]
            self.assertEqual([name.partition(":")[0] for name in line], ["watch.py"])
            backward(module)
            read = table.table()
            self.assertEqual(read.by("category")["gradient"], 2000)
            self.assertEqual([row.module for row in read.rows if row.category == "gradient" and row.bytes], ["first", "second"])
            # the peak of the step: all of these, and 70 bytes that passed; the second gradient came while they lived
            self.assertEqual(read.step_peak, 2000 + 100 + 64 + 650 + 2000 + 70)
            del outputs, x
            self.assertEqual(optimizer.step(extra=9), 9)
            read = table.table()
            self.assertEqual(read.by("category"), {"parameter": 2000, "gradient": 2000, "optimizer_state": 2000, "buffer": 100})
            self.assertEqual((read.step, len(read.past)), (2, 1))
            self.assertEqual(read.past[0].peak, 2000 + 100 + 2000 + 400 + 2000)  # in the optimizer
            self.assertEqual(tenure.holders()[0].bytes, read.bytes)
        self.assertEqual(optimizer.step, own_step)
        self.assertFalse(torch_standin.before or torch_standin.after)
        self.assertFalse(torch_standin.modes)
        with self.assertRaises(RuntimeError):
            table.table()

    def test_a_leak_is_marked_with_its_line(self):
        module, losses = Net(), []
        optimizer = Optimizer(module)
        with watch(module, optimizer, source="leak") as table:
            for _ in range(6):
                backward(module)
                losses.append(operator(size=48))  # the leak
                optimizer.step()
                for _, parameter in module.named_parameters():
                    parameter.grad = None
            past = table.table().past
        self.assertEqual([step.growth for step in past], [0] + [48] * 5)
        text = pathlib.Path(__file__).read_text().split("# the leak\n")[0]
        number = text.count("\n") + 1
        self.assertEqual({(step.line, step.category, step.row_growth) for step in past[1:]}, {("watch.py:%d" % number, "other", 48)})

    def test_steady_training_is_not_marked(self):
        module = Net()
        optimizer = Optimizer(module)
        with watch(module, optimizer) as table:
            for _ in range(5):
                outputs = module(operator(size=64))
                backward(module)
                del outputs
                optimizer.step()
                for _, parameter in module.named_parameters():
                    parameter.grad = None
            growths = [step.growth for step in table.table().past]
        self.assertEqual(growths[2:], [0, 0, 0])  # the second step is the first with all of the optimizer's state

    def test_storages_that_are_resized_or_shared_count_once(self):
        module = Net()
        shared = module.parts["second"]
        shared.own["tied"] = module.parts["first"].own["weight"]
        with watch(module) as table:
            self.assertEqual(table.table().by("category"), {"parameter": 2000, "buffer": 100})
            grown = operator(size=10)
            grown.memory.size = 500
            operator(grown, view=True)
            self.assertEqual(table.table().by("category")["other"], 500)
            view = operator(grown, view=True)
            del grown
            self.assertEqual(table.table().by("category")["other"], 500)  # the view holds it
            del view
            self.assertNotIn("other", table.table().by("category"))

    def test_a_forward_that_raises_leaves_no_module_behind(self):
        module = Net()
        layer = module.parts["second"]
        works = layer.forward

        def fails(x):
            raise RuntimeError("no")
        with watch(module) as table:
            layer.forward = fails
            x = operator(size=64)
            with self.assertRaises(RuntimeError):
                module(x)
            layer.forward = works
            outputs = module(x)
            self.assertEqual(table.table().by("module"), {"first": 1300, "second": 1300, "Net": 150, "": 64})
            del outputs, x

    def test_wrong_arguments(self):
        for bad in ((3,), (Net(), 3)):
            with self.assertRaises(TypeError):
                watch(*bad)
        module = Net()
        with watch(module), self.assertRaises(tenure.Error):
            watch(module).__enter__()  # the name of the table is in use
        self.assertFalse(torch_standin.before)


signal.alarm(600)
unittest.main(argv=sys.argv[:1])
