#!/usr/bin/env python3
"""Files that change, end or vanish while they are used, and disks that are full: files_change.py TENURE

Weights that come from their file are changed under a run that reads them over and over: status 2 with path and byte, nothing written.
One that is replaced by renaming, or unlinked, does no harm: the same outputs. Where contents are mapped, a file that ends is told, too:
no run dies by a signal. A disk without room is told before anything is written.
"""
import array
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TENURE = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import train_models as onnx  # noqa: E402

WIDTH, LAYERS = 128, 8
LAYER = WIDTH * WIDTH * 4
STREAM = ["--plain", "--budget", str(3 * LAYER), "--allow", "stream", "--storage", "20MB/s", "--costs", "model:a100-40"]


def kept_apart(name, width, file, at):
    size = width * width * 4
    entries = {"location": file, "offset": at * size, "length": size}
    told = b"".join(onnx.block(13, onnx.block(1, key) + onnx.block(2, str(entry))) for key, entry in entries.items())
    return onnx.number(1, width) * 2 + onnx.number(2, onnx.FLOAT) + onnx.block(8, name) + told + onnx.number(14, 1)


def network(path, file, width, layers):
    nodes = [onnx.node("MatMul", f"x{i},w{i}", f"x{i + 1}") for i in range(layers)]
    onnx.model(path, nodes, [onnx.value("x0", [2, width])], [onnx.value(f"x{layers}", [2, width])],
               [kept_apart(f"w{i}", width, file, i) for i in range(layers)])


def started(words, file):
    """The run, once it has the file open."""
    run = subprocess.Popen([TENURE, "run", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = False
    while not seen and run.poll() is None:
        with open(f"/proc/{run.pid}/maps") as maps:
            seen = file in maps.read()
        for link in os.listdir(f"/proc/{run.pid}/fd") if run.poll() is None else []:
            try:
                seen = seen or os.readlink(f"/proc/{run.pid}/fd/{link}").endswith(file)
            except OSError:
                pass
    return run


def rewrite():
    with open("net.data", "r+b") as file:
        file.seek(5 * LAYER)
        file.write(b"\1" * 100)


def append():
    with open("net.data", "ab") as file:
        file.write(b"\1")


def rename():
    with open("other", "wb") as file:
        file.write(b"\1" * 100)
    os.rename("other", "net.data")


def outputs(told):
    return [output["xxh3"] for output in json.loads(told)["outputs"]]


def check_streams():
    values = random.Random(17)
    with open("kept.data", "wb") as file:
        file.write(array.array("f", [values.uniform(-0.1, 0.1) for _ in range(LAYERS * LAYER // 4)]).tobytes())
    network("net.onnx", "net.data", WIDTH, LAYERS)
    shutil.copy("kept.data", "net.data")
    whole = subprocess.run([TENURE, "run", "net.onnx", "--plain", "--json"], capture_output=True, text=True, check=True)
    forever = ["net.onnx", *STREAM, "--json", "--output-dir", "out", "--repeat", "100000"]
    for change in (lambda: os.truncate("net.data", 6 * LAYER + 5), lambda: os.truncate("net.data", 0), rewrite, append,
                   lambda: os.utime("net.data", (1, 1))):
        shutil.copy("kept.data", "net.data")
        run = started(forever, "net.data")
        time.sleep(0.1)
        change()
        _, errors = run.communicate(timeout=1200)
        assert run.returncode == 2 and "net.data: byte " in errors and "the file was changed while" in errors, errors
        assert not os.path.exists("out"), "half of the outputs"
    for change in (rename, lambda: os.unlink("net.data")):
        shutil.copy("kept.data", "net.data")
        run = started(["net.onnx", *STREAM, "--json", "--repeat", "12"], "net.data")
        time.sleep(0.1)
        change()
        told, errors = run.communicate(timeout=1200)
        assert run.returncode == 0 and outputs(told) == outputs(whole.stdout) and json.loads(told)["streamed"], errors


def check_mapped():
    """As soon as the file is mapped it ends; who has read it by then is done."""
    width, layers, told = 1024, 16, False
    network("large.onnx", "large.data", width, layers)
    for _ in range(60):
        with open("large.data", "wb") as file:
            file.truncate(layers * width * width * 4)
        run = started(["large.onnx", "--plain", "--json"], "large.data")
        os.truncate("large.data", 5)
        _, errors = run.communicate(timeout=1200)
        assert run.returncode in (0, 2), (run.returncode, errors)
        told = told or "was truncated" in errors
        if told:
            return
    sys.exit("FAILED: no run met the end of its file")


def no_room():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def check_full():
    shutil.copy("kept.data", "net.data")
    os.mkdir("forms")
    forms = [word for word in STREAM if word != "--plain"]
    for words in (["run", "net.onnx", "--weights", "random:1", *forms, "--forms", "forms"], ["embed", "create", "new.rows", "--rows", "100"]):
        done = subprocess.run([TENURE, *words], capture_output=True, text=True, timeout=1200, preexec_fn=no_room)
        assert done.returncode == 2 and ("File too large" in done.stderr), done
    assert os.listdir("forms") == [] and not os.path.exists("new.rows")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    check_streams()
    check_mapped()
    check_full()
