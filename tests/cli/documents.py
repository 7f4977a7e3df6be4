#!/usr/bin/env python3
"""A plan is a document: whatever is written is accepted by `tenure verify` with the model alone, and refused once
a buffer is moved.

    documents.py TENURE EXAMPLES CASES

Crosses commands, options and formats with generated graphs, whose names are hostile, repeated or missing, and with the
models of EXAMPLES. CASES are inputs that were answered wrongly once; the right answers stand here.
"""
import csv
import itertools
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from count import case_count  # noqa: E402

tenure, examples, cases = (os.path.abspath(path) for path in sys.argv[1:4])
failed = accepted = refused = 0
seed = 20261128


def fail(text):
    global failed
    failed = 1
    print("FAILED:", text)


def run(*words, cwd=None):
    return subprocess.run([tenure, *words], capture_output=True, text=True, cwd=cwd, timeout=300)


# --- ONNX, field by field ---

def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def value(name, dims):
    shape = b"".join(block(1, number(1, d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, 1) + block(2, shape)))


def tensor(name, dims, rng):
    count = 1
    for d in dims:
        count *= d
    raw = struct.pack("<%df" % count, *(rng.random() for _ in range(count)))
    return b"".join(number(1, d) for d in dims) + number(2, 1) + block(8, name) + block(9, raw)


def node(kind, ins, outs, name="", **attributes):
    data = b"".join(block(1, i) for i in ins) + b"".join(block(2, o) for o in outs) + block(3, name) + block(4, kind)
    for key, what in attributes.items():
        data += block(5, block(1, key) + number(3, what) + number(20, 2))
    return data


def write(path, nodes, inputs, outputs, weights):
    graph = b"".join(block(1, n) for n in nodes) + block(2, "g") + b"".join(block(5, w) for w in weights) + \
        b"".join(block(11, i) for i in inputs) + b"".join(block(12, o) for o in outputs)
    pathlib.Path(path).write_bytes(number(1, 8) + block(7, graph) + block(8, block(1, "") + number(2, 18)))


# --- graphs ---

PARTS = ['a', 'b', ',', '"', "\n", "\r", ";", "\t", " ", "=", "/", ":workspace", " for ", "/again", "é", "\u202e", "'", "\\",
         "x" * 60, "d.", "{", "}", "[", "0", "#"]


def hostile(rng, taken):
    """A name that no tensor of this graph has yet."""
    while True:
        name = "".join(rng.choice(PARTS) for _ in range(rng.randint(1, 4)))
        if name not in taken:
            taken.add(name)
            return name


def random_graph(path, rng):
    """Rows x columns of float32 through unary and binary operators, concatenations and products."""
    taken, nodes, weights = set(), [], []
    columns = rng.choice([3, 16, 33])
    live = [(hostile(rng, taken), rng.choice([4, 7]))]
    inputs = [value(live[0][0], [live[0][1], columns])]
    repeated = rng.choice(["", "n", 'q"'])  # names of operators need not differ, nor be there
    for _ in range(rng.randint(4, 14)):
        kind = rng.choice(["Relu", "Exp", "Softmax", "Add", "Mul", "Concat", "MatMul"])
        name, rows = rng.choice(live)
        out, ins = hostile(rng, taken), [name]
        if kind in ("Add", "Mul"):
            other = rng.choice([each for each in live if each[1] == rows])
            ins.append(other[0])
        elif kind == "Concat":
            other = rng.choice(live)
            ins.append(other[0])
            rows += other[1]
        elif kind == "MatMul":
            ins.append(hostile(rng, taken))
            weights.append(tensor(ins[1], [columns, columns], rng))
        attributes = {"axis": 0} if kind == "Concat" else {}
        nodes.append(node(kind, ins, [out], repeated, **attributes))
        live.append((out, rows))
    last = live[-1]
    write(path, nodes, inputs, [value(last[0], [last[1], columns])], weights)


def trained_graph(path, rng):
    taken, nodes, weights = set(), [], []
    at, width = hostile(rng, taken), 8
    inputs = [value(at, [4, width])]
    for layer in range(3):
        weight, bias, out, after = (hostile(rng, taken) for _ in range(4))
        wide = 5 if layer == 2 else 12
        weights += [tensor(weight, [width, wide], rng), tensor(bias, [wide], rng)]
        nodes.append(node("Gemm", [at, weight, bias], [out], "same"))
        nodes.append(node("Relu", [out], [after], "same"))
        at, width = after, wide
    write(path, nodes, inputs, [value(at, [4, width])], weights)


# --- plans: accepted as they are, refused with a buffer moved ---

def expect_valid(model, plan, options=(), what=""):
    global accepted
    said = run("verify", model, "--plan", plan, *options)
    if said.returncode != 0:
        fail(f"{what}: verify {plan} {options}: {said.returncode}: {said.stdout}{said.stderr}")
    accepted += 1


def expect_refused(model, plan, options=(), what=""):
    global refused
    said = run("verify", model, "--plan", plan, *options)
    if said.returncode != 1 or "not valid" not in said.stdout:
        fail(f"{what}: damaged {plan} {options}: {said.returncode}: {said.stdout}{said.stderr}")
    refused += 1


def pieces(row):
    """(first, last, low, high) of a row of a .csv plan: a gap keeps some of the bytes, or none."""
    first, last, size = (int(row[key]) for key in ("lower", "upper", "size"))
    gaps = []
    for gap in (row.get("gaps") or "").split():
        steps, _, kept = gap.partition("@")
        low, high = kept.split(":") if kept else (0, 0)
        gaps.append((*map(int, steps.split("-")), int(low), int(high)))
    for gap in gaps:
        yield gap
        if first < gap[0]:
            yield first, gap[0], 0, size
        first = gap[1]
    yield first, last, 0, size


def collide(a, b):
    """Whether two rows at one offset would hold the same bytes at the same step."""
    return any(p[0] < q[1] and q[0] < p[1] and p[2] < q[3] and q[2] < p[3] for p in pieces(a) for q in pieces(b))


def table_rows(table):
    """The rows of a .csv plan: other tables may come behind an empty line."""
    lines = csv.reader(open(table, newline=""))
    head = next(lines)
    return [dict(zip(head, line)) for line in itertools.takewhile(bool, lines)]


def meeting(plan, table, rng):
    """Two buffers that may not lie at one offset, whatever works in place and whichever inputs of concatenations
    lie in the output: both live for three steps and more, and neither holds a concatenation."""
    rows, document = table_rows(table), json.load(open(plan))
    joined = {each["buffer"] for each in document["tensors"] if each["op_type"].lower().startswith("concat")}
    pairs = [(a, b) for a in range(len(rows)) for b in range(len(rows)) if a != b and not {a, b} & joined
             and rows[a].get("bank") == rows[b].get("bank") and rows[a]["offset"] != rows[b]["offset"]
             and min(int(rows[a]["upper"]), int(rows[b]["upper"])) - max(int(rows[a]["lower"]), int(rows[b]["lower"])) >= 3
             and collide(rows[a], rows[b])]
    return rows, document, rng.choice(pairs) if pairs else None


def damage(plan, table, out, out_table, rng):
    """Moves a buffer onto another, in both formats; the document goes on agreeing with itself."""
    rows, document, pair = meeting(plan, table, rng)
    if pair is None:
        return False
    rows[pair[0]]["offset"] = rows[pair[1]]["offset"]
    with open(out_table, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), quoting=csv.QUOTE_ALL)  # blanks at the ends count
        writer.writeheader()
        writer.writerows(rows)
    buffers = document["buffers"]
    buffers[pair[0]]["offset"] = buffers[pair[1]]["offset"]
    for each in document["tensors"]:
        each["offset"] = buffers[each["buffer"]]["offset"] + each["delta"]
    document["result"]["peak"] = max(each["offset"] + each["size"] for each in buffers)
    json.dump(document, open(out, "w"))
    return True


def shift_json(plan, out, rng):
    """A buffer goes where nothing is: its tensors stay behind."""
    document = json.load(open(plan))
    moved = rng.choice([row for row in document["buffers"] if row["size"] > 0])
    moved["offset"] = (document["result"]["peak"] + 8191) // 4096 * 4096
    json.dump(document, open(out, "w"))


def try_plan(folder, command, model, options, rng, csv_options=None):
    """One command: both formats; csv_options: what `verify` is given for the .csv (None: it cannot be told)."""
    what = f"{command} {os.path.basename(model)} {' '.join(options)}"
    plan, table, bad, bad_table = (os.path.join(folder, name) for name in ("p.json", "p.csv", "bad.json", "bad.csv"))
    for path in (plan, table):
        if os.path.exists(path):
            os.remove(path)
    said = run(command, model, *options, "-q", "-o", plan, "-o", table)
    if said.returncode != 0:
        return fail(f"{what}: {said.returncode}: {said.stderr}")
    expect_valid(model, plan, what=what)
    for path in (plan, table):  # a plan is a problem as well, and its own answer
        expect_valid(path, path, what=what)
    damaged = damage(plan, table, bad, bad_table, rng)
    if damaged:
        expect_refused(model, bad, what=what)
    shift_json(plan, bad, rng)
    expect_refused(model, bad, what=what)
    bare = run("verify", model, "--plan", table)
    if bare.returncode not in (0, 2):
        fail(f"{what}: a .csv plan without its options: {bare.returncode}: {bare.stdout}{bare.stderr}")
    if csv_options is None:
        return None
    expect_valid(model, table, csv_options, what)
    if damaged and "--no-views" not in options:
        expect_refused(model, bad_table, csv_options, what)
    return None


OPTIONS = [[], ["--order", "auto"], ["--order", "memory"], ["--alignment", "1"], ["--alignment", "256"],
           ["--static", "arena"], ["--static", "first"], ["--no-inplace"], ["--no-views", "--no-inplace"],
           ["--fuse-concat"], ["--parallel", "safe"], ["--bank", "a=none@1GB/s", "--bank", "b=1KiB@8GB/s"],
           ["--kernels", "plain"], ["--kernels", "plain", "--static", "arena", "--order", "auto"]]
TRAINING = [["--train"], ["--train", "--optimizer", "sgd", "--alignment", "16"],
            ["--train", "--optimizer", "momentum", "--momentum", "0.5", "--recompute-work", "0.2"],
            ["--train", "--micro-batches", "2", "--order", "auto"], ["--train", "--fuse-update", "--kernels", "plain"]]


def cross_graph(folder, index):
    model, rng = os.path.join(folder, f"g{index}.onnx"), random.Random(seed + index)
    random_graph(model, rng)
    for options in OPTIONS:
        try_plan(folder, "plan", model, options, rng, options)
    try_plan(folder, "estimate", model, [], rng)


def cross_trained(folder, index):
    model, rng = os.path.join(folder, f"t{index}.onnx"), random.Random(seed + index)
    trained_graph(model, rng)
    for options in TRAINING:
        again = "--recompute-work" in options  # the program is one of ours: no .csv says that
        try_plan(folder, "plan", model, options, rng, None if again else options)
    plain = json.loads(run("fit", model, "--train", "--budget", "1GiB", "--costs", "model:t4", "--json").stdout)
    budget = str(plain["answers"][0]["plain_bytes"] * 99 // 100)
    fit = ["--train", "--budget", budget, "--costs", "model:t4"]
    for more in ([], ["--link", "12GB/s"], ["--allow", "order,compress", "--lossy"]):
        if run("fit", model, *fit, *more, "-q").returncode == 0:
            try_plan(folder, "fit", model, fit + more, rng)


def split_models(folder, rng):
    """`tenure split` writes models: their plans are documents, and the plan inside one is a plan."""
    small = os.path.join(folder, "small")
    wake, unet = os.path.join(examples, "wake_words.tflite"), os.path.join(folder, "unet64.onnx")
    shutil.copy(os.path.join(examples, "unet64.onnx"), unet)  # what is written names the same weights by place
    for model, words in ((wake, ["--plan"]), (unet, [])):
        path = small + os.path.splitext(model)[1]
        said = run("split", model, "--extra-work", "25%", *words, "-q", "-o", path)
        if said.returncode != 0:
            fail(f"split {model}: {said.returncode}: {said.stderr}")
        try_plan(folder, "plan", path, [], rng, [])
    inside = run("verify", small + ".tflite")
    if inside.returncode != 0:
        fail(f"split: the plan inside: {inside.returncode}: {inside.stdout}{inside.stderr}")


def cross(folder):
    rng = random.Random(seed)
    for index in range(case_count(18, 3)):
        cross_graph(folder, index)
    for index in range(case_count(6, 1)):
        cross_trained(folder, index)
    split_models(folder, rng)
    model = os.path.join(folder, "long.onnx")  # rows that run in parts: no .csv says so
    write(model, [node("MatMul", ["x", "w"], ["a,"]), node("Relu", ["a,"], ['r"']), node("MatMul", ['r"', "v"], ["y"])],
          [value("x", [256, 8])], [value("y", [256, 8])], [tensor("w", [8, 64], rng), tensor("v", [64, 8], rng)])
    try_plan(folder, "plan", model, ["--split", "--extra-work", "50%"], rng)
    if "split-region" not in json.load(open(os.path.join(folder, "p.json")))["options"]:
        fail("nothing runs in parts")
    for name, options in (("two_branches.onnx", []), ("five_operators.onnx", ["--static", "first"]), ("keywords.tflite", []),
                          ("keywords.tflite", ["--kernels", "cmsis-nn"])):
        try_plan(folder, "plan", os.path.join(examples, name), options, rng, options)
    unet, plan = os.path.join(examples, "unet64.onnx"), os.path.join(folder, "again.json")
    fit = ["fit", "--costs", "model:v100-16", "--budget", "545MB", "--pass", "sublinear"]
    for command, *options in (fit, ["plan", "--recompute-work", "0.2"]):  # parts of concatenations are computed twice
        for more in ([], ["--fuse-concat"]):
            said = run(command, unet, "--train", *options, *more, "-q", "-o", plan, "--overwrite")
            if said.returncode != 0:
                fail(f"{command} unet64 {more}: {said.returncode}: {said.stderr}")
            expect_valid(unet, plan, what=f"{command} unet64 {more}")
    for target in ("cortex-m4", "cortex-m55", "x86-64"):
        try_plan(folder, "arena", os.path.join(examples, "keywords.tflite"), ["--target", target], rng)


# --- cases ---

def ask(status, pattern, *words, stream="both"):
    said = run(*words, cwd=cases)
    text = said.stdout + said.stderr if stream == "both" else said.stdout
    if said.returncode != status or pattern not in text:
        fail(f"{' '.join(words)}: status {said.returncode}, expected {status} and '{pattern}': {text[:300]}")
    return said.stdout


def case_by_case(folder):
    plan, table = os.path.join(folder, "c.json"), os.path.join(folder, "c.csv")
    for model, options in (("constant_of_shape.onnx", []), ("same_inner_names_if.onnx", []), ("train_plan.onnx", ["--train"]),
                           ("two_banks.onnx", ["--bank", "a=1KiB@8GB/s", "--bank", "b=none@1GB/s"]),
                           ("alignment_one.onnx", ["--alignment", "1"])):
        ask(0, "", "plan", model, *options, "-q", "-o", plan, "-o", table)
        ask(0, "valid", "verify", model, "--plan", plan)
        ask(0, "valid", "verify", model, "--plan", table, *options)
        ask(0, "optimal", "plan", table)
    ask(2, "--alignment 64 contradicts", "verify", "alignment_one.onnx", "--plan", plan, "--alignment", "64")
    ask(0, "valid", "verify", "alignment_one.onnx", "--plan", plan, "--alignment", "1B")
    banks = ["--bank", "slow=64KiB@1GB/s", "--bank", "fast=64KiB@10GB/s"]
    ask(0, "", "plan", "bank_zero.csv", *banks, "-q", "-o", plan, "-o", table)
    pools = {row["name"]: row["pool"] for row in json.load(open(plan))["buffers"]}
    if pools != {"dma_only": 0, "free": 1}:
        fail(f"bank_zero: {pools}")
    for path in (plan, table):  # bound there, whatever is asked for
        ask(0, "", "plan", path, *banks, "-q", "-o", os.path.join(folder, "again.json"), "--overwrite")
    moved = json.load(open(plan))
    moved["buffers"][0]["pool"] = 1
    moved["buffers"][0]["offset"] = 4096
    json.dump(moved, open(plan, "w"))
    ask(1, "not valid", "verify", "bank_zero.csv", "--plan", plan)
    said = ask(1, "A_L3L2_0", "plan", "infeasible_banks.csv", "--bank", "b0=64KiB", "--bank", "b1=64KiB")
    answer = json.loads(ask(1, "", "plan", "infeasible_banks.csv", "--bank", "b0=64KiB", "--bank", "b1=64KiB", "--json",
                            stream="out"))
    if [row["name"] for row in answer["holders"]] != ["A_L3L2_0"] or said != "":
        fail(f"infeasible_banks: {answer}")
    for name in ("semicolons.csv", "spaces.csv"):
        ask(0, "100 bytes, optimal", "plan", name, "--brief")
    ask(0, "", "plan", "quote_in_name.csv", "-q", "-o", table)
    if [row[0] for row in csv.reader(open(table, newline=""))] != ["id", '"abc', "b"]:
        fail("quote_in_name: " + open(table).read())
    ask(0, "2,400,000,000  ", "plan", "constant_node.onnx")
    ask(2, "--value n=N", "plan", "loop_trip_input.onnx")
    ask(0, "optimal", "plan", "loop_trip_input.onnx", "--value", "n=5", "--brief")
    pinned = os.path.join(folder, "pinned.csv")
    open(pinned, "w").write("id,lower,upper,size,offset\na,0,3,8,8\nb,1,2,8,\n")
    ask(0, "1 of 2 buffers are pinned by their offset column", "plan", pinned)
    ask(2, "would replace the input", "plan", pinned, "-o", pinned)
    ask(0, "", "plan", pinned, "-q", "--overwrite", "-o", pinned)
    link, target = os.path.join(folder, "link.json"), os.path.join(folder, "target.json")
    for there in (False, True):  # a link stays a link, whether or not it leads anywhere yet
        if not there:
            os.symlink("target.json", link)
        ask(0, "", "plan", pinned, "-q", "-o", link)
        if not os.path.islink(link) or json.load(open(target))["format"] != "mem-plan":
            fail("-o through a link")
    ask(2, "would replace the input", "plan", target, "-o", link)
    ask(2, "did you mean 'rtx-4090'", "estimate", "two_banks.onnx", "--device", "4090")
    ask(0, "fits", "estimate", "two_banks.onnx", "--device", "4090B", "--brief")
    for size in ("2.2GiB", "1.3MiB", "182.4 MiB"):
        ask(0, "fits", "estimate", "two_banks.onnx", "--device", size, "--brief")
    ask(2, "whole number", "estimate", "two_banks.onnx", "--device", "4096.5")


with tempfile.TemporaryDirectory() as scratch:
    case_by_case(scratch)
    cross(scratch)
print(f"{accepted} plans accepted, {refused} damaged ones refused")
sys.exit(failed)
