#!/usr/bin/env python3
"""What a fitted program swaps out may lie on another device: swap_device.py TENURE STANDIN

A training and an inference run plain, then within a budget that only swaps keep, on the host, in a file, on OpenCL's device and on CUDA's by the stand-in
(or by the runtime of NVIDIA's that is named instead of it): losses, checkpoint and outputs are the same bytes, copies do go there, and a device that fails ends the run. Of a file
nothing is left, however the run ends.
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

TENURE, STANDIN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import train_models  # noqa: E402

CUDA = {"TENURE_CUDART": STANDIN}
DEVICES = {"host": {}, "file": {}, "opencl": {}, "cuda": CUDA}


def run(words, statuses=(0,), settings=None, before=None):
    done = subprocess.run([TENURE, *words], capture_output=True, text=True, timeout=1200, env={**os.environ, **(settings or {})}, preexec_fn=before)
    assert done.returncode in statuses, (words, done)
    return done


def those_here():
    links = {line.split()[0]: line for line in run(["list", "links"], settings=CUDA).stdout.splitlines()}
    for device, line in links.items():
        if "B/s" not in line:
            print(f"SKIP: {device}: {line.split('not here: ')[-1]}")
    return [device for device in DEVICES if "B/s" in links[device]]


def fitted(words, fixed, arena, settings=None, statuses=(0,)):
    """What is told of the run with the least of some budgets that swaps alone keep to."""
    words = [*words, "--costs", "costs", "--link", "2GB/s", "--pass", "capuchin", "--allow", "swap", "--json"]
    for share in 0.7, 0.8, 0.9, 0.95:
        done = run([*words, "--budget", str(fixed + int(arena * share))], (*statuses, 1), settings)
        done.budget = fixed + int(arena * share)
        if done.returncode != 1:
            return done
    sys.exit(f"FAILED: no budget that swaps keep to: {words}")


def plain_need(words):
    answer = json.loads(run(["fit", *words, "--budget", "1TiB", "--json", "--save-costs", "costs"]).stdout)["answers"][0]
    return answer["fixed_bytes"], answer["arena"]


def check_training(devices):
    model = ["drop.onnx", "--batch", "8"]
    need = plain_need([*model, "--train"])
    words = ["train", *model, "--data", "x.npy,y.npy", "--steps", "12", "--weights", "random:1"]
    kept = ["--log", "kept.csv", "--checkpoint", "kept.ck"]
    run([*words, "--log", "plain.csv", "--checkpoint", "plain.ck"])
    plain = [pathlib.Path("plain" + end).read_bytes() for end in (".csv", ".ck")]
    for device in devices:
        there = [*words, *kept, "--swap-device", device]
        told = json.loads(fitted(there, *need, settings=DEVICES[device]).stdout)
        assert "fitted" in told, told  # by swaps: nothing else is allowed
        assert [pathlib.Path("kept" + end).read_bytes() for end in (".csv", ".ck")] == plain, device
    if "standin" in os.path.basename(STANDIN):  # a runtime of NVIDIA's does not fail when it is asked to
        broken = fitted([*words, "--swap-device", "cuda"], *need, {**CUDA, "STANDIN_FAIL": "cudaMemcpyAsync:5:719"}, (2,))
        assert broken.returncode == 2 and "the CUDA device failed: a copy" in broken.stderr, broken
    missing = fitted([*words, "--swap-device", "opencl"], *need, {"TENURE_OPENCL": "nowhere.so"}, (2,))
    assert missing.returncode == 2 and "TENURE_OPENCL cannot be loaded" in missing.stderr, missing


def no_room():
    """As on a full disk: no file may have a byte."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def check_file():
    """In a folder that is named: there while it runs, gone when it was ended; a full disk and a missing folder are told."""
    away = pathlib.Path("away").absolute()
    away.mkdir()
    model = ["drop.onnx", "--batch", "8"]
    need = plain_need([*model, "--train"])
    there = ["--swap-device", f"file:{away}"]
    words = ["train", *model, "--data", "x.npy,y.npy", "--weights", "random:1", *there]
    kept = fitted([*words, "--steps", "12", "--log", "kept.csv"], *need)
    done = json.loads(kept.stdout)
    assert pathlib.Path("kept.csv").read_bytes() == pathlib.Path("plain.csv").read_bytes()
    assert "fitted" in done and list(away.iterdir()) == [], done
    budget = ["--costs", "costs", "--link", "2GB/s", "--pass", "capuchin", "--allow", "swap", "--budget", str(kept.budget)]
    full = run([*words, *budget, "--steps", "12"], (2,), before=no_room)
    assert str(away) in full.stderr and "take room for a file" in full.stderr, full
    started = subprocess.Popen([TENURE, *words, *budget, "--steps", "1000000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder, seen = pathlib.Path(f"/proc/{started.pid}/fd"), False
    while not seen and started.poll() is None:
        seen = any(os.readlink(link).startswith(str(away)) for link in folder.iterdir() if link.exists() or link.is_symlink())
        time.sleep(0.01)
    started.kill()
    started.wait()
    assert seen and list(away.iterdir()) == [], (seen, started.returncode)
    missing = run([*words[:-1], "file:/nowhere/at/all", *budget, "--steps", "1"], (2,))
    assert "/nowhere/at/all" in missing.stderr, missing
    measured = run(["run", "skip.onnx", "--budget", "1GiB", *there])  # no --link: copies to a file of that folder tell it
    assert measured.returncode == 0 and list(away.iterdir()) == []


def check_inference(devices):
    """x -> a, which is needed again behind what is wide."""
    train_models.model("skip.onnx", [
        train_models.node("Sigmoid", "x", "a"), train_models.node("Concat", "a,a", "b", axis=1),
        train_models.node("MatMul", "b,w", "c"), train_models.node("MatMul", "c,v", "d"),
        train_models.node("Add", "d,a", "y")],
        [train_models.value("x", [64, 64])], [train_models.value("y", [64, 64])],
        [train_models.weights("w", 128, 128), train_models.weights("v", 128, 64)])
    need = plain_need(["skip.onnx"])
    words = ["run", "skip.onnx"]
    plain = json.loads(run([*words, "--json"]).stdout)
    for device in devices:
        done = fitted([*words, "--swap-device", device], *need, DEVICES[device])
        told = json.loads(done.stdout)
        assert "fitted" in told and told["outputs"] == plain["outputs"], (device, told, plain)


def check_what_is_refused():
    words = ["run", "skip.onnx", "--budget", "1GiB"]
    for extra, message in ((["--swap-device", "opncl"], "did you mean"),
                           (["--swap-device", "cuda", "--allow", "recompute"], "--swap-device needs --allow swap")):
        done = run([*words, *extra], (2,))
        assert message in done.stderr, done
    nowhere = {"TENURE_CUDART": "nowhere.so"}  # nothing is swapped, and its speed is said: nobody asks for it
    run([*words, "--swap-device", "cuda", "--link", "1GB/s"], settings=nowhere)
    assert "cannot be loaded" in run([*words, "--swap-device", "cuda"], (2,), nowhere).stderr


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run([sys.executable, f"{HERE}/train_models.py", "."], check=True)
    here = those_here()
    assert {"host", "file", "cuda"} <= set(here)
    check_training(here)
    check_inference(here)
    check_file()
    check_what_is_refused()
