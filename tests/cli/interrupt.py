#!/usr/bin/env python3
"""Ctrl-C in each phase of `tenure fit`, and while operators are split: the best so far, or a word that there is none. interrupt.py TENURE MODELS

The signal comes once the command has said by its progress lines where it is: each stage has a line when it begins. How far a search gets
after that depends on the machine, so no verdict does. Before it works, while it reads, Ctrl-C ends it as any command; while it measures and searches: status 3, or an answer; what is printed is whole; files
are whole, or not there. While it writes, Ctrl-C lets it end that, and Ctrl-C again ends it at once.
"""
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from count import case_count  # noqa: E402

TENURE, MODELS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
UNET = ["fit", f"{MODELS}/unet64.onnx", "--train", "--costs", "model:v100-16", "--progress=lines"]
SINK = os.path.join("out", "plan.json")  # of a folder of its own, so that nothing else is looked at


def start(words, **streams):
    """As from a terminal: SIGINT is not ignored, as it is of what a script runs beside itself."""
    return subprocess.Popen([TENURE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **streams)


def says(process, stages):
    """Until a progress line of one of the stages; what was said so far."""
    said = ""
    for line in process.stderr:
        said += line
        if any(line.startswith(f"tenure: {stage}: ") for stage in stages):
            return said
    raise AssertionError(f"it ended before it said {stages}: {said}")


def ends(process, said=""):
    """Two signals at once are one wish, as timeout(1) sends them: to the process and to its group."""
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    out, told = process.communicate(timeout=1200)
    return process.returncode, out, said + told


def whole_files():
    for name in os.listdir("out"):
        with open(os.path.join("out", name), encoding="utf-8") as file:
            json.load(file)
        os.remove(os.path.join("out", name))


def reading():
    for words, part in ((["fit", "-", "--train", "--budget", "1GB"], "part of a model"),
                        (["plan", "-"], "id,lower,upper,size\na,0,1,64\nb,")):
        process = start([*words, "-o", SINK], stdin=subprocess.PIPE)
        process.stdin.write(part)
        process.stdin.flush()
        time.sleep(0.5)  # it waits for the rest by then, or has not begun: both end at once
        status, out, told = ends(process)
        assert status == -signal.SIGINT and out == "", (words, status, out, told)


def measuring():
    process = start(["fit", f"{MODELS}/mobilenet_v2.onnx", "--train", "--batch", "16", "--budget", "300MB", "--progress=lines",
                     "--save-costs", SINK])
    status, out, told = ends(process, says(process, ["measure"]))
    assert status == 3 and out == "" and "interrupted before any result was found" in told, (status, out, told)
    assert os.listdir("out") == [], "costs of half a measurement were kept"


def least():
    """A budget that only the end of the search for the least meets, if anything does, and whenever it comes."""
    ended = 0
    for delay in (0, 1, 0.1, 0.3, 0.6)[:case_count(5, 2)]:  # how far the search is by then depends on the machine
        process = start([*UNET, "--budget", "450MB", "--json", "-o", SINK])
        said = says(process, ["fit"] if delay else ["plan"])  # the first plan, or the search
        time.sleep(delay)
        status, out, told = ends(process, said)
        assert status in (1, 3, -signal.SIGINT), (status, out, told)
        assert out == "" or json.loads(out)["exit_status"] == status, (status, out, told)
        assert out == "" or status != 3 or json.loads(out)["message"].startswith("interrupted"), out
        assert "interrupted before any result was found" in told or status != 3, told
        assert os.listdir("out") == [], "something was written"
        ended += status == 3
    print("  %d searches ended before any result" % ended)


def curve():
    """Budgets are between the least found and the unchanged plan; ended before anything less was found, they are one, or none."""
    ended = 0
    for delay in (0, 2, 1, 0.5)[:case_count(4, 2)]:
        process = start([*UNET, "--sweep", "200", "--json", "-o", SINK])
        said = says(process, ["fit"])
        time.sleep(delay)
        status, out, told = ends(process, said)
        assert status in (0, 3), (status, told)
        result = json.loads(out)
        ended += "answers" not in result
        if "answers" not in result:
            assert status == 3 and result["message"].startswith("interrupted before any result was found"), result
            assert os.listdir("out") == [], "something was written"
            continue
        times = [answer["time"] for answer in result["answers"]]
        budgets = [answer["budget"] for answer in result["answers"]]
        assert 0 < len(budgets) <= 200 and budgets == sorted(set(budgets)), budgets
        assert times == sorted(times, reverse=True), times
        assert all(answer["bytes"] <= answer["budget"] for answer in result["answers"]), result
        assert status == 0 or any(answer["stopped"] for answer in result["answers"]), "nobody says that it was stopped early"
        assert os.listdir("out") != [], "nothing was written"
        whole_files()
    print("  %d searches ended before any result" % ended)


def writing():
    """Into a pipe that is full: Ctrl-C again ends it."""
    os.mkfifo("plan.json")
    pipe = os.open("plan.json", os.O_RDONLY | os.O_NONBLOCK)
    process = start([*UNET, "--budget", "1TB", "-o", "plan.json"])
    readable, _, _ = select.select([pipe], [], [], 120)
    assert readable, "nothing was written"
    process.send_signal(signal.SIGINT)
    assert any("press Ctrl-C again to quit at once" in line for line in process.stderr)
    time.sleep(0.3)  # from a quarter of a second on it is another wish
    status, out, told = ends(process)
    assert status == -signal.SIGINT, (status, out, told)
    os.close(pipe)


def splitting():
    """A curve, and a model in parts, whenever it comes: all of an answer with its file, or neither."""
    ended = 0
    for words in (["plan", f"{MODELS}/unet64.onnx", "--split", "--sweep", "40", "-o", SINK],
                  ["split", f"{MODELS}/wake_words.tflite", "--extra-work", "30%", "--json", "-o", "out/small.tflite"]):
        for delay in (0.01, 0.4, 0.1, 1)[:case_count(4, 2)]:
            process = start(words)
            time.sleep(delay)
            status, out, told = ends(process)
            files = os.listdir("out")
            assert status in (0, 3, -signal.SIGINT), (status, out, told)
            assert files in ([], [os.path.basename(words[-1])]), files
            answered = out != "" and '"format":"tenure-error"' not in out
            assert (files != []) == answered and (status != 0 or files), (status, files, out, told)
            ended += status != 0
            for name in files:
                os.remove(os.path.join("out", name))
    print("  %d searches ended before any result" % ended)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.mkdir("out")
    for phase in (reading, measuring, least, curve, writing, splitting):
        phase()
        whole_files()
        print(phase.__name__, "ends", flush=True)
    os.chdir("/")
