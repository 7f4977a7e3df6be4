#!/usr/bin/python3
"""The accuracy of fashion_resnet.onnx on the 10,000 test images of Debian's dataset-fashion-mnist.

    fashion.py TENURE FOLDER [MODEL]

The images are run in batches by `tenure run`, FOLDER keeps them. The network was trained to
90.96 %: of 10,000 images 9,096, give or take one that rounding may turn. With weights of 8 bits
(--weights-dtype int8) the answer must be the same for at least 99 % of the images, and half a percent
of right answers may be lost.
Exit status: 0 as it should be, 1 not so, 77 the data set or numpy is absent.
"""
import gzip
import os
import subprocess
import sys

try:
    import numpy
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(77)

DATA = "/usr/share/datasets/fashion-mnist/t10k-"
MODEL = "../../../shared/data/onnx/fashion_resnet.onnx"
EXPECTED, BATCH, AGREE, LOST = 9096, 1000, 9900, 50


def idx(name, head):
    """An IDX file without its header of `head` bytes."""
    with gzip.open(DATA + name) as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=head)


def main():
    tenure, folder = map(os.path.abspath, sys.argv[1:3])
    model = sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(__file__), MODEL)
    for path in (DATA + "images-idx3-ubyte.gz", model):
        if not os.path.exists(path):
            print("SKIP: %s is absent (apt-get install dataset-fashion-mnist)" % path)
            sys.exit(77)
    images = idx("images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = idx("labels-idx1-ubyte.gz", 8)
    os.makedirs(folder, exist_ok=True)
    scores = {"f32": [], "int8": []}
    for first in range(0, len(images), BATCH):
        path = os.path.join(folder, "images.npy")
        numpy.save(path, images[first:first + BATCH].astype(numpy.float32) / 255)
        for dtype, all_scores in scores.items():
            subprocess.run([tenure, "run", model, "--dim", "N=%d" % BATCH, "--input",
                            "image=" + path, "--output-dir", folder, "--weights-dtype", dtype],
                           check=True, stdout=subprocess.DEVNULL)
            all_scores.append(numpy.load(os.path.join(folder, "logits.npy")))
    scores = {dtype: numpy.concatenate(parts) for dtype, parts in scores.items()}
    right = {dtype: int((s.argmax(1) == labels).sum()) for dtype, s in scores.items()}
    same = int((scores["f32"].argmax(1) == scores["int8"].argmax(1)).sum())
    for dtype in right:
        print("%s: %d of %d right: %.2f %%" % (dtype, right[dtype], len(labels),
                                              100 * right[dtype] / len(labels)))
    print("int8: the same answer for %d; scores differ by at most %.3g, the largest is %.3g" % (
        same, abs(scores["f32"] - scores["int8"]).max(), abs(scores["f32"]).max()))
    sys.exit(0 if abs(right["f32"] - EXPECTED) <= 1 and same >= AGREE and
             right["int8"] >= right["f32"] - LOST else 1)


main()
