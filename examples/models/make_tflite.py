"""Writes the two small networks for microcontrollers of this folder: keywords.tflite, wake_words.tflite.

    make_tflite.py [FOLDER]

Both are int8 with a scale for each channel. Their weights are random numbers of a fixed seed: they show
memory, and compute something, but recognise nothing. The same bytes each time; a FlatBuffers writer
of a page is all it takes. keywords.tflite has the layers of a network whose arena somebody measured
(docs/microcontrollers.md).
"""
import os
import random
import struct
import sys

INT8, INT32 = 9, 2
AVERAGE_POOL_2D, CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, RESHAPE, SOFTMAX = 1, 3, 4, 9, 22, 25
OPTIONS = {CONV_2D: 1, DEPTHWISE_CONV_2D: 2, AVERAGE_POOL_2D: 5, FULLY_CONNECTED: 8, SOFTMAX: 9, RESHAPE: 17}
VERSIONS = {CONV_2D: 3, DEPTHWISE_CONV_2D: 3, AVERAGE_POOL_2D: 2, FULLY_CONNECTED: 4, SOFTMAX: 2, RESHAPE: 1}  # int8
SAME, VALID, RELU = 0, 1, 1


class Writer:
    """A FlatBuffer grows from its end; an object is known by its distance from there."""

    def __init__(self):
        self.data = b""

    def pad(self, size, alignment):
        self.data = b"\0" * (-(len(self.data) + size) % alignment) + self.data

    def vector(self, form, values, alignment=4):
        body = struct.pack(f"<{len(values)}{form}", *values)
        self.pad(len(body), alignment)
        self.data = struct.pack("<I", len(values)) + body + self.data
        return len(self.data)

    def text(self, string):
        body = string.encode() + b"\0"
        self.pad(len(body), 4)
        self.data = struct.pack("<I", len(body) - 1) + body + self.data
        return len(self.data)

    def references(self, targets):
        self.pad(4 * len(targets), 4)
        for target in reversed(targets):
            self.data = struct.pack("<I", len(self.data) + 4 - target) + self.data
        self.data = struct.pack("<I", len(targets)) + self.data
        return len(self.data)

    def table(self, fields):
        """fields: {number: (form, value)}; form "ref" for objects."""
        self.pad(0, 8)
        end = len(self.data)
        places = {}
        for number in sorted(fields, key=lambda n: (struct.calcsize(forms(fields[n])), n)):
            form, value = fields[number]
            size = struct.calcsize(forms(fields[number]))
            self.pad(size, size)
            if form == "ref":
                value = len(self.data) + 4 - value
            self.data = struct.pack("<" + forms(fields[number]), value) + self.data
            places[number] = len(self.data)
        self.pad(4, 4)
        count = max(fields) + 1 if fields else 0
        vtable_size = 4 + 2 * count
        start = len(self.data) + 4
        slots = [start - places[n] if n in places else 0 for n in range(count)]
        padding = b"\0" * (-vtable_size % 4)
        vtable = struct.pack(f"<HH{count}H", vtable_size, start - end, *slots) + padding
        self.data = vtable + struct.pack("<i", len(vtable)) + self.data
        return start


def forms(field):
    return "I" if field[0] == "ref" else field[0]


class Model:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.writer = Writer()
        self.tensors, self.ops, self.codes, self.kinds = [], [], [], []
        self.buffers = [self.writer.table({})]

    def tensor(self, name, shape, kind=INT8, scales=(0.05,), axis=0, contents=None, zero=0):
        writer, buffer = self.writer, 0
        if contents is not None:
            data = writer.vector("B", contents, 16)
            self.buffers.append(writer.table({0: ("ref", data)}))
            buffer = len(self.buffers) - 1
        fields = {0: ("ref", writer.vector("i", shape)), 1: ("b", kind), 2: ("I", buffer),
                  3: ("ref", writer.text(name))}
        if scales:
            quantization = {2: ("ref", writer.vector("f", scales)),
                            3: ("ref", writer.vector("q", [zero] * len(scales), 8))}
            if axis:
                quantization[6] = ("i", axis)
            fields[4] = ("ref", writer.table(quantization))
        self.tensors.append((writer.table(fields), shape, scales[0] if scales else 0, zero))
        return len(self.tensors) - 1

    def op(self, kind, inputs, outputs, options):
        if kind not in self.kinds:
            self.kinds.append(kind)
            self.codes.append(self.writer.table({0: ("b", kind), 2: ("i", VERSIONS[kind]), 3: ("i", kind)}))
        fields = {0: ("I", self.kinds.index(kind)), 1: ("ref", self.writer.vector("i", inputs)),
                  2: ("ref", self.writer.vector("i", outputs)), 3: ("B", OPTIONS[kind]),
                  4: ("ref", self.writer.table(options))}
        self.ops.append(self.writer.table(fields))

    def parameters(self, name, shape, channels, axis, scale_in):
        """Weights and a bias, with a scale for each channel."""
        count = 1
        for extent in shape:
            count *= extent
        scales = [0.002 + 0.00001 * self.random.randrange(200) for _ in range(channels)]
        weights = self.tensor(name + "/weights", shape, INT8, scales, axis,
                              [self.random.randrange(256) for _ in range(count)])
        values = b"".join(struct.pack("<i", self.random.randrange(-500, 500)) for _ in range(channels))
        bias = self.tensor(name + "/bias", [channels], INT32, [s * scale_in for s in scales], 0, list(values))
        return weights, bias

    def convolution(self, source, name, channels, kernel, stride=1, depthwise=False):
        _, (n, h, w, c), scale, _ = self.tensors[source]
        out = channels or c
        shape = [1, kernel[0], kernel[1], c] if depthwise else [out, kernel[0], kernel[1], c]
        weights, bias = self.parameters(name, shape, out, 3 if depthwise else 0, scale)
        made = self.tensor(name, [n, -(-h // stride), -(-w // stride), out], zero=-128)
        options = {0: ("b", SAME), 1: ("i", stride), 2: ("i", stride)}
        if depthwise:
            options.update({3: ("i", 1), 4: ("b", RELU), 5: ("i", 1), 6: ("i", 1)})
        else:
            options.update({3: ("b", RELU), 4: ("i", 1), 5: ("i", 1)})
        self.op(DEPTHWISE_CONV_2D if depthwise else CONV_2D, [source, weights, bias], [made], options)
        return made

    def classify(self, source, classes):
        """Average pooling over all, reshape, a dense layer, softmax."""
        _, (n, h, w, c), scale, zero = self.tensors[source]
        pooled = self.tensor("pool", [n, 1, 1, c], zero=zero)
        self.op(AVERAGE_POOL_2D, [source], [pooled],
                {0: ("b", VALID), 1: ("i", w), 2: ("i", h), 3: ("i", w), 4: ("i", h), 5: ("b", 0)})
        shape = self.tensor("shape", [2], INT32, (), contents=list(struct.pack("<2i", -1, c)))
        flat = self.tensor("flat", [n, c], zero=zero)
        self.op(RESHAPE, [pooled, shape], [flat], {0: ("ref", self.writer.vector("i", [-1, c]))})
        weights, bias = self.parameters("dense", [classes, c], classes, 0, scale)
        dense = self.tensor("dense", [n, classes])
        self.op(FULLY_CONNECTED, [flat, weights, bias], [dense], {0: ("b", 0), 1: ("b", 0), 2: ("B", 0)})
        answer = self.tensor("probabilities", [n, classes], scales=(1 / 256,), zero=-128)
        self.op(SOFTMAX, [dense], [answer], {0: ("f", 1.0)})
        return answer

    def save(self, path, source, answer):
        writer = self.writer
        graph = writer.table({0: ("ref", writer.references([t[0] for t in self.tensors])),
                              1: ("ref", writer.vector("i", [source])),
                              2: ("ref", writer.vector("i", [answer])),
                              3: ("ref", writer.references(self.ops)), 4: ("ref", writer.text("main"))})
        root = writer.table({0: ("I", 3), 1: ("ref", writer.references(self.codes)),
                             2: ("ref", writer.references([graph])),
                             3: ("ref", writer.text("made by make_tflite.py of Tenure")),
                             4: ("ref", writer.references(self.buffers))})
        writer.pad(8, 16)
        data = struct.pack("<I4s", len(writer.data) + 8 - root, b"TFL3") + writer.data
        with open(path, "wb") as file:
            file.write(data)
        print(f"{path}: {len(data)} bytes")


def keywords(path):
    """49 frames of 10 coefficients, four words: a depthwise-separable network."""
    model = Model(1)
    source = model.tensor("frames", [1, 49, 10, 1])
    at = model.convolution(source, "conv1", 16, (5, 3), 2)
    at = model.convolution(at, "depthwise", 0, (3, 3), depthwise=True)
    at = model.convolution(at, "pointwise", 32, (1, 1))
    model.save(path, source, model.classify(at, 4))


def wake_words(path):
    """96 x 96 pixels in three colours, two classes: the first blocks of a MobileNet of width 1/4."""
    model = Model(2)
    source = model.tensor("image", [1, 96, 96, 3])
    at = model.convolution(source, "conv1", 8, (3, 3), 2)
    at = model.convolution(at, "depthwise1", 0, (3, 3), depthwise=True)
    at = model.convolution(at, "pointwise1", 16, (1, 1))
    at = model.convolution(at, "depthwise2", 0, (3, 3), 2, depthwise=True)
    at = model.convolution(at, "pointwise2", 32, (1, 1))
    model.save(path, source, model.classify(at, 2))


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    keywords(os.path.join(folder, "keywords.tflite"))
    wake_words(os.path.join(folder, "wake_words.tflite"))
