"""The operators of 2025 and 2026 as `tenure run` computes them, against ONNX Runtime's numbers.

    onnx_2026.py TENURE FOLDER DATA [NAME...]

TENURE is the command, FOLDER is for arrays, DATA is ../shared/data/onnx-2026: each NAME.onnx has a NAME.json with
inputs and the outputs of ONNX Runtime 1.30 (or of arithmetic from the text of the standard). REFUSED lists the
cases that the engine does not run, each with its reason; a listed case that runs is a failure as well.
Exit status: 0 all as said, 1 not all, 77 nothing to compare with.
"""
import glob
import json
import os
import subprocess
import sys

try:
    import numpy
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(77)

# Tolerance relative to the largest value; the loose ones quantise an operand while they run.
LOOSE = {"ms_nbits8": 2e-2, "ms_qmoe": 2e-2, "ms_dqmm": 2e-2}
REFUSED = {
    "sem_loop_seq": "SequenceEmpty", "sem_seqmap": "SequenceConstruct",  # sequences are planned, not run
    "sem_reuse_dim": "makes dimension 'N' 1",  # ONNX Runtime lets one name have two extents
}


# What ONNX Runtime refuses and the engine can run: a branch that hands out a value of the outer graph, and names
# that shadow outer ones (docs/agreement.md).
MORE = {"sem_if_outer_direct", "sem_if_shadow"}
TOLD = {"sem_if_ranks": "c"}  # sizes depend on this input: it is told ahead


REFUSED.update({"sem_sts_" + name: "SplitToSequence" for name in (
    "1d1111_k0", "1d1111_k1", "1d1111_kNone", "1d22_k0", "1d22_k1", "1d22_kNone", "axis-1_k0", "none_k0", "none_k1",
    "none_kNone", "scalar1_k0", "scalar1_k0_o24", "scalar1_k1", "scalar1_kNone")})


def array(tensor):
    kind, values = tensor["type"], [numpy.nan if v is None else float(v) if isinstance(v, str) else v
                                    for v in tensor["values"]]
    if kind == "float16":  # the bits
        return numpy.array(values, numpy.uint16).view(numpy.float16).reshape(tensor["shape"])
    return numpy.array(values, kind).reshape(tensor["shape"])


def file_name(name):
    return "".join(c if c.isascii() and (c.isalnum() or c == "-" or (c == "." and i)) else "_"
                   for i, c in enumerate(name.encode().decode("latin-1")))[:127]


def run(tenure, path, facts, folder):
    """{output: array}, or the error."""
    os.makedirs(folder, exist_ok=True)
    command = [tenure, "run", path, "--json", "--output-dir", folder, "--poison"]
    told = TOLD.get(os.path.basename(path)[:-5])
    for name, tensor in facts["inputs"].items():
        if name == told:
            command += ["--value", "%s=%d" % (name, tensor["values"][0])]
            continue
        numpy.save(os.path.join(folder, "in_%s.npy" % name), array(tensor))
        command += ["--input", "%s=%s" % (name, os.path.join(folder, "in_%s.npy" % name))]
        command += ["--input-shape", "%s=%s" % (name, ",".join(map(str, tensor["shape"])) or "scalar")] \
            if tensor["shape"] else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().replace("\n", " ")
    return {o["name"]: numpy.load(os.path.join(folder, file_name(o["name"]) + ".npy"))
            for o in json.loads(done.stdout)["outputs"]}


def differs(name, facts, outputs):
    """What is wrong with the outputs; "" when nothing is."""
    for output, tensor in facts["outputs"].items():
        got = outputs.get(output)
        if "values" not in tensor:  # the shape alone
            if got is None or list(got.shape) != tensor["shape"]:
                return "%s is %s" % (output, got is not None and got.shape)
            continue
        wanted = array(tensor)
        if name == "bitcast":  # the JSON has 8 digits of its integers: the bits of the input are the answer
            wanted = array(facts["inputs"]["x"]).view(wanted.dtype)
        if got is None or list(got.shape) != list(wanted.shape) or got.dtype != wanted.dtype:
            return "%s is %s%s, not %s%s" % (output, got is not None and got.dtype, got is not None and got.shape,
                                             wanted.dtype, wanted.shape)
        if wanted.size == 0:
            continue
        if wanted.dtype.kind in "iub" and "q" not in name:
            if not (got == wanted).all():
                return "%s differs" % output
            continue
        a, b = got.astype(float), wanted.astype(float)
        limit = 1 if wanted.dtype.kind in "iu" else LOOSE.get(name, 2e-3 if wanted.dtype == numpy.float16 else 1e-4) * \
            max(1e-30, numpy.abs(b[numpy.isfinite(b)]).max(initial=0))
        same = (numpy.isnan(a) & numpy.isnan(b)) | (a == b)
        error = numpy.abs(numpy.where(same, 0, numpy.where(same, 0, a) - numpy.where(same, 0, b))).max()
        if not error <= limit:
            return "%s: error %.2g, limit %.2g" % (output, error, limit)
    return ""


def main():
    tenure, folder, data, chosen = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    paths = sorted(p for p in glob.glob(data + "/*.onnx") if os.path.exists(p[:-5] + ".json"))
    if not paths:
        print("SKIP: no shared data")
        return 77
    equal, refused, wrong = 0, 0, []
    for path in paths:
        name = os.path.basename(path)[:-5]
        with open(path[:-5] + ".json", encoding="utf-8") as file:
            facts = json.load(file)
        if "outputs" not in facts or (chosen and name not in chosen):
            continue
        result = run(tenure, path, facts, os.path.join(folder, name))
        fails = facts.get("how", "").startswith("refused")
        if isinstance(result, str):
            known = fails or (name in REFUSED and REFUSED[name] in result)
            refused += known
            if not known:
                wrong.append("%s: %s" % (name, result[-260:]))
        elif name in MORE:
            equal += 1
        elif fails or name in REFUSED:
            wrong.append("%s: runs, but should be refused" % name)
        else:
            reason = differs(name, facts, result)
            equal += not reason
            if reason:
                wrong.append("%s: %s" % (name, reason))
    print("%d equal, %d refused as they should be, %d wrong" % (equal, refused, len(wrong)))
    for line in wrong:
        print("  WRONG:", line)
    return 1 if wrong else 0


sys.exit(main())
