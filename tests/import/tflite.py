"""Are .tflite files read right? A second reader, which knows the wire format and field numbers alone.

    tflite.py SIZES CONTENTS FOLDER...

SIZES and CONTENTS are the programs built from sizes.c and contents.c. Every .tflite file of the folders (and one level below) is read
here with a FlatBuffers walk of its own; every tensor that is used must have the same element type,
extents, bytes and role, every operator the same operands, every constant the same bytes.
Exit status: 0 no difference, 1 a difference, or there are no models.
"""
import glob
import struct
import subprocess
import sys

TYPES = {0: ("float32", 32), 1: ("float16", 16), 2: ("int32", 32), 3: ("uint8", 8), 4: ("int64", 64),
         5: ("string", 0), 6: ("bool", 8), 7: ("int16", 16), 8: ("complex64", 64), 9: ("int8", 8),
         10: ("float64", 64), 11: ("complex128", 128), 12: ("uint64", 64), 13: ("resource", 32),
         14: ("variant", 0), 15: ("uint32", 32), 16: ("uint16", 16), 17: ("int4", 4), 18: ("bfloat16", 16)}
DENSIFY, DEQUANTIZE = 124, 6
# blocks of an operator in the order in which they are owned: (options field of the union, scalar field)
CALLS = {118: (0, 1), 119: (1, 0), 129: (0,), 31: (0,)}


class Table:
    def __init__(self, data, at):
        self.data, self.at = data, at
        self.vtable = at - struct.unpack_from("<i", data, at)[0]
        self.fields = (struct.unpack_from("<H", data, self.vtable)[0] - 4) // 2

    def place(self, field):
        offset = struct.unpack_from("<H", self.data, self.vtable + 4 + 2 * field)[0] if field < self.fields else 0
        return self.at + offset if offset else None

    def number(self, field, form, otherwise=0):
        place = self.place(field)
        return otherwise if place is None else struct.unpack_from("<" + form, self.data, place)[0]

    def follow(self, field):
        place = self.place(field)
        return None if place is None else place + struct.unpack_from("<I", self.data, place)[0]

    def table(self, field):
        return Table(self.data, self.follow(field))

    def ints(self, field):
        at = self.follow(field)
        if at is None:
            return []
        return list(struct.unpack_from(f"<{struct.unpack_from('<I', self.data, at)[0]}i", self.data, at + 4))

    def tables(self, field):
        at = self.follow(field)
        count = 0 if at is None else struct.unpack_from("<I", self.data, at)[0]
        places = [at + 4 + 4 * i for i in range(count)]
        return [Table(self.data, p + struct.unpack_from("<I", self.data, p)[0]) for p in places]

    def blob(self, field):
        at = self.follow(field)
        if at is None:
            return b""
        return self.data[at + 4:at + 4 + struct.unpack_from("<I", self.data, at)[0]]


def product(extents):
    result = 1
    for extent in extents:
        result *= extent
    return result


class Model:
    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        root = Table(data, struct.unpack_from("<I", data, 0)[0])
        self.codes = [max(c.number(0, "b"), c.number(3, "i")) for c in root.tables(1)]
        self.graphs = root.tables(2)
        self.buffers = root.tables(4)
        self.metadata = root.tables(6)
        self.data = data
        self.tensors, self.ops, self.taken = [], [], set()
        self.contents = {}  # of constants that are not sparse
        queue, block = [(0, "")], 0
        while queue:
            index, prefix = queue.pop(0)
            self.read(self.graphs[index], block, prefix, queue)
            block += 1

    def read(self, graph, block, prefix, queue):
        tensors, ops = graph.tables(0), graph.tables(3)
        inputs, outputs = set(graph.ints(1)), set(graph.ints(2))
        made = {i for op in ops for i in op.ints(2)}
        used = (inputs | outputs | made | {i for op in ops for i in op.ints(1)}) - {-1}
        names = {-1: ""}
        static = set()
        for i in sorted(used):
            names[i] = prefix + (tensors[i].blob(3).decode("utf-8", "replace") or f"tensor {i}")
            while names[i] in self.taken:  # names are made unique
                names[i] += f"#{len(self.taken)}"
            self.taken.add(names[i])
            buffer = self.buffers[tensors[i].number(2, "I")]
            full = bool(buffer.blob(0)) or buffer.number(1, "Q") > 1
            empty = product(tensors[i].ints(0)) == 0 and i not in made
            if (full or empty) and i not in inputs and not tensors[i].number(5, "B"):
                static.add(i)
        for i in static:
            if tensors[i].place(6) is None and product(tensors[i].ints(0)):
                self.contents[names[i]] = self.bytes_of(tensors[i])
        folded = set()
        for op in ops:
            code = self.codes[op.number(0, "I")]
            if code in (DENSIFY, DEQUANTIZE) and set(op.ints(1)) <= static | folded:
                folded |= set(op.ints(2))
        for i in sorted(used):
            kind, bits = TYPES[tensors[i].number(1, "b")]
            shape = tensors[i].ints(0)
            size = str((product(shape) * bits + 7) // 8) if bits else "?"
            role = "folded" if i in folded else "static" if i in static else "arena"
            home = 0 if tensors[i].number(5, "B") else block
            self.tensors.append((home, role, kind, ",".join(map(str, shape)), size, names[i]))
        for op in ops:
            code = self.codes[op.number(0, "I")]
            self.ops.append((block, [names[i] for i in op.ints(1)], [names[i] for i in op.ints(2)]))
            for field in CALLS.get(code, ()):
                target = op.table(4).number(field, "i")
                name = self.graphs[target].blob(4).decode("utf-8", "replace") or f"subgraph {target}"
                queue.append((target, name + "/"))


    def bytes_of(self, tensor):
        buffer = self.buffers[tensor.number(2, "I")]
        size = (product(tensor.ints(0)) * TYPES[tensor.number(1, "b")][1] + 7) // 8
        if buffer.number(1, "Q") > 1:
            return self.data[buffer.number(1, "Q"):][:size]
        return buffer.blob(0)[:size]


def our_contents(program, path):
    data, at, found = subprocess.run([program, path], capture_output=True, check=True).stdout, 0, {}
    while at < len(data):
        zero = data.index(b"\0", at)
        end = data.index(b"\n", zero)
        *_, size, status = data[zero + 1:end].decode().split(" ")
        size = int(size) if status == "OK" else 0
        found[data[at:zero].decode()] = data[end + 1:end + 1 + size]
        at = end + 1 + size
    return found


def ours(program, path):
    answer = subprocess.run([program, path], capture_output=True, text=True)
    if answer.returncode:
        return None, answer.stderr.strip()
    tensors, ops = [], []
    for line in answer.stdout.splitlines():
        field = line.split("\t")
        if field[0] == "tensor":
            kind = "folded" if field[3] == "folded" else "static" if field[2] == "parameter" else "arena"
            tensors.append((int(field[1]), kind, field[4], field[5], field[6], field[7]))
        else:
            ops.append((int(field[1]), [f[1:] for f in field[3:] if f[0] == "<"],
                        [f[1:] for f in field[3:] if f[0] == ">"]))
    return tensors, ops


def main():
    program, contents, bad, count, checked, read = sys.argv[1], sys.argv[2], 0, 0, 0, 0
    paths = [p for folder in sys.argv[3:] for deep in ("", "/*")
             for p in sorted(glob.glob(folder + deep + "/*.tflite"))]
    for path in paths:
        tensors, ops = ours(program, path)
        if tensors is None:
            print(f"NOT READ: {path}: {ops}")
            bad += 1
            continue
        model = Model(path)
        count += 1
        checked += len(model.tensors)
        if tensors != model.tensors or ops != model.ops:
            bad += 1
            print(f"DIFFERENT: {path}")
            for a, b in [p for p in zip(tensors + ops, model.tensors + model.ops) if p[0] != p[1]][:5]:
                print("   ours:", a, "\n   file:", b)
        found = our_contents(contents, path)
        wrong = [n for n in found.keys() | model.contents.keys() if found.get(n) != model.contents.get(n)]
        read += len(found)
        if wrong:
            bad += 1
            print(f"DIFFERENT: {path}: the contents of {wrong[:5]}")
    print(f"{count} models, {checked} tensors, {read} contents, {bad} models differ")
    return 1 if bad or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
