#!/usr/bin/python3
"""The package: answers judged by rules of their own, and bad input that must end in an exception.

    api.py SOURCE LIBRARY [lists]      lists: without numpy, as if it was not installed

Exit status: 0 all of it holds, 1 not, 77 numpy is not installed.
"""
import ctypes
import io
import json
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
from xml.etree import ElementTree

source, library = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
lists = sys.argv[3:] == ["lists"]
os.environ["TENURE_LIBRARY"] = library
sys.dont_write_bytecode = True
sys.path.insert(0, str(source / "bindings/python"))
if lists:
    sys.modules["numpy"] = None
else:
    try:
        import numpy
    except ImportError:
        print("SKIP: numpy is not installed")
        sys.exit(77)
import tenure  # noqa: E402

MODELS = source / "examples/models"
SEED = 16


def integers(values):
    return list(values) if lists else numpy.array(values, dtype=random.choice((numpy.int64, numpy.uint64)))


def meet(problem, offsets):
    """Whether two bodies share a byte at a step: every pair is looked at."""
    bodies = list(zip(problem, offsets))
    return any(a.first < b.last and b.first < a.last and x < y + b.size and y < x + a.size
               for k, (a, x) in enumerate(bodies) for b, y in bodies[k + 1:])


class Streams(unittest.TestCase):
    def test_a_model_on_streams(self):
        graph = tenure.load(MODELS / "two_branches.onnx")
        alone, wide = tenure.plan(graph), tenure.plan(graph, streams=2, stream={"type:*": 0, "*": 1})
        self.assertLessEqual(alone.peak, tenure.plan(graph, streams=2).peak)
        self.assertEqual(alone.peak, wide.peak)  # all operators are on stream 1
        for bad in ({"streams": 0}, {"streams": 2, "stream": {"nobody": 0}}, {"streams": 2, "stream": {"*": 2}},
                    {"adjacent": ["nobody"]}):
            with self.assertRaises(tenure.Error):
                tenure.plan(graph, **bad)
        for bad in ({"adjacent": "text"}, {"adjacent": None}, {"streams": "two"}, {"streams": 2, "stream": ["*=1"]}):
            with self.assertRaises(TypeError):
                tenure.plan(graph, **bad)
        for bad in ({"streams": 2 ** 32 + 2}, {"streams": 2, "stream": {"*": 2 ** 32 + 1}}, {"stream": {"*": 1}}):
            with self.assertRaises((ValueError, OverflowError)):
                tenure.plan(graph, **bad)
        with self.assertRaises(TypeError):
            tenure.plan([1], first=[0], last=[1], streams=2)

    def test_adjacent_tensors(self):
        graph = tenure.load(MODELS / "two_branches.onnx")
        names = [tensor.name for tensor in graph.tensors if tensor.kind == "activation"][:2]
        layout = tenure.plan(graph, adjacent=names[:1])
        self.assertEqual(layout.verdict, "optimal")


class Plans(unittest.TestCase):
    def test_random_problems_are_planned_and_judged(self):
        random.seed(SEED)
        for _ in range(60):
            count = random.randrange(1, 40)
            first = [random.randrange(50) for _ in range(count)]
            last = [at + random.randrange(1, 20) for at in first]
            sizes = [random.randrange(1, 1000) for _ in range(count)]
            layout = tenure.plan(integers(sizes), integers(first), last, alignment=random.choice((1, 64)))
            problem = layout.problem
            self.assertFalse(meet(problem, layout.offsets))
            self.assertEqual(layout.peak, max(at + body.size for body, at in zip(problem, layout.offsets)))
            live = max(sum(s for s, a, b in zip(sizes, first, last) if a <= step < b) for step in range(70))
            self.assertGreaterEqual(layout.lower_bound, live)
            self.assertGreaterEqual(layout.peak, layout.lower_bound)
            self.assertEqual(layout.optimal, layout.verdict == "optimal")
            tenure.verify(problem, layout)
            tenure.verify(problem, list(layout.offsets))
            moved = [0] * count
            if meet(problem, moved):
                with self.assertRaises(tenure.Error) as caught:
                    tenure.verify(problem, moved)
                self.assertEqual(caught.exception.status, "E_CONFLICT")
                self.assertEqual(caught.exception.conflict.reason, "overlap")
                a, b = caught.exception.conflict.a, caught.exception.conflict.b
                self.assertTrue(problem[a].first < problem[b].last and problem[b].first < problem[a].last)

    def test_constraints(self):
        problem = tenure.Problem(alignment=16)
        a = problem.add(100, 0, 4, name="a", offset=64)
        b = problem.add(10, 2, 6, alignment=128)
        c = problem.add(50, 0, 8, tied_to=problem.add(50, 0, 8), delta=64)
        d = problem.add(64, 0, 0, pieces=[(0, 2, 0, 64), (5, 7, 0, 32)])
        layout = problem.plan(planner="exact")
        self.assertEqual(layout.offsets[a], 64)
        self.assertEqual(layout.offsets[b] % 128, 0)
        self.assertEqual(layout.offsets[c] - layout.offsets[c - 1], 64)
        self.assertEqual(problem[d].pieces, ((0, 2, 0, 64), (5, 7, 0, 32)))
        self.assertEqual((problem[a].name, problem[a].pinned, problem[-1]), ("a", 64, problem[d]))
        self.assertEqual(len(list(problem)), 5)
        self.assertGreaterEqual(problem.naive, layout.peak)

    def test_exclusions(self):
        problem = tenure.Problem()
        for _ in range(3):
            problem.add(8, 0, 4)
        problem.add_exclusion(0, 1)
        layout = problem.plan()
        self.assertEqual((layout.peak, layout.offsets[0]), (16, layout.offsets[1]))
        tenure.verify(problem, layout)
        with self.assertRaises(tenure.Error) as refused:
            tenure.verify(problem, [0, 0, 4])
        self.assertEqual(refused.exception.conflict.reason, "overlap")
        problem.keep_apart(0, 1)
        with self.assertRaises(tenure.Error) as refused:
            tenure.verify(problem, [0, 0, 8])
        self.assertEqual(refused.exception.conflict.reason, "apart")

    def test_solutions_of_dsa_solver(self):
        folder = source / "examples" / "problems"
        problem = tenure.Problem.load(folder / "branches.json")
        layout = tenure.Layout.load(problem, folder / "branches.solution.json")
        tenure.verify(problem, layout)
        self.assertEqual(layout.peak, 4096)
        with self.assertRaises(tenure.Error):
            tenure.Layout.load(tenure.Problem(), folder / "branches.solution.json")

    def test_capacity(self):
        arrays = ([600, 500, 700], [0, 1, 3], [3, 4, 6])
        self.assertEqual(tenure.plan(*arrays, capacity="1200B").peak, 1200)
        with self.assertRaises(tenure.Error) as caught:
            tenure.plan(*arrays, capacity=1024)
        self.assertEqual(caught.exception.status, "E_INFEASIBLE")
        self.assertIn("1,200", caught.exception.message)
        shown = traceback.format_exception_only(tenure.Error, caught.exception)  # by the name that it is caught by
        self.assertTrue(shown[-1].startswith("tenure.Error: "), shown)
        self.assertEqual(pickle.loads(pickle.dumps(tenure.Error)), tenure.Error)

    def test_waits_and_time(self):
        problem = tenure.Problem()
        for _ in range(6):
            problem.add_event(3)
        for before, after in ((0, 1), (2, 3), (4, 5), (1, 4)):
            problem.add_order(before, after)
        for body in range(3):
            self.assertEqual(problem.add(2, 2 * body, 2 * body + 2), body)
            problem.add_span(body, 2 * body, [2 * body + 1, 2 * body])
        # 2 bytes: all three share them, so 2 waits for 1 and 4 for 3 (1 before 4 is given): 6 events of 3 in a row.
        # 4 bytes: the first and the third share, whose order is given; the paths are 0 1 4 5 and 2 3
        for capacity, waits, time_, list_ in ((2, 2, 18, [(1, 2), (3, 4)]), (4, 0, 12, [])):
            layout = problem.plan(capacity=capacity, objective="waits")
            self.assertEqual((layout.waits, layout.bound, layout.wait_list()), (waits, waits, list_))
            self.assertTrue(layout.optimal)
            tenure.verify(problem, layout)
            layout = problem.plan(capacity=capacity, objective="time")
            self.assertEqual((layout.time, layout.bound, layout.optimal), (time_, time_, True))
            self.assertEqual(layout.waits, len(layout.wait_list()))
        layout = problem.plan(capacity=4, objective="time", workers=1)
        self.assertEqual((layout.time, layout.bound), (18, 18))
        for wrong in (dict(objective="fast"), dict(objective="waits", capacity=4, workers=-1),
                      dict(objective="waits", capacity=4, workers=2**32)):
            with self.assertRaises((ValueError, OverflowError)):
                problem.plan(**wrong)
        with self.assertRaises(tenure.Error) as caught:
            problem.plan(objective="waits")  # without a capacity
        self.assertEqual(caught.exception.status, "E_INVALID")
        for call, arguments in ((problem.add_order, (1, 1)), (problem.add_order, (5, 6)), (problem.add_wait, (2, 1)),
                                (problem.add_span, (3, 0, [])), (problem.add_span, (0, 4, [1])),
                                (problem.add_event, (2**63 - 1,))):
            with self.assertRaises(tenure.Error) as caught:
                call(*arguments)
            self.assertEqual(caught.exception.status, "E_INVALID", arguments)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "p.csv")
            layout = tenure.plan([600, 500, 700], [0, 1, 3], [3, 4, 6], names=["x", "y", "z"])
            layout.problem.save_csv(file, layout)
            again = tenure.Problem.load(file)
            self.assertEqual([body.pinned for body in again], list(layout.offsets))
            self.assertEqual([body.name for body in again], ["x", "y", "z"])
            page = os.path.join(folder, "plan.html")
            tenure.report(layout, page)
            self.assertIn("<html", pathlib.Path(page).read_text())
        self.assertEqual(len(tenure.Problem.parse("id,lower,upper,size\na,0,3,600\n")), 1)
        self.assertIn(1200, json.loads(tenure.report(layout, format="summary")).values())
        self.assertIn("1,200", tenure.report(layout))

    def test_progress_stops_and_raises(self):
        problem = tenure.Problem()
        random.seed(SEED)
        for _ in range(300):
            first = random.randrange(300)
            problem.add(random.randrange(1, 99999), first, first + random.randrange(1, 60))

        def fail(*_):
            raise KeyError("mine")
        with self.assertRaises(KeyError):
            problem.plan(planner="exact", timeout=20, progress=fail)
        told = []
        try:
            problem.plan(planner="exact", progress=lambda *row: told.append(row) or len(told) < 3)
        except tenure.Error as error:
            self.assertEqual(error.status, "E_STOPPED")
        self.assertTrue(told and isinstance(told[0][0], str))

    def test_threads(self):
        problem = tenure.Problem()
        for k in range(200):
            problem.add(k + 1, k, k + 7)
        found = []
        workers = [threading.Thread(target=lambda: found.append(problem.plan().peak)) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(len(found), 8)
        self.assertEqual(len(set(found)), 1)


class Refusals(unittest.TestCase):
    def refuse(self, kind, *arguments, **named):
        with self.assertRaises(kind, msg=repr((arguments, named))):
            tenure.plan(*arguments, **named)

    def test_types(self):
        for wrong in ([1.5], ["1"], 3, "abc", None, [None], [[1]], object()):
            self.refuse(TypeError, wrong, [0], [1])
            self.refuse(TypeError, [1], wrong, [1])
        self.refuse(TypeError, [1])
        self.refuse(TypeError, [1], [0], [1], planner=7)
        self.refuse(TypeError, [1], [0], [1], progress=7)
        self.refuse(TypeError, [1], [0], [1], timeout="1")

    @unittest.skipIf(lists, "arrays of numpy")
    def test_arrays(self):
        self.refuse(TypeError, numpy.array([1.0]), [0], [1])
        self.refuse(TypeError, numpy.array([True]), [0], [1])
        self.refuse(TypeError, numpy.array(["a"]), [0], [1])
        self.refuse(TypeError, numpy.array([1 + 2j]), [0], [1])
        self.refuse(ValueError, numpy.array([[1]]), [0], [1])
        self.refuse(ValueError, numpy.array(1), [0], [1])
        self.refuse(ValueError, numpy.array([-1], dtype=numpy.int8), [0], [1])
        self.refuse(ValueError, [1], numpy.array([1 << 63], dtype=numpy.uint64), [1])
        strided = numpy.arange(20, dtype=numpy.int32)[1::3]
        self.assertEqual(tenure.plan(strided, [0] * 7, [1] * 7).peak, int(strided.sum()))
        self.assertIsInstance(tenure.plan(strided, [0] * 7, [1] * 7).offsets, numpy.ndarray)

    def test_numbers(self):
        for wrong in (-1, 1 << 64, -(1 << 70)):
            self.refuse(ValueError, [wrong], [0], [1])
        self.refuse(ValueError, [1], [1 << 63], [1])
        self.refuse(ValueError, [1, 2], [0], [1])
        self.refuse(ValueError, [1], [0], [1], names=["a", "b"])
        self.refuse(ValueError, [1], [0], [1], names=["a\0b"])
        self.refuse(ValueError, [1], [0], [1], timeout=-1)
        self.refuse(ValueError, [1], [0], [1], timeout=float("nan"))
        self.refuse(ValueError, [1], [0], [1], threads=0)
        for arguments, named in ((([1], [1], [1]), {}), (([1], [0], [1]), {"alignment": 3}),
                                 (([1], [0], [1]), {"planner": "no such"}), (([1 << 63] * 4, [0] * 4, [1] * 4), {}),
                                 (([1], [0], [1]), {"capacity": "3 apples"})):
            self.refuse(tenure.Error, *arguments, **named)

    def test_handles(self):
        problem = tenure.Problem()
        for wrong in (7, "a", None, []):
            self.assertRaises((TypeError, AttributeError, ValueError), tenure.verify, wrong, [1])
            self.assertRaises(TypeError, tenure.report, wrong)
        self.assertRaises(IndexError, lambda: problem[0])
        problem.add(1, 0, 1)
        self.assertRaises(ValueError, lambda: problem[1])
        self.assertRaises(ValueError, tenure.verify, problem, [1, 2])
        self.assertRaisesRegex(tenure.Error, r"more than 2\^63 - 1$", problem.add, 2**63, 0, 1)
        self.assertRaises(tenure.Error, problem.add, 1, 0, 1, tied_to=9)
        self.assertRaises(tenure.Error, tenure.Problem.load, "/nowhere/x.csv")
        self.assertRaises(tenure.Error, tenure.Problem.parse, b"\xff\xfe", "x.json")
        self.assertRaises(TypeError, tenure.Graph)
        self.assertRaises(tenure.Error, tenure.load, "/nowhere/x.onnx")
        self.assertRaises(ValueError, tenure.load, "a\0b.onnx")

    def test_problems_of_nonsense(self):
        random.seed(SEED)
        start = b"id,lower,upper,size,alignment,offset\n"
        for _ in range(2000):
            raw = start + bytes(random.choice(b"0123456789,-\nab.{}[]\"") for _ in range(random.randrange(40)))
            try:
                tenure.plan(tenure.Problem.parse(raw, random.choice(("x.csv", "x.json"))))
            except tenure.Error as error:
                self.assertIn(error.status[:2], "E_")


class Models(unittest.TestCase):
    model = MODELS / "mobilenet_v2.onnx"

    def test_plan_as_the_command(self):
        graph = tenure.load(self.model)
        layout = tenure.plan(graph)
        self.assertEqual(layout.peak, 6021120)
        tenure.verify(layout.problem, layout)
        self.assertRaises(tenure.Error, layout.problem.add, 1, 0, 1)
        self.assertEqual(sum(tensor.kind == "input" for tensor in graph.tensors), 1)
        made = [out for operator in graph.operators for out in operator.outputs]
        self.assertEqual(len(made), len(set(made)))
        self.assertIn("saved", tenure.report(layout))
        del graph
        self.assertIn("<svg", tenure.report(layout, format="svg"))

    def test_numbers_of_the_command(self):
        """The library and the command each write the numbers of a plan."""
        command = pathlib.Path(library).parent / "tenure"
        if not command.exists():
            self.skipTest("the command is not built")
        problem = source / "examples/problems/nine_buffers.csv"
        model = ([self.model, "--order", "auto"], tenure.plan(tenure.load(self.model)))
        for asked, layout in (model, ([problem], tenure.plan(tenure.Problem.load(problem)))):
            ours = json.loads(tenure.report(layout, format="summary"))
            ran = subprocess.run([command, "plan", *asked, "--json"], capture_output=True, check=True)
            theirs = json.loads(ran.stdout)
            self.assertEqual(set(ours), set(theirs))
            for key in set(ours) - {"input", "seconds", "static", "caching_pool"}:  # the call knows no weights
                self.assertEqual(ours[key], theirs[key], key)

    def test_estimates_of_the_command(self):
        command = pathlib.Path(library).parent / "tenure"
        if not command.exists():
            self.skipTest("the command is not built")
        for words, arguments in (([], {}), (["--order", "memory"], {"order": "memory"}), (["--segments", "6"], {"segments": 6}),
                                 (["--swap", "type:Conv:prefetch=3"], {"swap": ["type:Conv:prefetch=3"]}),
                                 (["--swap", "type:Conv:prefetch=3"], {"swap": {"type:Conv": 3}}),
                                 (["--recompute", "type:Clip", "--keep", "type:Add"], {"recompute": ["type:Clip"], "keep": ["type:Add"]})):
            ran = subprocess.run([command, "estimate", self.model, "--train", "--json", *words], capture_output=True, check=True)
            self.assertEqual(tenure.estimate(self.model, train=True, **arguments).total, json.loads(ran.stdout)["total"], words)

    def test_batch(self):
        one, two = (tenure.plan(tenure.load(self.model, batch=n)).peak for n in (1, 2))
        self.assertEqual(two, 2 * one)
        self.assertRaises(TypeError, tenure.estimate, tenure.load(self.model), batch=2)

    def test_estimate(self):
        run = tenure.estimate(self.model)
        self.assertEqual(sum(run.parts.values()), run.total)
        self.assertEqual(run.total, run.fixed + run.arena)
        sgd, adam = (tenure.estimate(self.model, train=True, optimizer=name) for name in ("sgd", "adam"))
        self.assertEqual(sum(adam.parts.values()), adam.total)
        weights = sum(t.bytes for t in tenure.load(self.model).tensors if t.kind == "parameter")
        self.assertAlmostEqual((adam.total - sgd.total) / (2 * weights), 1, delta=0.05)
        # the defaults of the command line
        self.assertEqual(tenure.estimate(self.model, train=True).total, adam.total)
        step = tenure.load(self.model)
        self.assertEqual(tenure.plan(step.training_step()).peak, tenure.plan(step.training_step(optimizer="adam")).peak)
        self.assertGreater(tenure.estimate(self.model, pool="caching").total, run.total)
        self.assertRaises(ValueError, tenure.estimate, self.model, train=True, optimizer="none such")
        self.assertRaises(tenure.Error, tenure.estimate, self.model, pool="none such")

    def test_fit_of_a_model(self):
        whole = tenure.fit(self.model, "10GiB", train=True, costs="v100-16", batch=4)
        self.assertEqual((whole.bytes, whole.passed), (whole.plain_bytes, "none"))
        budget = whole.fixed_bytes + (whole.bytes - whole.fixed_bytes) * 7 // 10
        less = tenure.fit(self.model, budget, train=True, costs="model:v100-16", batch=4, work_limit=2000)
        self.assertLessEqual(less.bytes, budget)
        self.assertIn("recomputed", less.decisions)
        tiles = tenure.fit(self.model, budget, train=True, costs="v100-16", batch=4, work_limit=2000, allow=["split"])
        named = tenure.fit(self.model, budget, train=True, costs="v100-16", batch=4, work_limit=2000,
                           allow=["order", "recompute", "split"])
        self.assertEqual(tiles.bytes, named.bytes)
        self.assertEqual(len(less.decisions), len(less.tensors))
        self.assertGreaterEqual(less.time, less.time_bound)
        self.assertTrue(any(step.again for step in less.steps))
        tenure.verify(less.layout.problem, less.layout)
        self.assertIn("recomputed", tenure.report(less, format="json"))
        with self.assertRaises(tenure.Error) as caught:
            tenure.fit(self.model, 1000, train=True, costs="v100-16", batch=4, work_limit=2000)
        self.assertIn(caught.exception.status, ("E_INFEASIBLE", "E_EXHAUSTED"))
        self.assertLess(caught.exception.least.bytes, whole.bytes)

    def test_fit_of_a_problem(self):
        chain = {"cpu": [1] * 7, "ram": [1] * 7,
                 "edges": [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [2, 4], [1, 5], [0, 6]]}
        found = tenure.fit(chain, 3, by="exact")
        self.assertEqual((found.time, found.time_bound, found.plain_time), (10, 10, 7))
        runs = [step.operator for step in found.steps if step.opcode == "apply"]
        self.assertEqual(len(runs), 10)
        self.assertRaises(tenure.Error, tenure.fit, chain, 1, by="exact")
        self.assertRaises(TypeError, tenure.fit, chain, 3, train=True)
        self.assertRaises(ValueError, tenure.fit, chain, 0)
        self.assertRaises(ValueError, tenure.fit, chain, 3, allow=["fly"])
        self.assertRaises(TypeError, tenure.fit, chain, 3, allow="order")
        self.assertRaises(ValueError, tenure.fit, chain, 3, allow=["swap"])
        self.assertRaises(tenure.Error, tenure.fit, {"cpu": "x"}, 3)
        self.assertRaises(tenure.Error, tenure.fit, chain, 3, by="none such")

    def test_rules(self):
        names = "abcde"  # e reads a and d; c makes the peak, with a and b
        chain = {"values": [{"bytes": size} for size in (10, 1, 20, 1)] + [{"bytes": 1, "kept": True}],
                 "operators": [{"cost": 1, "inputs": reads, "outputs": [i], "name": names[i]}
                               for i, reads in enumerate(([], [0], [1], [2], [0, 3]))]}
        self.assertEqual(tenure.fit(chain, 1000).bytes, 31)
        again = tenure.fit(chain, 1000, recompute=["a"])
        self.assertEqual((again.bytes, again.time), (21, 6))
        away = tenure.fit(chain, 1000, swap={"a": 1}, link=1e12)
        self.assertIn("swap_in", [step.opcode for step in away.steps])
        with self.assertRaises(tenure.Error) as caught:
            tenure.fit(chain, 21, keep=["a"])
        self.assertIn("the rule keep 'a' prevents it", str(caught.exception))
        self.assertRaises(TypeError, tenure.fit, chain, 100, keep="a")
        for wrong in (["a:prefetch=0"], ["a:prefetch=4097"], ["a:prefetch="], ["a:prefetch=1e3"], ["a:prefetch=\u0663"],
                      ["a:prefetch=\u00b2"], {"a": 4097}, {"a": -1}, {"a:prefetch=2": 2}, {"a:prefetch=2": 0}):
            self.assertRaises(ValueError, tenure.fit, chain, 100, swap=wrong, link=1e12)
        for wrong in ({"a": True}, {"a": False}, {"a": 1.0}, {"a": "1"}):
            self.assertRaises(TypeError, tenure.fit, chain, 100, swap=wrong, link=1e12)
        self.assertRaisesRegex(ValueError, "in a mapping, the distance is the value", tenure.fit, chain, 100,
                               swap={"a:prefetch=2": 2}, link=1e12)
        for call, budget in ((tenure.fit, ["1GiB"]), (tenure.estimate, [])):
            self.assertRaises(TypeError, call, self.model, *budget, kernels="plain")
        with self.assertRaises(tenure.Error) as caught:
            tenure.fit(chain, 100, keep=["z"])
        self.assertEqual(caught.exception.status, "E_INVALID")
        whole = tenure.estimate(self.model, train=True)
        self.assertLess(tenure.estimate(self.model, train=True, segments=6).total, whole.total)

    def test_nothing_grows(self):
        def once():
            layout = tenure.plan(tenure.load(self.model))
            tenure.report(layout)
            tenure.fit({"cpu": [1, 1], "ram": [1, 1], "edges": [[0, 1]]}, 2)
        for _ in range(5):
            once()
        held = resident()
        for _ in range(40):
            once()
        self.assertLess(resident() - held, 8 << 20)


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import tenure
try:
    print(tenure.version())
except tenure.Error as error:
    print("refused", error.status, error.message)
"""


class Notebooks(unittest.TestCase):
    """What a notebook shows is well formed, and has the numbers of the attributes."""

    def shown(self, result):
        page = result._repr_html_()
        for _, element in ElementTree.iterparse(io.StringIO("<page>%s</page>" % page)):
            self.assertNotIn(element.tag.rpartition("}")[2], ("script", "iframe", "link"))
        return page

    def test_results_are_shown(self):
        layout = tenure.plan([600, 500, 700], first=[0, 1, 3], last=[3, 4, 6], names=["<b>", "&", "'"])
        page = self.shown(layout)
        for word in ("1,200 bytes", "1,800 bytes", "auto, optimal", "<svg"):
            self.assertIn(word, page)
        model = tenure.load(str(MODELS / "mobilenet_v2.onnx"))
        self.assertIn(format(tenure.plan(model).peak, ","), self.shown(tenure.plan(model)))
        estimate = tenure.estimate(model, train=True)
        page = self.shown(estimate)
        for count in (estimate.total, *filter(None, estimate.parts.values())):
            self.assertIn("%s bytes" % format(count, ","), page)
        found = tenure.fit(model, "60MiB", train=True, costs="v100-16")
        self.assertIn("%s bytes" % format(found.bytes, ","), self.shown(found))

    def test_many_buffers_have_no_picture(self):
        count = 3001
        self.assertNotIn("<svg", self.shown(tenure.plan([8] * count, first=range(count), last=range(1, count + 1))))


class Libraries(unittest.TestCase):
    """What is found in the place of libtenure."""

    def told(self, file):
        ran = subprocess.run([sys.executable, "-c", ALONE, str(source / "bindings/python")], text=True,
                             env=dict(os.environ, TENURE_LIBRARY=file), capture_output=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def test_absent_and_others(self):
        self.assertEqual(self.told(library).strip(), tenure.__version__)
        self.assertIn("refused E_UNSUPPORTED", self.told("/nowhere/libtenure.so"))
        self.assertIn("is no libtenure", self.told("libc.so.6"))
        self.assertIn("refused", self.told(__file__))

    def test_another_version(self):
        with tempfile.TemporaryDirectory() as folder:
            for version, word in (("0.2.0", "version 0.2.0"), ("0.1.9", "has no tn_")):
                code, made = os.path.join(folder, "l.c"), os.path.join(folder, "l%s.so" % version)
                with open(code, "w") as file:
                    file.write('const char *tn_version(void) { return "%s"; }\n' % version)
                subprocess.run(["cc", "-shared", "-fPIC", code, "-o", made], check=True)
                self.assertIn(word, self.told(made))

    def test_interrupt(self):
        code = """
import sys, random
sys.path.insert(0, sys.argv[1])
import tenure
problem = tenure.Problem()
random.seed(1)
for _ in range(2000):
    first = random.randrange(2000)
    problem.add(random.randrange(1, 99999), first, first + random.randrange(1, 200))
print("go", flush=True)
try:
    while True:
        problem.plan(planner="exact")
except KeyboardInterrupt:
    print("stopped")
"""
        ran = subprocess.Popen([sys.executable, "-c", code, str(source / "bindings/python")], text=True,
                               stdout=subprocess.PIPE)
        self.assertEqual(ran.stdout.readline(), "go\n")
        time.sleep(0.5)
        ran.send_signal(signal.SIGINT)
        try:
            self.assertEqual(ran.communicate(timeout=1200)[0], "stopped\n")
        finally:
            ran.kill()


print("seed %d" % SEED)
unittest.main(argv=[sys.argv[0]])
