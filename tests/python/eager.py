#!/usr/bin/python3
"""tenure.eager: results judged by numpy, and by runs with all memory; budgets that are never exceeded; bad input.

    eager.py SOURCE LIBRARY

Exit status: 0 all of it holds, 1 not, 77 numpy is not installed.
"""
import doctest
import gc
import json
import os
import pathlib
import random
import sys
import tempfile
import threading
import unittest
import weakref

try:
    import numpy
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(77)
source, library = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
os.environ["TENURE_LIBRARY"] = library
sys.dont_write_bytecode = True
sys.path.insert(0, str(source / "bindings/python"))
import tenure  # noqa: E402
from tenure.eager import Interpreter, Optimizer, Tensor, policies  # noqa: E402

MB = 1 << 20
LINK = 1e11


def floats(seed, *shape):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32")


class Checks(unittest.TestCase):
    def refused(self, status, word, call, *arguments, **named):
        with self.assertRaises(tenure.Error, msg=word) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.status, status, caught.exception)
        self.assertIn(word, str(caught.exception))

    def same(self, tensor, array):
        found = tensor.numpy()
        self.assertEqual((found.dtype, found.shape), (array.dtype, array.shape))
        self.assertEqual(found.tobytes(), array.tobytes())

    def near(self, tensor, array):
        numpy.testing.assert_allclose(tensor.numpy(), array, rtol=1e-4, atol=1e-5)


class Operators(Checks):
    def test_arrays_of_all_types_go_in_and_out(self):
        with Interpreter("1MiB") as run:
            for name in ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                         "uint64", "bool", "complex64", "complex128"):
                for shape in ((), (1,), (3, 4), (0, 2)):
                    array = (floats(1, *shape) * 9).astype(name)
                    tensor = run.put(array, name="x")
                    self.same(tensor, array)
                    self.assertEqual((tensor.shape, tensor.dtype, tensor.bytes, tensor.kind, tensor.name),
                                     (shape, name, array.nbytes, "input", "x"))
            array = floats(2, 6, 8)
            for each in (array.T, array[::2, 1::3], array.astype(">f4"), numpy.asfortranarray(array)):
                self.same(run.put(each), numpy.ascontiguousarray(each.astype("<f4")))
            self.assertEqual([run.put(value).dtype for value in (1, 1.5, True, [1, 2], [[1.0], [2.0]])],
                             ["int64", "float32", "bool", "int64", "float32"])
            self.same(run.put([1, 2], dtype="int8"), numpy.array([1, 2], "int8"))
            for wrong in ("text", object(), numpy.array(["a"]), numpy.array([None]), numpy.zeros(2, "M8[s]")):
                self.assertRaises((TypeError, ValueError), run.put, wrong)
            half = run.Cast(run.put(array), to=16)  # bfloat16
            self.assertEqual(half.dtype, "bfloat16")
            self.assertRaisesRegex(TypeError, "bfloat16", half.numpy)
            self.same(run.Cast(run.put(array), to=numpy.float16), array.astype("float16"))

    def test_operators_agree_with_numpy(self):
        a, b = floats(3, 4, 5), floats(4, 5, 6)
        with Interpreter("1MiB") as run:
            x, y, one = run.put(a), run.put(b), numpy.float32(1)
            self.near(x @ y, a @ b)
            self.near(x @ b, a @ b)
            self.near(a @ y, a @ b)
            for found, wanted in ((x + x, a + a), (x - 1, a - one), (2 - x, 2 * one - a), (1 * x, a), (x / 3, a / numpy.float32(3)),
                                  (-x, -a), (a + x, a + a), (x * numpy.float32(2), a + a), (run.Abs(x), abs(a)), (a - x, a - a)):
                self.same(found, wanted.astype("float32"))
            self.near(abs(a) ** x, abs(a) ** a)
            self.near(run.Abs(x) ** 2, a * a)
            self.near(2 ** x, 2 ** a)
            self.near(1 / x, 1 / a)
            self.same(run.Concat(x, x, axis=1), numpy.concatenate([a, a], axis=1))
            self.same(run.Transpose(x, perm=[1, 0]), numpy.ascontiguousarray(a.T))
            self.same(run.Reshape(x, [2, -1]), a.reshape(2, -1))
            left, right = run.Split(x, [2, 2], outputs=2)
            self.same(left, a[:2])
            self.same(right, a[2:])
            self.same(run.Gather(x, numpy.array([3, 0])), a[[3, 0]])
            self.same(run.Clip(x, None, 0.5), numpy.minimum(a, numpy.float32(0.5)))
            self.near(run.apply("com.microsoft.FusedMatMul", x, x, transB=1), a @ a.T)
            self.near(run.LeakyRelu(x, alpha=1), a)  # an integer in the place of a float
            self.near(run.LeakyRelu(x, alpha=0.5), numpy.where(a < 0, a / 2, a))
            self.assertEqual((float(run.ReduceMax(x, keepdims=0)), int(run.Size(x)), bool(run.put(True))),
                             (float(a.max()), 20, True))
            self.assertEqual(numpy.asarray(x).tobytes(), a.tobytes())
            self.assertEqual(numpy.asarray(x, "float64").dtype, numpy.float64)
            self.assertIn("float32 (4, 5)", repr(x))

    def test_a_program_within_a_budget_has_the_same_bits(self):
        """Random programs with deletions, drops, offloads and names, beside one with all memory."""
        released = 0
        for seed in range(40):
            draw = random.Random(seed)
            named = dict(plain=True, model_costs=True, poison=True, seed=seed, policy=draw.choice(list(policies())))
            with Interpreter("8MiB", plain=True) as wide, Interpreter(draw.choice((12, 16, 24)) << 10, link=LINK, **named) as run:
                pairs = []
                for step in range(80):
                    way = draw.random()
                    if len(pairs) < 3 or way < 0.15:
                        array = floats(draw.randrange(1 << 30), 16, 16)
                        pairs.append([each.put(array, name="p%d" % step) for each in (wide, run)])
                    elif way < 0.65:
                        type, count = draw.choice((("Add", 2), ("MatMul", 2), ("Tanh", 1), ("Neg", 1), ("Transpose", 1)))
                        of = [draw.choice(pairs) for _ in range(count)]
                        pairs.append([each.apply(type, *(pair[k] for pair in of), name="t%d" % step)
                                      for k, each in enumerate((wide, run))])
                        del of
                    elif way < 0.8:
                        tensor = draw.choice(pairs)[1]
                        try:
                            (run.offload if draw.random() < 0.5 else run.drop)(draw.choice((tensor, tensor.name)))
                            self.assertFalse(tensor.resident)
                            released += 1
                        except tenure.Error as error:  # it was put, or the interpreter has released its operands
                            self.assertIn("cannot be recomputed", str(error))
                            self.assertTrue(tensor.resident)
                        del tensor
                    else:
                        pair = draw.choice(pairs)
                        self.same(pair[1], pair[0].numpy())
                        self.assertTrue(pair[1].resident)
                        del pair
                    if len(pairs) > 8:
                        del pairs[draw.randrange(len(pairs))]
                    self.assertEqual(run.counts.handles, len(pairs))
                    run.check()
                for plain, less in pairs:
                    self.same(less, plain.numpy())
                counts = run.counts
                self.assertLessEqual(max(counts.peak_bytes, counts.reach_bytes), counts.budget)
        self.assertGreater(released, 100)

    def test_recorded_runs(self):
        with Interpreter("1MiB", record=True) as run, tempfile.TemporaryDirectory() as folder:
            x = run.put(floats(1, 64, 64), name="x")
            y = run.Tanh(x, name="inside")
            (y @ x).numpy()
            graph, file = run.recorded(), pathlib.Path(folder, "run.log")
            self.assertEqual([op.type for op in graph.operators], ["Tanh", "MatMul"])
            self.assertEqual({t.name for t in graph.tensors} & {"x", "inside"}, {"x", "inside"})
            self.assertEqual(tenure.plan(graph).peak, 3 * 64 * 64 * 4)
            run.log(file)
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            self.assertEqual([line["NAME"] for line in lines if line["INSTRUCTION"] == "CALL"], ["put", "Tanh", "MatMul"])
            run.restart()
            self.assertEqual(run.recorded().operators, [])
        with Interpreter("1MiB") as run:
            self.refused("E_INVALID", "nothing was recorded", run.recorded)


class ByHand(Checks):
    def test_a_named_tensor_is_released_and_comes_back(self):
        x = floats(1, 512)
        with Interpreter("64KiB", link=LINK, model_costs=True) as run:
            data = run.put(x, name="data")
            features = run.Neg(data, name="features")
            view = run.Reshape(features, [2, -1])
            held = run.counts.bytes
            run.drop("features")
            self.assertEqual((features.resident, view.resident, run.counts.bytes), (False, False, held - 2048))
            run.drop("features")  # nothing happens
            self.assertEqual(run.counts.drop_count, 1)
            self.same(view, -x.reshape(2, -1))
            self.assertEqual((features.resident, run.counts.bytes), (True, held))
            again = run.counts.remade_ops
            self.assertGreater(again, 0)
            for what in ("data", data, features):
                run.offload(what)
            self.assertEqual((data.resident, features.resident, run.counts.bytes, run.counts.host_bytes),
                             (False, False, held - 4096, 4096))
            self.same(features + data, x - x)
            counts = run.counts
            self.assertEqual((counts.swap_count, counts.fetch_count, counts.fetched_bytes, counts.host_bytes), (2, 2, 4096, 0))
            features.drop()
            features.offload()  # it is not there
            self.same(features, -x)
            self.assertGreater(run.counts.remade_ops, again)
            self.assertEqual(run.counts.swap_count, 2)
            # a name means the newest tensor that has it
            features = run.Abs(data, name="features")
            run.drop("features")
            self.assertEqual((features.resident, run.counts.bytes), (False, held))

    def test_what_cannot_be_released_says_why(self):
        with Interpreter("64KiB") as run:
            x, w = run.put(floats(1, 8), name="x"), run.put(floats(2, 8), "parameter", name="w")
            self.refused("E_UNSUPPORTED", "cannot be recomputed", run.drop, "x")
            self.refused("E_UNSUPPORTED", "no link", x.offload)
            self.refused("E_UNSUPPORTED", "must stay at its address", run.drop, w)
            self.refused("E_UNSUPPORTED", "takes no memory", run.put([1, 2], "constant").drop)
            self.refused("E_UNKNOWN", "'y'", run.drop, "y")
            run.Neg(x, name="y")  # forgotten at once
            self.refused("E_UNKNOWN", "'y'", run.offload, "y")
            for wrong in (None, 3, x.numpy()):
                self.assertRaises(TypeError, run.drop, wrong)
            x.delete()
            self.refused("E_UNKNOWN", "'x'", run.drop, "x")
            self.assertRaisesRegex(ValueError, "'x' was deleted", run.drop, x)

    def test_deleted_data_stay_while_more_depends_on_them(self):
        """Four tensors of 25 MB are computed from one of 9 MB, which the program deletes. To keep the four would be dear:
        the 9 MB stay, and the four are evicted and recomputed one by one."""
        data = floats(9, 9, MB // 4)
        for budget in (40, 64, 90, 110, 124, 134, 140):
            with Interpreter(budget * MB, tape=False, model_costs=True) as run:
                small = run.put(data, name="small")
                rows = [[(k + i) % 9 for i in range(25)] for k in range(4)]
                large = [run.Gather(small, list_) for list_ in rows]
                self.assertEqual((small.bytes, large[0].bytes), (9 * MB, 25 * MB))
                del small
                fifth = run.put(numpy.zeros(25 * MB // 4, "float32"))
                self.assertEqual(run.counts.spent_count, 0)
                del fifth
                for tensor, list_ in zip(large, rows):
                    self.assertTrue(numpy.array_equal(tensor.numpy()[:, :9], data[list_][:, :9]))
                counts = run.counts
                self.assertLessEqual(counts.peak_bytes, budget * MB)
                self.assertEqual(counts.remade_ops > 0, budget < 134)
                # nothing depends on the 9 MB any more
                del tensor
                large.clear()
                self.assertEqual((run.counts.bytes, run.counts.history), (0, 0))


class Draws(Checks):
    def test_a_dropout_that_is_dropped_comes_back_with_its_numbers(self):
        with Interpreter("1MiB") as run:
            d, mask = run.Dropout(run.put(numpy.ones((4, 8), numpy.float32)), numpy.float32(.5), numpy.array(True), outputs=2)
            first, kept = d.numpy().copy(), mask.numpy().copy()
            other = run.Dropout(run.put(numpy.ones((4, 8), numpy.float32)), numpy.float32(.5), numpy.array(True)).numpy()
            run.drop(d)
            run.drop(mask)
            self.assertTrue((d.numpy() == first).all() and (mask.numpy() == kept).all())
            self.assertTrue(((first != 0) == kept).all() and (first != other).any())


class Gradients(Checks):
    def test_gradients_are_the_slopes(self):
        a, b, target = floats(1, 6, 5), floats(2, 5, 3), floats(3, 6, 3)

        def loss_of(run, w, v):
            return run.tenure.MeanSquared(run.Tanh(run.put(a) @ w) * v, run.put(target))
        with Interpreter("1MiB") as run:
            w, v = run.put(b, "parameter"), run.put(numpy.ones(3, "float32"), "parameter")
            other = run.put(b, "parameter")
            found = run.backward(loss_of(run, w, v), [w, v, other])
            self.assertIsNone(found[2])
            with run.no_tape():
                for k in range(2):
                    slope = numpy.zeros_like((b, numpy.ones(3))[k])
                    for at in numpy.ndindex(slope.shape):
                        ends = []
                        for step in (1e-2, -1e-2):
                            moved = (w, v)[k].numpy()
                            before = moved.copy()
                            moved[at] += step
                            (w, v)[k].set(moved)
                            ends.append(float(loss_of(run, w, v)))
                            (w, v)[k].set(before)
                        slope[at] = (ends[0] - ends[1]) / 2e-2
                    numpy.testing.assert_allclose(found[k].numpy(), slope, rtol=2e-2, atol=2e-3)
                self.refused("E_INVALID", "", run.backward, loss_of(run, w, v), [w])
            run.backward(loss_of(run, w, v), [w])  # the tape is on again
            loss = loss_of(run, w, v)
            run.forget()
            self.refused("E_INVALID", "", run.backward, loss, [w])
        with Interpreter("1MiB", tape=False) as run:
            w, v = run.put(b, "parameter"), run.put(numpy.ones(3, "float32"), "parameter")
            with run.no_tape():
                pass
            self.refused("E_INVALID", "", run.backward, loss_of(run, w, v), [w])

    def test_optimizers_follow_their_formulas(self):
        start, steps = floats(1, 7), [floats(k, 7) for k in range(2, 6)]
        for name, options in (("sgd", {}), ("sgd", {"weight_decay": 0.1}), ("momentum", {"momentum": 0.5}), ("adam", {}),
                              ("momentum", {"nesterov": True}), ("adamw", {"weight_decay": 0.1, "beta1": 0.8, "beta2": 0.9})):
            with self.subTest(name=name, **options):
                self.follow(name, options, start, steps)

    def follow(self, name, options, start, steps):
            p, m, s = start.astype("float64"), numpy.zeros(7), numpy.zeros(7)
            with Interpreter("64KiB") as run:
                w = run.put(start, "parameter")
                optimizer = run.optimizer(name, [w], **options)
                decay, b1, b2 = options.get("weight_decay", 0), options.get("beta1", 0.9), options.get("beta2", 0.999)
                for t, g in enumerate(steps, 1):
                    gradient = run.put(g)
                    optimizer.step([gradient], 0.1)
                    self.assertRaisesRegex(ValueError, "deleted", optimizer.step, [gradient], 0.1)
                    optimizer.step([None], 0.1) if name != "adam" and name != "adamw" else None
                    g = g.astype("float64")
                    if name == "adamw":
                        p = p - 0.1 * decay * p
                    else:
                        g = g + decay * p
                    if name == "sgd":
                        p = p - 0.1 * g
                    elif name == "momentum":
                        mu = options.get("momentum", 0.9)
                        m = mu * m + g
                        p = p - 0.1 * (g + mu * m if options.get("nesterov") else m)
                    else:
                        m, s = b1 * m + (1 - b1) * g, b2 * s + (1 - b2) * g * g
                        p = p - 0.1 * (m / (1 - b1 ** t)) / (numpy.sqrt(s / (1 - b2 ** t)) + 1e-8)
                    self.near(w, p)

    def test_training_in_less_memory_has_the_same_bits(self):
        def train(budget, policy=None, link=0):
            with Interpreter(budget, plain=True, model_costs=True, policy=policy, link=link) as run:
                weights = [run.put(floats(k, 32, 32) / 6, "parameter", name="w%d" % k) for k in range(3)]
                optimizer = run.optimizer("adam", weights)
                losses = []
                for step in range(6):
                    x = run.put(floats(100 + step, 32, 32))
                    for layer in range(12 + step % 4):  # as deep as the data ask for
                        x = run.Tanh(x @ weights[layer % 3], name="layer")
                        if layer == 1 and budget != "8MiB":
                            run.drop("layer")
                    losses.append(optimizer.minimize(run.tenure.MeanSquared(x, numpy.zeros((32, 32), "float32")), 0.01))
                    del x
                run.check()
                return run.counts, losses, [w.numpy().tobytes() for w in weights]
        wide = train("8MiB")
        self.assertEqual(wide[0].remade_ops, 0)
        for policy in policies():
            counts, losses, weights = train(int(0.7 * wide[0].peak_bytes), policy, LINK if policy == "hybrid" else 0)
            self.assertEqual((losses, weights), wide[1:], policy)
            self.assertLessEqual(counts.peak_bytes, counts.budget)
            self.assertGreater(counts.remade_ops, 0)
        self.assertLess(losses[-1], losses[0])

    def test_a_failed_step_can_be_repeated(self):
        with Interpreter("64KiB") as run:
            w = [run.put(floats(k, 64), "parameter") for k in range(2)]
            optimizer = run.optimizer("sgd", w)
            gradients = [run.put(floats(3, 64)), run.put(floats(4, 32))]  # the second has another shape
            first, second = w[0].numpy(), w[1].numpy()
            self.refused("E_INVALID", "32 elements", optimizer.step, gradients, 0.5)
            self.near(w[0], first - 0.5 * floats(3, 64))
            self.same(w[1], second)
            gradients[1] = run.put(floats(4, 64))
            optimizer.step(gradients, 0.5)
            self.near(w[0], first - 0.5 * floats(3, 64))
            self.near(w[1], second - 0.5 * floats(4, 64))


class Lifetimes(Checks):
    def test_forgotten_tensors_take_nothing(self):
        with Interpreter("1MiB") as run:
            w = run.put(floats(1, 64), "parameter")
            before = run.counts
            for _ in range(3):
                loop = [run.Neg(w)]
                loop.append(loop)  # only the collector finds it
                optimizer = run.optimizer("adam", [w])
                self.assertGreater(run.counts.bytes, before.bytes)
                self.assertRaises(tenure.Error, run.Concat, w, numpy.ones((2, 2), "float32"), axis=0)
                del loop, optimizer
                run.forget()
                gc.collect()
                after = run.counts
                self.assertEqual((after.handles, after.bytes, after.history), (before.handles, before.bytes, 0))

    def test_closed_interpreters(self):
        run = Interpreter("64KiB")
        x = run.put(floats(1, 4), "parameter")
        optimizer = run.optimizer("momentum", [x])
        with run:
            y = run.Neg(x)
        run.close()
        for call in (y.numpy, lambda: x + y, run.check, lambda: run.counts, lambda: run.put(1), y.delete, y.drop,
                     lambda: optimizer.step([None], 1), lambda: run.optimizer("sgd", [x])):
            self.assertRaisesRegex(ValueError, "closed|deleted", call)
        self.assertIn("closed", repr(run))
        self.assertIn("deleted", repr(y))
        del x, y, optimizer, run
        gc.collect()

    def test_tensors_keep_their_interpreter(self):
        run = Interpreter("64KiB")
        x, gone = run.put(floats(1, 4)), weakref.ref(run)
        self.near(run.tenure.Swish(x), floats(1, 4) / (1 + numpy.exp(-floats(1, 4))))
        del run
        gc.collect()
        self.same(x, floats(1, 4))
        gc.disable()  # its memory is free at once, not when the collector runs
        del x
        self.assertIsNone(gone())
        gc.enable()

    def test_threads_wait_for_each_other(self):
        with Interpreter("256KiB", tape=False, poison=True) as run:
            x, failed = run.put(floats(1, 32, 32)), []

            def work(seed):
                try:
                    for k in range(60):
                        y = run.Tanh(x + seed)
                        self.near(y, numpy.tanh(floats(1, 32, 32) + seed))
                        if k % 20 == 0:
                            gc.collect()
                except BaseException as error:
                    failed.append(error)
            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            self.assertEqual(failed, [])
            self.assertEqual(run.counts.handles, 1)
            run.check()


class Documents(unittest.TestCase):
    def test_examples(self):
        """The interactive examples of the module and of the pages."""
        pages = [tenure.eager.__doc__.partition("\n    Interpreter ")[0], (source / "docs/eager.md").read_text(),
                 (source / "docs/python.md").read_text().partition("## Run operators")[2].partition("\n## ")[0]]
        for page in pages:
            test = doctest.DocTestParser().get_doctest(page, {"numpy": numpy, "tenure": tenure}, "page", None, 0)
            self.assertGreater(len(test.examples), 4)
            self.assertEqual(doctest.DocTestRunner().run(test).failed, 0)


class BadInput(Checks):
    def test_options(self):
        for wrong in (dict(budget=-1), dict(budget="lots"), dict(budget=63), dict(budget=1.5), dict(policy="best"), dict(policy=3),
                      dict(threads=-1), dict(threads=1 << 32), dict(seed=-1), dict(link=-1), dict(link=float("nan")),
                      dict(budget=1 << 63)):
            with self.assertRaises((tenure.Error, TypeError, ValueError), msg=wrong):
                Interpreter(**dict(dict(budget="64KiB"), **wrong))
        self.refused("E_UNKNOWN", "best", Interpreter, "64KiB", policy="best")
        self.assertIn("live", policies())
        for kind in (Tensor, Optimizer):
            self.assertRaises(TypeError, kind)

    def test_messages_name_inputs_by_number(self):
        with Interpreter("64KiB") as run:
            self.refused("E_INVALID", "'input 0' has 4 columns and 'input 1' 3 rows", run.MatMul, floats(1, 2, 4), floats(2, 3, 5))

    def test_calls(self):
        with Interpreter("64KiB") as run, Interpreter("64KiB") as other:
            x, w = run.put(floats(1, 2, 3)), run.put(floats(1, 2, 3), "parameter")
            held = run.counts
            for status, word, call in (
                    ("E_INVALID", "MatMull", lambda: run.MatMull(x, x)),
                    ("E_INVALID", "MatMul", lambda: x @ x),
                    ("E_INVALID", "another interpreter", lambda: run.Add(x, other.put(floats(1, 2, 3)))),
                    ("E_INVALID", "Add", lambda: run.Add(x)),
                    ("E_INVALID", "without outputs", lambda: run.Max(x, outputs=0)),
                    ("E_INVALID", "as a constant", lambda: run.Reshape(x, numpy.array([3, 2]))),
                    ("E_INVALID", "256", lambda: run.Add(x, [1.0] * 257)),
                    ("E_EXHAUSTED", "65536 bytes is full", lambda: run.put(numpy.zeros(1 << 16))),
                    ("E_EXHAUSTED", "'big'", lambda: run.Tanh(run.put(floats(1, 10000), name="big"))),
                    ("E_UNSUPPORTED", "operator set", lambda: run.Neg(x, version=99)),
                    ("E_UNSUPPORTED", "operands", lambda: run.Split(x, outputs=65)),
                    ("E_INVALID", "Softmax", lambda: run.Softmax(x, axis=7)),
                    ("E_INVALID", "parameter", lambda: run.optimizer("sgd", [x])),
                    ("E_INVALID", "loss", lambda: run.backward(x, [w]))):
                self.refused(status, word, call)
            for call in (lambda: run.Neg("x"), lambda: x + "x", lambda: x @ None, lambda: run.Neg(object()),
                         lambda: run.Neg(x, axis=object()), lambda: run.Neg(x, axis=1 << 64), lambda: run.Neg(x, name=3),
                         lambda: run.Neg(x, name=["a", "b"]), lambda: run.Neg(x, name="a\0"), lambda: run.Neg(x, outputs=-1),
                         lambda: run.apply("Neg\0", x), lambda: run.apply(None, x), lambda: run.put(1, "weights"),
                         lambda: w.set(floats(1, 3, 2)), lambda: run.optimizer("best", [w]), lambda: run.optimizer("none", [w]),
                         lambda: run.optimizer("sgd", [w], momentum=-1), lambda: run.optimizer("sgd", [None]),
                         lambda: run.backward(None, [w]), lambda: run.log(3.5), lambda: float(x), lambda: run.put([[1], [2, 3]]),
                         lambda: run.optimizer("sgd", [w]).step([], 1), lambda: run.optimizer("sgd", [w]).step([x], "fast")):
                with self.assertRaises((TypeError, ValueError, AttributeError)):
                    call()
            self.refused("E_INVALID", "fixed place", x.set, floats(1, 2, 3))
            for name in ("relu", "_x", "tenure_"):
                self.assertRaises(AttributeError, getattr, run, name)
                self.assertRaises(AttributeError, getattr, run.tenure, name)
            gc.collect()
            self.assertEqual((run.counts.handles, run.counts.bytes), (held.handles, held.bytes))
            run.check()
            self.same(x, floats(1, 2, 3))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
