"""Snapshots of which the right answer is known without the reader: made by hand, some compressed.

    cases.py TENURE CORPUS FOLDER

TENURE is the command; CORPUS is fuzz/corpus/snapshot, FOLDER is for files. What the files hold is read by Python's own
pickle; what `tenure report --json` says of them must follow from it. CPython compresses random snapshots with gzip at
all levels, in one member and in several; damaged files must be refused with status 2.
Exit status: 0 all right, 1 not.
"""
import gzip
import json
import os
import pickle
import random
import subprocess
import sys

TENURE, CORPUS, FOLDER = sys.argv[1:4]
wrong = []


def report(path):
    done = subprocess.run([TENURE, "report", path, "--json"], capture_output=True, text=True, check=False)
    return (json.loads(done.stdout) if done.returncode == 0 else None), done


def expect(name, got, wanted):
    if got != wanted:
        wrong.append("%s: %r, not %r" % (name, got, wanted))


def check_waiting():
    path = os.path.join(CORPUS, "awaiting_free.pickle")
    with open(path, "rb") as file:
        blocks = [b for s in pickle.load(file)["segments"] for b in s["blocks"]]
    device = report(path)[0]["devices"][0]
    sums = {state: sum(b["requested_size"] for b in blocks if b["state"] == state)
            for state in ("active_allocated", "active_awaiting_free")}
    expect("held", device["requested"], sums["active_allocated"])
    expect("waiting", device["waiting_bytes"], sums["active_awaiting_free"])
    expect("freed by", [(w["freed_by"], w["bytes"]) for w in device["waiting"]], [("t.py:2 f", 62914560)])
    now = device["moments"][-1]
    expect("category", now["category"][0]["name"], "freed, waiting for another stream")
    expect("history", device["history"], True)


def check_waiting_streams():
    """Two streams free blocks that others use; the ring begins before, between, or after."""
    mebi, begin = 1 << 20, 0x7f0000000000

    def event(action, place, size, stream, line, time):
        return {"action": action, "addr": begin + place * 0x10000000, "size": size * mebi, "stream": stream,
                "time_us": time, "frames": [{"filename": "t.py", "line": line, "name": "f"}]}

    def segment(place, size, stream, state, line):
        block = {"address": begin + place * 0x10000000, "size": size * mebi, "state": state,
                 "requested_size": 0 if state == "inactive" else size * mebi,
                 "frames": [{"filename": "t.py", "line": line, "name": "f"}]}
        return {"address": block["address"], "total_size": size * mebi, "stream": stream, "device": 0,
                "segment_type": "large", "is_expandable": False, "segment_pool_id": (0, 0), "frames": [],
                "allocated_size": size * mebi if state == "active_allocated" else 0,
                "active_size": block["requested_size"], "requested_size": block["requested_size"], "blocks": [block]}
    ring = [event("segment_alloc", 0, 40, 1, 1, 1), event("alloc", 0, 40, 1, 1, 2),
            event("free_requested", 0, 40, 1, 12, 3), event("segment_alloc", 1, 20, 2, 2, 4),
            event("alloc", 1, 20, 2, 2, 5), event("free_completed", 0, 40, 1, 12, 6),
            event("free_requested", 1, 20, 2, 13, 7), event("segment_alloc", 2, 60, 0, 3, 8),
            event("alloc", 2, 60, 0, 3, 9)]
    segments = [segment(0, 40, 1, "inactive", 0), segment(1, 20, 2, "active_awaiting_free", 2),
                segment(2, 60, 0, "active_allocated", 3)]
    for first, by in ((0, "t.py:13 f"), (2, "t.py:13 f"), (5, "t.py:13 f"), (6, "t.py:13 f"), (7, "(no stack)")):
        path = os.path.join(FOLDER, "streams.pickle")
        with open(path, "wb") as file:
            pickle.dump({"segments": segments, "device_traces": [ring[first:]]}, file)
        device = report(path)[0]["devices"][0]
        expect("ring from %d" % first, [(w["freed_by"], w["bytes"]) for w in device["waiting"]], [(by, 20 * mebi)])
        expect("held, ring from %d" % first, device["requested"], 60 * mebi)
        expect("peak, ring from %d" % first, device["requested_peak"], 80 * mebi)
        expect("ring and blocks", [device["wrong_" + w] for w in ("requests", "blocks", "segments")], [0, 0, 0])


def check_no_history():
    path = os.path.join(CORPUS, "no_history.pickle")
    with open(path, "rb") as file:
        segments = pickle.load(file)["segments"]
    device = report(path)[0]["devices"][0]
    expect("no history", (device["history"], device["requested_peak"], device["pools"]), (False, None, []))
    expect("moments", [m["name"] for m in device["moments"]], ["now"])
    free = sum(b["size"] for s in segments for b in s["blocks"] if b["state"] == "inactive")
    expect("causes", device["hole_causes"], {"hard": free, "soft": 0, "stream": 0})
    text = subprocess.run([TENURE, "report", path], capture_output=True, text=True, check=True).stdout
    for word in ("_record_memory_history", "no history"):
        if word not in text:
            wrong.append("no history: the text lacks %s" % word)
    for word in ("at the peak", "same requests in other pools"):
        if word in text:
            wrong.append("no history: the text has '%s'" % word)


def check_causes():
    """Free bytes between live blocks, whole segments on a stream that is used, and on one that is not."""
    def segment(address, stream, blocks):
        at, made = address, []
        for size, live in blocks:
            made.append({"address": at, "size": size, "requested_size": size if live else 0,
                         "state": "active_allocated" if live else "inactive", "frames": []})
            at += size
        live = sum(s for s, l in blocks if l)
        return {"device": 0, "address": address, "total_size": at - address, "allocated_size": live,
                "active_size": live, "requested_size": live, "stream": stream, "segment_type": "large",
                "is_expandable": False, "frames": [], "blocks": made}
    whole = {"segments": [segment(1 << 32, 0, [(512, True), (1024, False), (512, True)]),
                          segment(2 << 32, 0, [(4096, False)]), segment(3 << 32, 7, [(8192, False)])],
             "device_traces": [[]]}
    path = os.path.join(FOLDER, "causes.pickle")
    with open(path, "wb") as file:
        pickle.dump(whole, file, protocol=4)
    expect("three causes", report(path)[0]["devices"][0]["hole_causes"], {"hard": 1024, "soft": 4096, "stream": 8192})


def check_state_context():
    """With context="state" the requests have no stacks, the blocks that live at the end have."""
    frames = [{"filename": "m.py", "line": 9, "name": "g"}]
    whole = {"segments": [{"device": 0, "address": 4096, "total_size": 1024, "allocated_size": 512, "active_size": 512,
                           "requested_size": 512, "stream": 0, "segment_type": "small", "is_expandable": False,
                           "frames": [], "blocks": [
                               {"address": 4096, "size": 512, "requested_size": 512, "state": "active_allocated",
                                "frames": frames},
                               {"address": 4608, "size": 512, "requested_size": 0, "state": "inactive",
                                "frames": []}]}],
             "device_traces": [[{"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1,
                                 "frames": []}]]}
    path = os.path.join(FOLDER, "state.pickle")
    with open(path, "wb") as file:
        pickle.dump(whole, file, protocol=4)
    now = report(path)[0]["devices"][0]["moments"][-1]
    expect("context state", now["line"][0]["name"], "m.py:9 g")


def check_hostile_name():
    """A name with a line end and an escape stays in its row, also with two devices and in the brief lines."""
    name = "a\n\tb\x1b[31m.py"
    whole = {"segments": [{"device": device, "address": 4096, "total_size": 512, "allocated_size": 512, "active_size": 512,
                           "requested_size": 500, "stream": 0, "segment_type": "small", "is_expandable": False,
                           "frames": [], "blocks": [
                               {"address": 4096, "size": 512, "requested_size": 500, "state": "active_allocated",
                                "frames": [{"filename": name, "line": 9, "name": "g"}]}]} for device in (0, 1)],
             "device_traces": [[], []]}
    path = os.path.join(FOLDER, "hostile.pickle")
    with open(path, "wb") as file:
        pickle.dump(whole, file, protocol=4)
    shown = "a\\x0a\\x09b\\x1b[31m.py:9 g"
    for device in report(path)[0]["devices"]:
        expect("hostile name", device["moments"][0]["line"], [{"bytes": 500, "share": 1, "blocks": 1, "name": name + ":9 g"}])
    for words, start in (([], "  500 bytes  100.0 %       1  "), (["--brief"], "device ")):
        text = subprocess.run([TENURE, "report", path, *words], capture_output=True, text=True, check=True).stdout
        rows = [line for line in text.splitlines() if shown in line and line.startswith(start)]
        expect("rows with a hostile name %s" % words, len(rows), 2)
        if words:
            expect("brief lines", len(text.splitlines()), 2)


def check_gzip():
    with open(os.path.join(CORPUS, "awaiting_free.pickle"), "rb") as file:
        plain = file.read()
    wanted = report(os.path.join(CORPUS, "awaiting_free.pickle"))[0]["devices"]
    draw = random.Random(11)
    for level in range(10):
        cut = draw.randrange(len(plain))
        for packed in (gzip.compress(plain, level),
                       gzip.compress(plain[:cut], level) + gzip.compress(plain[cut:], 9 - level)):
            path = os.path.join(FOLDER, "packed.gz")
            with open(path, "wb") as file:
                file.write(packed)
            answer, done = report(path)
            expect("gzip level %d" % level, answer and answer["devices"], wanted)
    # names and padding in files that the gzip program writes
    path = os.path.join(FOLDER, "named.pickle")
    with open(path, "wb") as file:
        file.write(plain)
    subprocess.run(["gzip", "-kf", path], check=True)
    expect("gzip program", report(path + ".gz")[0]["devices"], wanted)
    packed = bytearray(gzip.compress(plain, 6))
    for _ in range(300):
        bad = bytearray(packed)
        if draw.random() < 0.3:
            del bad[draw.randrange(1, len(bad)):]
        else:
            bad[draw.randrange(10, len(bad))] ^= 1 << draw.randrange(8)
        with open(os.path.join(FOLDER, "bad.gz"), "wb") as file:
            file.write(bad)
        answer, done = report(os.path.join(FOLDER, "bad.gz"))
        if done.returncode != 2:  # the check sum finds every flipped bit
            wrong.append("a damaged gzip file: status %d" % done.returncode)


def check_names():
    for begin, word in ((b"SQLite format 3\0" + bytes(100), "SQLite"), (b"\x28\xb5\x2f\xfd" + bytes(40), "zstd")):
        path = os.path.join(FOLDER, "other.pickle")
        with open(path, "wb") as file:
            file.write(begin)
        done = report(path)[1]
        if done.returncode != 2 or word not in done.stderr:
            wrong.append("%s is not named: %s" % (word, done.stderr))


os.makedirs(FOLDER, exist_ok=True)
for check in (check_waiting, check_waiting_streams, check_no_history, check_causes, check_state_context,
              check_hostile_name, check_gzip, check_names):
    check()
for line in wrong:
    print("WRONG:", line)
print("%d wrong" % len(wrong))
sys.exit(1 if wrong else 0)
