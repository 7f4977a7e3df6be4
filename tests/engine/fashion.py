#!/usr/bin/python3
"""The accuracy of fashion_resnet.onnx on the 10,000 test images of Debian's dataset-fashion-mnist.

    fashion.py TENURE FOLDER [MODEL]

The images are run in batches by `tenure run`, FOLDER keeps them. The network was trained to
90.96 %: of 10,000 images 9,096, give or take one that rounding may turn.
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
EXPECTED, BATCH = 9096, 1000


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
    right = 0
    for first in range(0, len(images), BATCH):
        path = os.path.join(folder, "images.npy")
        numpy.save(path, images[first:first + BATCH].astype(numpy.float32) / 255)
        subprocess.run([tenure, "run", model, "--dim", "N=%d" % BATCH, "--input", "image=" + path,
                        "--output-dir", folder], check=True, stdout=subprocess.DEVNULL)
        logits = numpy.load(os.path.join(folder, "logits.npy"))
        right += int((logits.argmax(1) == labels[first:first + BATCH]).sum())
    print("%d of %d right: %.2f %%" % (right, len(labels), 100 * right / len(labels)))
    sys.exit(0 if abs(right - EXPECTED) <= 1 else 1)


main()
