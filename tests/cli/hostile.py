#!/usr/bin/env python3
"""Files from somebody who attacks, and what a command leaves behind when it is ended: hostile.py TENURE SLOW_FILES SOURCE

Symbolic links out of the folder of the file that names them, repeated outputs, signals while a file is written (SLOW_FILES makes a file
system without O_TMPFILE and a slow disk), control characters in names, bombs, devices that give nothing. Each check is one promise of SECURITY.md.
"""
import gzip
import json
import os
import pathlib
import pty
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import train_models as models  # noqa: E402

TENURE, SLOW, SOURCE = (os.path.abspath(word) for word in sys.argv[1:4])
MODELS, CORPUS = f"{SOURCE}/examples/models", f"{SOURCE}/fuzz/corpus"
OWN = 60  # MiB of this process
OUTSIDE = "leads through a symbolic link out of the folder"


def tenure(*words, status=0, **settings):
    done = subprocess.run([TENURE, *map(str, words)], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **settings)
    assert done.returncode == status, (words, done)
    return done.stdout + done.stderr


def refused_unless_followed(*words):
    told = tenure(*words, status=2)
    assert OUTSIDE in told and "--follow-links" in told and told.count("\n") == 1, told
    return tenure(*words, "--follow-links")


def links():
    """External data, shards (.safetensors, .gguf), the configuration beside them, an embedding table's files, a data set."""
    os.mkdir("in")
    shutil.copy(f"{CORPUS}/onnx/external_link.onnx", "in/model.onnx")
    secret = "".join(chr(33 + i % 90) for i in range(100000))
    pathlib.Path("secret").write_text(secret)
    run = ["run", "in/model.onnx", "--input", "x=zeros", "--plain", "--output-dir", "out"]
    os.symlink("../secret", "in/link")
    os.mkdir("out")
    told = tenure(*run, status=2)
    assert OUTSIDE in told and os.listdir("out") == [], told
    tenure(*run, "--follow-links")
    assert secret[:16].encode() in pathlib.Path("out/y.npy").read_bytes()
    os.remove("in/link")
    shutil.copy("secret", "in/inside")
    os.symlink("inside", "in/link")  # stays in the folder: no matter
    tenure(*run)
    os.symlink(f"{CORPUS}/weights/plain.safetensors", "in/part.safetensors")
    names = tensors(f"{CORPUS}/weights/plain.safetensors")
    pathlib.Path("in/m.safetensors.index.json").write_text(json.dumps({"weight_map": {name: "part.safetensors" for name in names}}))
    refused_unless_followed("estimate", "in/m.safetensors.index.json")
    shutil.copy(f"{CORPUS}/weights/plain.safetensors", "in/one.safetensors")
    os.symlink(f"{CORPUS}/config/gpt2.json", "in/config.json")
    refused_unless_followed("estimate", "in/one.safetensors")
    os.remove("in/config.json")
    tenure("embed", "create", "in/table.rows", "--rows", 10, "--dim", 4)
    pathlib.Path("victim").write_text("precious")
    for suffix in ("journal", "checkpoint"):
        os.symlink("../victim", f"in/table.rows.{suffix}")
        for words in (["show"], ["undo"]):
            assert OUTSIDE in tenure("embed", *words, "in/table.rows", status=2)
        os.remove(f"in/table.rows.{suffix}")
    assert pathlib.Path("victim").read_text() == "precious"
    os.mkdir("data")
    os.symlink("../secret", "data/train-images-idx3-ubyte.gz")
    told = tenure("train", f"{MODELS}/train_alexnet.onnx", "--data", "fashion-mnist:data", "--batch", 1, "--steps", 1, status=2)
    assert OUTSIDE in told, told


def tensors(path):
    raw = pathlib.Path(path).read_bytes()
    return [name for name in json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]]) if name != "__metadata__"]


def outputs():
    """Every file that a repeated option names is written; an option that cannot be repeated says so."""
    def written(*words, files):
        told = tenure(*words)
        assert all(os.path.getsize(file) > 0 for file in files), (words, told)
        assert all(f"wrote {file}" in told for file in files), told
    model = f"{MODELS}/five_operators.onnx"
    written("run", model, "--plain", "--pool", "best-fit", "--trace", "a.trace.csv", "--trace", "a.trace.json", "--trace", "a.pickle",
            files=["a.trace.csv", "a.trace.json", "a.pickle"])
    written("replay", "a.trace.csv", "-o", "r.svg", "-o", "r2.svg", "-o", "r.pickle", files=["r.svg", "r2.svg", "r.pickle"])
    written("simulate", f"{CORPUS}/log/in_place.log", "--budget", "1.0", "-o", "s.csv", "-o", "s.svg", "-o", "s.html", files=["s.csv", "s.svg", "s.html"])
    text = ["--data", "text:book.txt", "--batch", 4, "--steps", 2, "--plain", "--weights", "random:1"]
    traces = ["t.svg", "t.html", "t.trace.json", "t.trace.csv"]
    tenure("train", "lm.onnx", *text, *("-o t.svg -o t.html --trace t.trace.json --trace t.trace.csv".split()))
    assert all(os.path.getsize(file) > 0 for file in traces)
    assert "--log: give this option only once" in tenure("train", "lm.onnx", *text, "--log", "a.csv", "--log", "b.csv", status=2)
    assert "give this option only once" in tenure("run", model, "--output-dir", "out", "--output-dir", "in", status=2)


def parts(folder="."):
    return [name for name in os.listdir(folder) if name.endswith(".part")]


def ended_while_it_writes(number, *words):
    os.mkdir("w")
    process = subprocess.Popen([TENURE, *map(str, words)], env=dict(os.environ, LD_PRELOAD=SLOW), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not parts("w") and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    assert parts("w"), process.communicate()
    process.send_signal(number)
    process.communicate(timeout=60)
    left = os.listdir("w")
    shutil.rmtree("w")
    return process.returncode, left


def signals():
    pathlib.Path("b.csv").write_text("id,lower,upper,size\na,0,3,600\n")
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGXCPU):
        for words in (["plan", "b.csv", "-o", "w/p.json"], ["embed", "create", "w/e.rows", "--rows", 10, "--dim", 4]):
            status, left = ended_while_it_writes(number, *words)
            assert (status, left) == (-number, []), (number, words, status, left)
    status, left = ended_while_it_writes(signal.SIGKILL, "plan", "b.csv", "-o", "w/p.json")
    assert status == -signal.SIGKILL and len(left) == 1, left  # where there is no O_TMPFILE
    os.mkdir("full")
    words = ["plan", "b.csv", "-o", "full/p.json"]
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))}
    assert "File too large" in tenure(*words, status=2, **limit) and os.listdir("full") == []


def training():
    """SIGHUP is SIGTERM: a checkpoint of that moment, and --resume goes on and removes what a killed run left."""
    words = ["lm.onnx", "--data", "text:book.txt", "--batch", 4, "--plain", "--weights", "random:1", "--steps", 100000, "--checkpoint", "run.ck"]
    for number in (signal.SIGHUP, signal.SIGXCPU):
        process = subprocess.Popen([TENURE, "train", *map(str, words), "--log", "run.csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not os.path.exists("run.csv") or os.path.getsize("run.csv") < 60:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(number)
        told = process.communicate(timeout=60)[1]
        assert "stopped by a signal" in told and "continue with --resume run.ck" in told, told
        assert os.path.getsize("run.ck") > 0
        dead = subprocess.Popen(["true"])
        dead.wait()
        pathlib.Path(f"run.ck.{dead.pid}-0.part").write_text("half")
        pathlib.Path(f"run.ck.{os.getpid()}-0.part").write_text("somebody else's")
        step = int(told.split("after step ")[1].split()[0])
        resumed = [word if word != 100000 else step + 1 for word in words]
        tenure("train", *resumed, "--resume", "run.ck")
        assert parts() == [f"run.ck.{os.getpid()}-0.part"], parts()
        for name in ("run.ck", "run.csv", *parts()):
            os.remove(name)


def controls():
    """No character of a name controls the terminal or reorders its text, whatever prints it."""
    name = "a\033[31m\r\x07\x9b\u202eb\u2066\U000e0041"
    table = f"{name}.csv"
    pathlib.Path(table).write_text(f"id,lower,upper,size\n{name},0,3,600\nb,1,4,500\n")
    plan = f"{name}.plan.json"
    told = [tenure("plan", table, "-o", plan), tenure("plan", table, "--explain"), tenure("plan", table, "--holders"),
            tenure("diff", plan, plan), tenure("verify", table, "--plan", plan), tenure("plan", f"{name}.none", status=2),
            tenure("plan", table, "--capacity", 1000, "--progress", "lines", status=1)]
    for text in told:
        assert not [c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")], repr(text)
    assert "\\x1b" in told[3], told[3]
    assert "\\u202e" in told[3] and "\\u2066\\udb40\\udc41" in told[3], told[3]
    for bare in (b"x\x9b31m", b"\xe2\x82\xac\x9b", b"\xc3\x9b\x9b", b"\xf0\x9f\x99\x82", b"\xc2\x9b", b"\xe2\x80\x9b\xe2\x80", b"\xf0\x9f\x9b"):
        text = subprocess.run([TENURE, "plan", bare], capture_output=True).stderr.decode()
        assert not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf")], text
        assert "\\x" in text or "\\u009b" in text or "🙂" in text, text
    main, other = pty.openpty()
    done = subprocess.run([TENURE, "plan", table, "-o", "-.csv"], stdout=other, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "is a terminal" in done.stderr, done
    tenure("plan", table, "-o", "p.svg", "-o", "p.json", "-o", "p.html", "-o", "p.h")
    for file in ("p.svg", "p.json", "p.html", "p.h"):
        text = pathlib.Path(file).read_text()
        assert not [c for c in text if c not in "\n\t" and (c < " " or "\x7f" <= c <= "\x9f")], file
    assert json.dumps(name)[1:-1] in json.dumps(json.loads(pathlib.Path("p.json").read_text()))
    for words in (["plan", table, "--json"], ["diff", plan, plan, "--json"], ["verify", table, "--plan", plan, "--json"]):
        json.loads(tenure(*words))


def safetensors(path, pieces, size):
    with open(path, "wb") as file:
        file.write(bytes(8))
        for piece in pieces:
            file.write(piece.encode())
        header = file.tell() - 8
        file.write(bytes(size))
        file.seek(0)
        file.write(struct.pack("<Q", header))


def most(*words, status, stdin=subprocess.DEVNULL):
    """MiB that the command took, or this process before it, which therefore stays small (OWN)."""
    begun = subprocess.Popen([TENURE, *map(str, words)], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told = begun.stdout.read()
    _, code, usage = os.wait4(begun.pid, 0)
    assert os.waitstatus_to_exitcode(code) == status, (words, told)
    return usage.ru_maxrss / 1024, told


def bombs():
    os.mkdir("bomb")
    with gzip.open("bomb/train-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, 1 << 20, 28, 28))
        for _ in range(700):
            file.write(bytes(1 << 20))
    size = os.path.getsize("bomb/train-images-idx3-ubyte.gz")
    taken, told = most("train", "lm.onnx", "--data", "fashion-mnist:bomb", "--batch", 4, "--steps", 1, status=2)
    assert size < 1 << 20 and taken < 300 and "unpack it" in told, (taken, told)
    with gzip.open("bomb/snapshot.pickle", "wb", 6) as file:
        for _ in range(300):
            file.write(bytes(1 << 20))
    size = os.path.getsize("bomb/snapshot.pickle")
    taken, told = most("report", "bomb/snapshot.pickle", status=2)
    assert taken < 100 * size / 1048576 + 64 + OWN and "gunzip" in told, (taken, told)
    count = 100000
    tensor = '{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    safetensors("many.safetensors", ("{,"[i > 0] + f'"t{i}":' + tensor % (4 * i, 4 * i + 4) + "}"[i < count - 1:] for i in range(count)), 4 * count)
    taken, told = most("estimate", "many.safetensors", status=0)
    assert taken < OWN + 4 * os.path.getsize("many.safetensors") / 1048576, (taken, told)
    safetensors("metadata.safetensors", ['{"__metadata__":{"":""', *(f',"{i}":""' for i in range(600000)), "}}"], 0)
    taken, told = most("estimate", "metadata.safetensors", status=0)
    assert taken < OWN + 10, (taken, told)
    safetensors("shape.safetensors", ['{"a":{"dtype":"F32","shape":[', *("1," * 1000 for _ in range(3000)), '1],"data_offsets":[0,4]}}'], 4)
    taken, told = most("estimate", "shape.safetensors", status=2)
    assert taken < OWN + 10 and "64 KiB" in told, (taken, told)
    for text, name in (("{},", "objects"), ("[],", "arrays"), ('{"":[]},', "both")):
        pathlib.Path(f"{name}.json").write_text('{"buffers":[' + text * (3000000 // len(text)) + "0]}")
        taken, told = most("plan", f"{name}.json", status=2)
        assert taken < 32 * 3 + 16 + 60, (name, taken, told)
    os.symlink("/dev/zero", "endless")
    taken, told = most("plan", "endless", status=2)
    assert taken < OWN + 4 and "zero byte" in told, (taken, told)
    model = f"{MODELS}/five_operators.onnx"
    for words in ("estimate endless", "run endless", "report endless", "replay endless", f"run {model} --input A=endless",
                  "train lm.onnx --data text:endless", "estimate endless.gguf", "plan endless.onnx", "plan -"):
        suffix = words.split(".")[-1]
        if suffix in ("gguf", "onnx"):
            os.symlink("/dev/zero", f"endless.{suffix}")
        with open("/dev/zero", "rb") as zero:
            taken, told = most(*words.split(), status=2, stdin=zero)
        assert taken < OWN + 20 and ("--read-limit" in told or "zero byte" in told), (words, taken, told)
    assert "more than 3.0 MiB" in tenure("report", "endless", "--read-limit", "3MiB", status=2)
    wide()


def wide():
    """Planning is bounded by the graph, even where all operators are independent of each other."""
    count = 60000
    nodes = b"".join(models.block(1, models.node("Relu", "x", f"a{i}")) for i in range(count))
    outputs = b"".join(models.block(12, models.value(f"a{i}", [16])) for i in range(count))
    graph = nodes + models.block(2, "g") + models.block(11, models.value("x", [16])) + outputs
    pathlib.Path("wide.onnx").write_bytes(models.number(1, 8) + models.block(7, graph) + models.block(8, models.number(2, 13)))
    taken, told = most("plan", "wide.onnx", "-o", "wide.json", status=0)
    assert taken < 64 + 5 * count / 1024, (taken, told)
    assert '"dependencies_added":null' in pathlib.Path("wide.json").read_text()


def devices():
    """What gives nothing is left after 5 s, or at once where only a file can be."""
    os.mkfifo("data/train-labels-idx1-ubyte.gz")
    os.remove("data/train-images-idx3-ubyte.gz")
    os.mkfifo("data/train-images-idx3-ubyte.gz")
    assert "not a regular file" in tenure("train", "lm.onnx", "--data", "fashion-mnist:data", "--batch", 1, "--steps", 1, status=2)
    _, other = pty.openpty()
    words = [["plan", os.ttyname(other)]]
    if os.access("/proc/kmsg", os.R_OK):
        words.append(["plan", "/proc/kmsg"])
    for each in words:
        begun = time.monotonic()
        told = tenure(*each, status=2)
        assert time.monotonic() - begun < 60, told


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run([sys.executable, f"{SOURCE}/tests/cli/train_models.py", "."], check=True)
    chosen = sys.argv[4:] or ["links", "outputs", "signals", "training", "controls", "bombs", "devices"]
    failed = 0
    for check in chosen:
        try:
            globals()[check]()
            print(check, "hold", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError) as why:
            failed += 1
            print("FAILED:", check, repr(why)[:1500], "line", why.__traceback__.tb_next.tb_lineno, flush=True)
    os.chdir("/")
    sys.exit(failed != 0)
