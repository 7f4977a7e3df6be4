#!/usr/bin/python3
"""tenure.train against the command: the same parameters, files and errors.

    train.py SOURCE LIBRARY TENURE FOLDER

Exit status: 0 they agree, 1 not, 77 numpy is absent.
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

source, library, command, folder = map(os.path.abspath, sys.argv[1:5])
os.environ["TENURE_LIBRARY"] = library
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(source, "bindings/python"), os.path.join(source, "tests/cli")]
try:
    import numpy
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(77)
import tenure  # noqa: E402
import train_models  # noqa: E402


def commanded(*words):
    subprocess.run([command, "train", *words, "--batch", "16", "--quiet"], check=True)


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        os.chdir(folder)
        subprocess.run([sys.executable, os.path.join(source, "tests/cli/train_models.py"), folder], check=True)
        some = [0.1 * (at % 7) - 0.2 for at in range(640)]
        train_models.model("own.onnx", [train_models.node("MatMul", "x,w", "s"), train_models.node("Sub", "s,z", "d"),
                                        train_models.node("Mul", "d,d", "q"),
                                        train_models.node("ReduceMean", "q", "loss", keepdims=0)],
                           [train_models.value("x", ["n", 64]), train_models.value("z", ["n", 10])],
                           [train_models.value("loss", [])], [train_models.tensor("w", [64, 10], some)])
        numpy.save("z.npy", numpy.arange(960, dtype="f4").reshape(96, 10) / 960)

    def test_the_parameters_of_the_command(self):
        x, y = numpy.load("x.npy"), numpy.load("y.npy")
        commanded("cnn.onnx", "--data", "x.npy,y.npy", "--steps", "9", "--seed", "3", "--prune", "0.6:end=6",
                  "--prune-weights", "w", "--checkpoint", "c.ck", "--save-model", "c.onnx")
        found = tenure.train("cnn.onnx", (x, y), test=(x, y), batch=16, steps=9, seed=3,
                             prune={"share": 0.6, "end": 6, "weights": ["w"]}, checkpoint="p.ck")
        self.assertEqual((found.steps, found.prunable, found.zeros), (9, 960, 576))
        self.assertTrue(0 <= found.test_accuracy <= 1 and found.loss > 0 and found.test_loss > 0 and found.bytes > 0)
        written = found.save("p.onnx")
        self.assertEqual(written.bytes, os.path.getsize("p.onnx"))
        self.assertEqual((found.parameters["w"] == 0).sum(), 576)
        for one, other in (("c.ck", "p.ck"), ("c.onnx", "p.onnx")):
            with open(one, "rb") as a, open(other, "rb") as b:
                self.assertEqual(a.read(), b.read(), other)
        again = tenure.train("cnn.onnx", (x, y), batch=16, steps=9, seed=3, resume="p.ck",
                             prune={"share": 0.6, "end": 6, "weights": ["w"]})
        self.assertTrue(again.loss is None and (again.parameters["w"] == found.parameters["w"]).all())

    def test_named_inputs(self):
        x, z = numpy.load("reals.npy"), numpy.load("z.npy")
        commanded("own.onnx", "--data", "z=z.npy,x=reals.npy:x=reals.npy,z=z.npy", "--loss", "output", "--steps", "7",
                  "--optimizer", "sgd", "--lr", "0.01", "--checkpoint", "own.ck")
        more = dict(loss="output", batch=16, steps=7, optimizer="sgd", rate=0.01)
        arrays = tenure.train("own.onnx", {"x": x, "z": z}, test={"z": z, "x": x}, **more)
        files = tenure.train("own.onnx", "z=z.npy,x=reals.npy", output="loss", **more)
        kept = numpy.array(train_models.read_checkpoint("own.ck")["w"], "f4")
        for found in (arrays, files):
            self.assertTrue((found.parameters["w"].ravel() == kept).all())
        expected = ((x.astype("f8") @ kept.reshape(64, 10) - z) ** 2).mean()
        self.assertTrue(abs(arrays.test_loss - expected) < 1e-5 and arrays.test_accuracy is None and files.test_loss is None)

    def test_rules_of_the_command(self):
        whole = tenure.train("deep.onnx", "text:book.txt", batch=8, steps=2, weights=1)
        for words, rules in ((["--segments", "4"], {"segments": 4}), (["--swap", "type:Softmax:prefetch=2"], {"swap": {"type:Softmax": 2}}),
                             (["--swap", "type:*:prefetch=2"], {"swap": ["type:*:prefetch=2"]}), (["--keep", "*"], {"keep": ["*"]})):
            said = json.loads(subprocess.run([command, "train", "deep.onnx", "--data", "text:book.txt", "--batch", "8", "--steps", "2",
                                              "--weights", "random:1", "--json", *words], check=True, stdout=subprocess.PIPE).stdout)
            found = tenure.train("deep.onnx", "text:book.txt", batch=8, steps=2, weights=1, **rules)
            self.assertEqual(found.bytes, said["arena"] + said["weights"], words)
            self.assertEqual(found.loss, whole.loss)
            if "segments" in rules:
                self.assertLess(found.bytes, 0.9 * whole.bytes)
        self.assertEqual(found.bytes, whole.bytes)  # all is kept
        self.assertRaises(tenure.Error, tenure.train, "deep.onnx", "text:book.txt", batch=8, steps=2, weights=1, keep=["z*z"])

    def test_a_step_stops_the_run(self):
        seen = []

        def step(done, loss):
            seen.append((done, loss))
            return done < 3
        found = tenure.train("own.onnx", "x=reals.npy,z=z.npy", loss="output", batch=16, steps=9, step=step)
        self.assertEqual((found.steps, [done for done, _ in seen]), (3, [1, 2, 3]))
        with self.assertRaises(ZeroDivisionError):
            tenure.train("own.onnx", "x=reals.npy,z=z.npy", loss="output", batch=16, steps=9, step=lambda *_: 1 / 0)

    def test_nonsense(self):
        x, y = numpy.load("x.npy"), numpy.load("y.npy")
        for kind, words, more in (
                (tenure.Error, ("cnn.onnx", {"x": x}), {}), (tenure.Error, ("cnn.onnx", {"x": x, "label": y}), {}),
                (tenure.Error, ("cnn.onnx", (x, y[:3])), {}), (tenure.Error, ("cnn.onnx", (x, y)), dict(prune=1.0)),
                (tenure.Error, ("cnn.onnx", (x, y)), dict(prune={"share": 0.5, "begin": 4, "end": 2})),
                (tenure.Error, ("cnn.onnx", (x, y)), dict(freeze=["nothing"])), (tenure.Error, ("absent.onnx", (x, y)), {}),
                (ValueError, ("cnn.onnx", {}), {}), (ValueError, ("cnn.onnx", (x, y)), dict(prune={"end": 3})),
                (ValueError, ("cnn.onnx", (x, y)), dict(loss="squared")), (ValueError, ("cnn.onnx", (x, y)), dict(optimizer="none")),
                (ValueError, ("cnn.onnx", (x, y)), dict(output="z")), (TypeError, ("cnn.onnx", 3), {}),
                (TypeError, ("cnn.onnx", (x, numpy.array(["a"] * 96))), {}), (TypeError, ("cnn.onnx", (x, y)), dict(freeze="w")),
                (TypeError, ("cnn.onnx", "x.npy,y.npy"), dict(test=(x, y))), (ValueError, ("cnn.onnx", (x, y)), dict(steps=-1))):
            with self.assertRaises(kind, msg=str((words[0], more))):
                tenure.train(*words, **dict(dict(batch=16, steps=2), **more))
        found = tenure.train("cnn.onnx", (x, y), batch=16, steps=1)
        with self.assertRaises(tenure.Error):
            found.save("cnn.onnx")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
