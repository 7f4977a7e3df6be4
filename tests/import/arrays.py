"""Compares arrays that tn_array_load reads and tn_array_save writes with numpy, in both directions.

    arrays.py ARRAYS

ARRAYS is the program built from arrays.c. numpy writes files of every type, order, rank and version;
each is read, written again and loaded by numpy. With python3-onnx the same goes for TensorProto
files. Then files that must be refused, with the words that must be in the message.
Exit status: 0 all agree, 1 a difference, 77 numpy is absent.
"""
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(77)
try:
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    numpy_helper = None
    print("SKIP: TensorProto files, as python3-onnx is not installed")

TYPES = ["<f4", "<f8", "<f2", "|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8",
         "<c8", "<c16"]
SHAPES = [(), (0,), (1,), (7,), (2, 3), (3, 0, 2), (2, 3, 4), (2, 1, 3, 1, 2), (1,) * 30]


def content(random, kind, shape):
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if kind == "|b1":
        return random.integers(0, 2, shape).astype(bool)
    width = numpy.dtype(kind).itemsize
    return numpy.frombuffer(random.bytes(count * width), kind).reshape(shape)


def good_files(folder):
    random = numpy.random.default_rng(11)
    expected = {}
    for kind in TYPES:
        for shape in SHAPES:
            for order in "CF":
                for version in ((1, 0), (2, 0), (3, 0)) if kind in TYPES[::4] else ((1, 0),):
                    array = numpy.asarray(content(random, kind, shape), order=order)
                    name = "%d.npy" % len(expected)
                    with open(os.path.join(folder, name), "wb") as file:
                        numpy.lib.format.write_array(file, array, version=version)
                    expected[name] = array
            if numpy_helper is not None:
                array = content(random, kind, shape)
                name = "%d.pb" % len(expected)
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(numpy_helper.from_array(array, "x").SerializeToString())
                expected[name] = array
    return expected


def npy(header, data=b"", version=1, length=None):
    text = header.encode()
    size = struct.pack("<H" if version == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def bad_files():
    """name: (content, status, words of the message)"""
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
    ok = head % ("<f4", "(2,)")
    return {
        "empty": (b"", "E_INVALID", "neither"),
        "text": (b"hello, world\n", "E_INVALID", "neither"),
        "magic": (b"\x93NUMPY", "E_INVALID", "cut off"),
        "header": (npy(ok, length=200), "E_INVALID", "header"),
        "data": (npy(ok, b"\0" * 7), "E_INVALID", "7 bytes"),
        "more": (npy(ok, b"\0" * 9), "E_INVALID", "more than one"),
        "version": (npy(ok, b"\0" * 8, 4), "E_UNSUPPORTED", "version 4"),
        "big": (npy(head % (">f4", "(2,)"), b"\0" * 8), "E_UNSUPPORTED", "big endian"),
        "bfloat16": (npy(head % ("|V2", "(2,)"), b"\0" * 4), "E_UNSUPPORTED", "bfloat16"),
        "object": (npy(head % ("|O", "(2,)"), b"\0" * 16), "E_UNSUPPORTED", "pickled"),
        "unicode": (npy(head % ("<U3", "(1,)"), b"\0" * 12), "E_UNSUPPORTED", "text"),
        "struct": (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
                       b"\0" * 4), "E_UNSUPPORTED", "structs"),
        "negative": (npy(head % ("<f4", "(-2,)"), b"\0" * 8), "E_INVALID", "extent"),
        "huge": (npy(head % ("<f4", "(4294967296, 4294967296, 4294967296)")), "E_INVALID", ""),
        "long": (npy(head % ("<f4", "(99999999999999999999,)")), "E_INVALID", "extent"),
        "rank": (npy(head % ("<f4", "(" + "1, " * 65 + ")"), b"\0" * 4), "E_UNSUPPORTED", "64"),
        "twice": (npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
                      b"\0" * 4), "E_INVALID", "once"),
        "missing": (npy("{'descr': '<f4', 'shape': (1,)}", b"\0" * 4), "E_INVALID",
                    "fortran_order"),
        "tail": (npy(ok + " x", b"\0" * 8), "E_INVALID", "end"),
        "quote": (npy("{'descr: 1}"), "E_INVALID", "quotes"),
        "none": (npy(head % ("<f4", "None"), b"\0" * 4), "E_INVALID", "shape"),
    }


def also_good():
    """Spellings that numpy reads, too, though it does not write them."""
    data = struct.pack("<2f", 1, -2)
    return {
        "spaced": npy("  { 'shape' :( 2 , ) , \"descr\":\"<f4\",'fortran_order' : True}\n", data),
        "python2": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }", data),
        "bare": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", data),
    }


def bad_tensors():
    if numpy_helper is None:
        return {}
    external = TensorProto(data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
    external.external_data.add(key="location", value="x")
    return {
        "string.pb": (helper.make_tensor("x", 8, [1], [b"a"]), "E_UNSUPPORTED", "strings"),
        "external.pb": (external, "E_UNSUPPORTED", "file of their own"),
        "nothing.pb": (TensorProto(data_type=1, dims=[1 << 40]), "E_INVALID", "no elements"),
        "short.pb": (TensorProto(data_type=1, dims=[3], raw_data=b"\0" * 8), "E_INVALID", "8 bytes"),
        "bfloat16.pb": (TensorProto(data_type=16, dims=[1], raw_data=b"\0\0"), "E_UNSUPPORTED",
                        "numpy has no type for bfloat16"),
        "int4.pb": (TensorProto(data_type=22, dims=[3], raw_data=b"\0\0"), "E_UNSUPPORTED", "int4"),
    }


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        expected = good_files(folder)
        for name, data in also_good().items():
            with open(name, "wb") as file:
                file.write(data)
            expected[name] = numpy.array([1, -2], numpy.float32)
        refused = bad_files()
        for name, (message, status, words) in bad_tensors().items():
            refused[name] = (message.SerializeToString(), status, words)
        for name, (data, _, _) in refused.items():
            with open(name, "wb") as file:
                file.write(data)
        names = list(expected) + list(refused) + ["absent"]
        done = subprocess.run([program, *names], capture_output=True, text=True, check=True)
        lines = dict(zip(names, done.stdout.splitlines()))
        assert len(lines) == len(names)
        for name, array in expected.items():
            assert lines[name] == "OK", "%s: %s" % (name, lines[name])
            with open(name + ".out", "rb") as file:
                again = numpy.load(file)
                at, size = file.tell(), os.path.getsize(name + ".out")
            assert (at - again.nbytes) % 64 == 0 and at == size, name
            assert again.dtype == array.dtype and again.shape == array.shape, name
            assert again.tobytes() == array.tobytes(), name
        for name, (_, status, words) in refused.items():
            line = lines[name]
            assert line.startswith(status + " " + name) and words in line, "%s: %s" % (name, line)
            assert not os.path.exists(name + ".out"), name
        assert lines["absent"].startswith("E_IO absent"), lines["absent"]
    print("%d files agree, %d are refused as they should be" % (len(expected), len(refused)))


main()
