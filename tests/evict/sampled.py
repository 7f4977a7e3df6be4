"""Choosing from a sample: `tenure simulate --addresses --sample` on made-up runs of deep networks, forwards and back. One sample is
a draw of few; what goes must not depend on a single one, so time in the mean is bounded (by what it was when each price stood for
itself, less a part of it).

    sampled.py TENURE
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

MOST = 1.092


def made_up(layers, seed):
    draw, lines = random.Random(seed), []
    sizes = [512 * draw.choice([1, 2, 4, 8]) for _ in range(layers)]
    costs = [draw.randint(200, 4000) for _ in range(layers)]

    def say(**line):
        lines.append(json.dumps(line))

    def memory(name, size):
        say(INSTRUCTION="MEMORY", NAME=name, MEMORY=str(size))

    def call(name, size, arguments, time):
        say(INSTRUCTION="CALL", NAME="f", ARGS=arguments, RESULT=[name], TIME=str(time))
        memory(name, size)
        say(INSTRUCTION="ALIAS", NAME=name, ALIAS="-1")

    for layer in range(layers):
        say(INSTRUCTION="CONSTANT", NAME=f"w{layer}")
        memory(f"w{layer}", 64)
    for step in range(3):
        call(f"h{step}.0", 4096, [], 100)
        for layer in range(layers):
            call(f"h{step}.{layer + 1}", sizes[layer], [f"h{step}.{layer}", f"w{layer}"], costs[layer])
        call(f"d{step}.{layers}", sizes[-1], [f"h{step}.{layers}"], 100)
        for layer in reversed(range(layers)):
            size = sizes[layer - 1] if layer > 0 else 4096
            call(f"d{step}.{layer}", size, [f"d{step}.{layer + 1}", f"h{step}.{layer}", f"w{layer}"], 2 * costs[layer])
            for name in (f"d{step}.{layer + 1}", f"h{step}.{layer + 1}"):
                say(INSTRUCTION="RELEASE", NAME=name)
        for name in (f"h{step}.0", f"d{step}.0"):
            say(INSTRUCTION="RELEASE", NAME=name)
    return "\n".join(lines) + "\n"


def overhead(tenure, path, seed):
    done = subprocess.run([tenure, "simulate", path, "--addresses", "--sample", "--seed", str(seed), "--budget", "0.5", "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["policies"][0]["runs"][0]["overhead"]


def main():
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.log"
        for layers in (100, 300):
            found = []
            for run in range(3):
                path.write_text(made_up(layers, run))
                found += [overhead(sys.argv[1], path, seed) for seed in range(6)]
            mean = sum(found) / len(found)
            faults += mean > MOST
            print(f"{layers} layers: {mean:.4f} in the mean of {len(found)}, at most {max(found):.4f}; bound {MOST}")
    sys.exit(faults > 0)


main()
