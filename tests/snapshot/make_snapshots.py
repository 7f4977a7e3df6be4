#!/usr/bin/env python3
"""Memory snapshots of runs that never were, with the truth about them.

    make_snapshots.py OUT.pickle [--seed N] [--bytes N] [--protocol 2..5] [--devices N] [--ring N]
                      [--expandable] [--limit BYTES] [--layout dict|list] [--stacks python|mixed|none]

A caching allocator with PyTorch's rules (blocks of 512 bytes, small and large segments, one pool per
stream, best fit) serves training steps of a random network, and writes what
torch.cuda.memory._snapshot() would. It is written from the rules, shares nothing with the library,
and knows at each event who holds what: that is written beside, as OUT.pickle.json. Files of more than 200 MB
repeat the last step byte by byte, as a loop does.
"""
import argparse
import bisect
import io
import json
import pickle
import random

MIB = 1 << 20


class OutOfMemory(Exception):
    pass


class Allocator:
    """One device."""

    def __init__(self, device, rng, expandable, limit):
        self.device, self.rng, self.expandable, self.limit = device, rng, expandable, limit
        self.segments = {}  # address -> dict
        self.free = {}      # (stream, large) -> sorted [(size, address)]
        self.blocks = {}    # address -> [size, state, requested, frames, segment, who]
        self.next = {}      # segment -> [addresses], sorted
        self.events, self.time = [], 1700000000000000
        self.top = 0x7F0000000000 + device * 0x100000000000
        self.reserved = 0
        self.who = {}       # id of an event -> what it is for

    def note(self, action, address, size, stream, frames, **more):
        self.time += self.rng.randrange(1, 40)
        event = {"action": action}
        event["device_free" if action == "oom" else "addr"] = address
        event.update(size=size, stream=stream, time_us=self.time, frames=frames, **more)
        self.events.append(event)

    def put_free(self, address):
        size, _, _, _, segment, _ = self.blocks[address]
        key = (self.segments[segment]["stream"], self.segments[segment]["large"])
        bisect.insort(self.free.setdefault(key, []), (size, address))

    def take_free(self, address):
        size, _, _, _, segment, _ = self.blocks[address]
        key = (self.segments[segment]["stream"], self.segments[segment]["large"])
        self.free[key].remove((size, address))

    def grow(self, size, stream, large, frames):
        """A new segment, or more of one that can grow; False: the device has no more."""
        want = 2 * MIB if not large else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if self.reserved + want > self.limit:
            return False
        self.reserved += want
        if self.expandable:
            mine = [a for a, s in self.segments.items()
                    if (s["stream"], s["large"]) == (stream, large)]
            if mine and all(a + self.segments[a]["total"] <= self.top for a in mine):
                base = max(mine)
                end = base + self.segments[base]["total"]
                if end == self.segments[base]["room"][0] and end + want <= self.segments[base]["room"][1]:
                    self.segments[base]["total"] += want
                    self.segments[base]["room"][0] += want
                    self.note("segment_map", end, want, stream, frames)
                    self.add_block(end, want, base)
                    self.join(end)
                    return True
        room = 1 << 38 if self.expandable else want
        base = self.top + self.rng.randrange(0, 4) * 2 * MIB
        self.top = base + room
        self.segments[base] = {"stream": stream, "large": large, "total": want, "frames": frames,
                               "room": [base + want, base + room]}
        self.next[base] = []
        self.note("segment_map" if self.expandable else "segment_alloc", base, want, stream, frames)
        self.add_block(base, want, base)
        self.put_free(base)
        return True

    def add_block(self, address, size, segment):
        self.blocks[address] = [size, "inactive", 0, [], segment, None]
        bisect.insort(self.next[segment], address)

    def drop_block(self, address):
        self.next[self.blocks[address][4]].remove(address)
        del self.blocks[address]

    def join(self, address):
        """A block that is free now, in no list: joined with its neighbours and listed."""
        around = self.next[self.blocks[address][4]]
        at = bisect.bisect_left(around, address)
        if at + 1 < len(around) and self.blocks[around[at + 1]][1] == "inactive":
            after = around[at + 1]
            self.take_free(after)
            self.blocks[address][0] += self.blocks[after][0]
            self.drop_block(after)
        if at > 0 and self.blocks[around[at - 1]][1] == "inactive":
            before = around[at - 1]
            self.take_free(before)
            self.blocks[before][0] += self.blocks[address][0]
            self.drop_block(address)
            address = before
        self.put_free(address)

    def empty_cache(self):
        for base in list(self.segments):
            segment = self.segments[base]
            if self.next[base] == [base] and self.blocks[base][1] == "inactive":
                self.take_free(base)
                self.drop_block(base)
                self.note("segment_unmap" if self.expandable else "segment_free", base,
                          segment["total"], segment["stream"], [])
                self.reserved -= segment["total"]
                del self.segments[base], self.next[base]

    def find(self, size, stream, large):
        listed = self.free.get((stream, large), [])
        at = bisect.bisect_left(listed, (size, 0))
        return listed[at][1] if at < len(listed) else None

    def alloc(self, requested, stream, frames, who):
        size = max(512, -(-requested // 512) * 512)
        large = size > MIB
        found = self.find(size, stream, large)
        if found is None and not self.grow(size, stream, large, frames):
            self.empty_cache()
            if not self.grow(size, stream, large, frames):
                self.note("oom", self.limit - self.reserved, requested, stream, frames)
                raise OutOfMemory
        if found is None:
            found = self.find(size, stream, large)
        self.take_free(found)
        left = self.blocks[found][0] - size
        if left > MIB if large else left >= 512:
            self.blocks[found][0] = size
            self.add_block(found + size, left, self.blocks[found][4])
            self.put_free(found + size)
        self.blocks[found][1:4] = ["active_allocated", requested, frames]
        self.blocks[found][5] = who
        self.note("alloc", found, requested, stream, frames)
        self.who[id(self.events[-1])] = who
        return found

    def request_free(self, address, frames):
        block = self.blocks[address]
        self.note("free_requested", address, block[2], self.segments[block[4]]["stream"], frames)
        block[1] = "active_awaiting_free"

    def complete_free(self, address, frames):
        block = self.blocks[address]
        self.note("free_completed", address, block[2], self.segments[block[4]]["stream"], frames)
        block[1] = "inactive"
        self.join(address)

    def give(self, address, frames=()):
        self.request_free(address, list(frames))
        self.complete_free(address, list(frames))

    def snapshot(self, layout):
        rows = []
        for base in sorted(self.segments):
            segment = self.segments[base]
            blocks = []
            for address in self.next[base]:
                size, state, requested, frames, _, _ = self.blocks[address]
                block = {"address": address, "size": size, "requested_size": requested,
                         "state": state, "frames": frames}
                if layout == "list":
                    block = {"size": size, "state": state}
                    if state != "inactive":
                        block["history"] = [{"addr": address, "real_size": requested,
                                             "frames": frames}]
                blocks.append(block)
            active = [b for b in (self.blocks[a] for a in self.next[base]) if b[1] != "inactive"]
            row = {"device": self.device, "address": base, "total_size": segment["total"],
                   "allocated_size": sum(b[0] for b in active if b[1] == "active_allocated"),
                   "active_size": sum(b[0] for b in active),
                   "requested_size": sum(b[2] for b in active), "stream": segment["stream"],
                   "segment_type": "large" if segment["large"] else "small",
                   "segment_pool_id": (0, 0), "is_expandable": self.expandable,
                   "frames": segment["frames"], "blocks": blocks}
            if layout == "list":
                for name in ("requested_size", "segment_pool_id", "is_expandable", "frames"):
                    del row[name]
            rows.append(row)
        return rows


class Frames:
    """Stacks as PyTorch gives them; the same list for the same place, as its cache does."""

    def __init__(self, kind, rng):
        self.kind, self.rng, self.known, self.frame = kind, rng, {}, {}

    def one(self, name, filename, line):
        return self.frame.setdefault((name, filename, line),
                                     {"name": name, "filename": filename, "line": line})

    def __call__(self, line, *inner):
        """A stack whose line is `line`: (function, line of train.py or model.py)."""
        if self.kind == "none":
            return []
        key = (line, inner)
        if key not in self.known:
            frames = [self.one(*f) for f in inner] + [self.one(*line)]
            frames.append(self.one("<module>", "/srv/project/train.py", 99))
            if self.kind == "mixed":
                cpp = self.one("at::native::empty_cuda(long)", "??", 0)
                frames = [cpp, *frames, self.one("_start", "??", 0)]
            self.known[key] = frames
        return self.known[key]


def line_name(frames):
    for f in frames:
        if f["filename"].startswith("/srv/project/"):
            return "project/%s:%d %s" % (f["filename"].split("/")[-1], f["line"], f["name"])
    return "(no stack)"


TORCH = "/usr/lib/python3/dist-packages/torch/"


def train(allocator, frames, rng, enough):
    """Steps of a random network until `enough` events are there."""
    model, layers = "/srv/project/model.py", rng.randrange(3, 9)
    sizes = [rng.choice([rng.randrange(1, 4096), rng.randrange(1, 3 * MIB), rng.randrange(1, 30 * MIB)])
             for _ in range(layers)]
    widths = [rng.choice([rng.randrange(1, 2 * MIB), rng.randrange(1, 40 * MIB)]) for _ in range(layers)]
    side = rng.choice([0, 0x55AA0])
    weights, states, grads = [], [], [None] * layers
    for i in range(layers):
        stack = frames(("__init__", model, 10 + i), ("_apply", TORCH + "nn/modules/module.py", 800))
        weights.append(allocator.alloc(sizes[i], 0, stack, "weight"))
    step = 0
    while len(allocator.events) < enough:
        step += 1
        first = len(allocator.events)
        held = []
        try:
            batch = allocator.alloc(widths[0] // 2 + 1, side, frames(("main", "/srv/project/train.py", 40)), "in")
            held.append(batch)
            saved = []
            for i in range(layers):
                stack = frames(("forward", model, 30 + i), ("forward", TORCH + "nn/modules/linear.py", 114))
                saved.append(allocator.alloc(widths[i], 0, stack, "activation"))
                held.append(saved[-1])
                scratch = allocator.alloc(rng.randrange(1, 4 * MIB) if step < 3 else widths[i] // 3 + 1, 0,
                                          stack, "temporary")
                allocator.give(scratch, stack)
            for i in reversed(range(layers)):
                temporary = allocator.alloc(widths[i], 0, [], "backward")
                if grads[i] is None:
                    grads[i] = allocator.alloc(sizes[i], 0, [], "gradient")
                held.remove(saved[i])
                allocator.give(saved[i])
                allocator.give(temporary)
            if not states:
                stack = frames(("main", "/srv/project/train.py", 55), ("step", TORCH + "optim/adam.py", 120))
                states = [allocator.alloc(sizes[i], 0, stack, "state") for i in range(layers)]
            late = batch
            held.remove(batch)
            allocator.request_free(late, [])
            if rng.random() < 0.1 and step < 4:
                allocator.empty_cache()
            allocator.complete_free(late, [])
        except OutOfMemory:
            for address in held:
                allocator.give(address)
            widths = [max(1, w // 2) for w in widths]
            grads = grads if any(grads) else [None] * layers
    return first


def lines_at(allocator, time, unknown):
    """Bytes by line after `time` events; those in `unknown` have lost their stack with the ring."""
    live = {}
    for event in allocator.events[:time]:
        if event["action"] == "alloc":
            live[event["addr"]] = (event["size"], line_name(event["frames"]), id(event))
        elif event["action"] == "free_completed":
            del live[event["addr"]]
    lines = {}
    for size, line, who in live.values():
        line = "(no stack)" if who in unknown else line
        lines[line] = lines.get(line, 0) + size
    return lines


# What each block is for, in the words of the report. A batch is seen to go in backward, and no more.
CATEGORIES = {"weight": "parameter", "gradient": "gradient", "backward": "temporary", "temporary": "temporary",
              "state": "optimizer_state", "activation": "activation", "in": "activation"}


def categories_at(allocator, time):
    live, sums = {}, {}
    for event in allocator.events[:time]:
        if event["action"] == "alloc":
            live[event["addr"]] = event
        elif event["action"] == "free_completed":
            del live[event["addr"]]
    for event in live.values():
        name = CATEGORIES[allocator.who[id(event)]]
        sums[name] = sums.get(name, 0) + event["size"]
    return sums


def walk(allocator, cut):
    """The truth for a ring that begins at `cut`, in one pass with sums."""
    live, now, reserved, before = {}, 0, 0, {}
    peak, peak_at, reserved_peak, ooms, lost = -1, 0, 0, [], set()
    for number, event in enumerate(allocator.events):
        if number == cut:
            before = dict(live)
        action = event["action"]
        if action == "alloc":
            live[event["addr"]] = event
            now += event["size"]
        elif action == "free_completed":
            gone = live.pop(event["addr"])
            now -= gone["size"]
            if number >= cut and before.get(event["addr"]) is gone:
                lost.add(id(gone))
        elif action in ("segment_alloc", "segment_map"):
            reserved += event["size"]
        elif action in ("segment_free", "segment_unmap"):
            reserved -= event["size"]
        elif action == "oom" and number >= cut:
            ooms.append(number + 1)
        if number + 1 >= cut:
            if now > peak:
                peak, peak_at = now, number + 1
            reserved_peak = max(reserved_peak, reserved)
    if cut == 0 and peak < 0:
        peak = 0
    if not before and cut >= len(allocator.events):
        before = dict(live)
    moments = [peak_at, *ooms[:8], len(allocator.events)]
    return {"events": len(allocator.events) - cut, "requested_peak": peak,
            "peak_event": peak_at - cut, "reserved_peak": reserved_peak, "requested": now,
            "reserved": reserved, "before_blocks": len(before),
            "before_bytes": sum(e["size"] for e in before.values()), "out_of_memory": len(ooms),
            "allocated": sum(b[0] for b in allocator.blocks.values() if b[1] != "inactive"),
            "holes": sum(1 for b in allocator.blocks.values() if b[1] == "inactive"),
            "hole_bytes": sum(b[0] for b in allocator.blocks.values() if b[1] == "inactive"),
            "segments": len(allocator.segments),
            "moments": [{"event": m - cut, "lines": lines_at(allocator, m, lost),
                         "categories": categories_at(allocator, m)} for m in moments]}


def make(seed, enough=2000, devices=1, ring=0, expandable=False, limit=1 << 62, layout="dict",
         stacks="python"):
    """(snapshot, truth, events that are one step)"""
    rng = random.Random(seed)
    frames = Frames(stacks, rng)
    allocators = [Allocator(d, rng, expandable, limit) for d in range(devices)]
    repeat = [train(a, frames, rng, enough) for a in allocators]
    if layout == "list":
        snapshot = [row for a in allocators for row in a.snapshot(layout)]
        truth = [walk(a, len(a.events)) for a in allocators]
        return snapshot, truth, repeat
    cuts = [max(0, len(a.events) - ring) if ring else 0 for a in allocators]
    snapshot = {"segments": [row for a in allocators for row in a.snapshot(layout)],
                "device_traces": [a.events[c:] for a, c in zip(allocators, cuts)],
                "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
                                       "expandable_segments": expandable}}
    return snapshot, [walk(a, c) for a, c in zip(allocators, cuts)], repeat


def again(events):
    """Copies that a pickler takes for new ones."""
    return [{**event, "frames": list(event["frames"])} for event in events]


def write_large(path, protocol, size, seed, stacks):
    """A file of about `size` bytes: the last step of a run again and again, as a loop in steady state
    does. MEMOIZE numbers what it stores by itself, so that equal events are equal bytes (protocols
    4 and 5); frames, which may be left out, are."""
    snapshot, truth, repeat = make(seed, enough=3000, stacks=stacks)
    trace = snapshot["device_traces"][0]
    head, step = trace[:repeat[0]], trace[repeat[0]:]
    buffer = io.BytesIO()
    pickler = pickle._Pickler(buffer, protocol)
    traces, events = [], []

    def taken():
        data = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return data

    def save(some):
        pickler.write(pickle.MARK)
        for event in again(some):
            pickler.save(event)
            kept.append(event)  # ids must not be used twice
        pickler.write(pickle.APPENDS)
        return taken()

    kept = []
    with open(path, "wb") as out:
        pickler.write(pickle.PROTO + bytes([protocol]) + pickle.EMPTY_DICT)
        pickler.memoize(snapshot)
        pickler.write(pickle.MARK)
        for thing in ("segments", snapshot["segments"], "device_traces"):
            pickler.save(thing)
        for thing in (traces, events):
            pickler.write(pickle.EMPTY_LIST)
            pickler.memoize(thing)
        out.write(taken())
        for first in range(0, len(head), 1000):
            out.write(save(head[first:first + 1000]))
        out.write(save(step))
        body, rounds = save(step), 1
        out.write(body)
        while out.tell() < size:
            out.write(body)
            rounds += 1
        out.write(pickle.APPEND + pickle.SETITEMS + pickle.STOP)
    truth[0]["events"] += rounds * len(step)
    truth[0]["moments"][-1]["event"] += rounds * len(step)
    return truth


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=0, help="about; from 200 MB on a step is repeated")
    parser.add_argument("--protocol", type=int, default=4)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--ring", type=int, default=0, help="the last N events alone")
    parser.add_argument("--limit", type=int, default=1 << 62, help="bytes of the device")
    parser.add_argument("--expandable", action="store_true")
    parser.add_argument("--layout", choices=["dict", "list"], default="dict")
    parser.add_argument("--stacks", choices=["python", "mixed", "none"], default="python")
    options = parser.parse_args()
    if options.bytes >= 200000000:
        truth = write_large(options.out, max(4, options.protocol), options.bytes, options.seed,
                            options.stacks)
    else:
        enough = max(60, options.bytes // (70 * options.devices))
        snapshot, truth, _ = make(options.seed, enough, options.devices, options.ring,
                                  options.expandable, options.limit, options.layout, options.stacks)
        with open(options.out, "wb") as out:
            pickle.dump(snapshot, out, options.protocol)
    with open(options.out + ".json", "w", encoding="utf-8") as out:
        json.dump(truth, out)


if __name__ == "__main__":
    main()
