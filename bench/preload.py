"""Large blocks of an unchanged PyTorch from our pools: what it takes, and what the recorded runs need under each pool.

    python3 bench/preload.py build [--steps N] [--only NAME,..] [--times WAY,..]

One table of three scripts under glibc, mimalloc (where it is installed) and our pools: peak of resident memory,
seconds of processor time (OpenMP's threads sleep while they wait: a busy machine does not count as work), whether the
losses are the same to the last bit. One of all of them: bytes reserved over the
most that live at once; of `iteration` also in pages that go back to the system, which is what the library does, and the
height of its plan there, which is what it goes on with once it has learned.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

POOLS = ("caching", "bfc", "best-fit", "iteration")
WAYS = ("cnn", "wide", "transformer", "checkpoint", "lstm", "accumulate", "lengths", "evaluate",
        "gru", "depthwise", "unet", "mixer", "smaller")


def run(options, way, **settings):
    script = os.path.join(os.path.dirname(__file__), "torch_steps.py")
    command = ["/usr/bin/python3", script, way, str(options.steps)]
    environment = dict(os.environ, OMP_WAIT_POLICY="PASSIVE", **settings)
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    words = result.stderr.split("resident ")[1].split()
    return result.stdout, int(words[0]) / 1024, float(words[2])


def below(options):
    ours = os.path.abspath(os.path.join(options.build, "libtenure_preload.so"))
    allocators = {"glibc": {}}
    for path in glob.glob("/usr/lib/*/libmimalloc.so.2"):
        allocators["mimalloc"] = {"LD_PRELOAD": path}
    for pool in ("iteration", "best-fit", "caching"):
        allocators[pool] = {"LD_PRELOAD": ours, "TENURE_POOL": pool}
    return allocators


def table_of_runs(options):
    print("| script | allocator | peak resident MiB | processor seconds | losses |\n|---|---|---|---|---|")
    for way in options.times.split(","):
        first = None
        for name, settings in below(options).items():
            losses, resident, seconds = run(options, way, **settings)
            first = first or losses
            print("| %s | %s | %.1f | %.2f | %s |" % (way, name, resident, seconds,
                                                     "same" if losses == first else "DIFFER"), flush=True)


def replayed(options, trace, pools, *more):
    """The answer of `tenure replay`, and its pools by name."""
    command = [os.path.join(options.build, "tenure"), "replay", trace, "--json", "--timeout", "1", *more]
    for pool in pools:
        command += ["--pool", pool]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return answer, {pool["name"]: pool for pool in answer["pools"]}


def table_of_pools(options):
    print("\n| script | blocks | live MiB | %s | iteration, pages | its plan | served |\n|---|---|---|%s---|---|---|"
          % (" | ".join(POOLS), "---|" * len(POOLS)))
    folder = tempfile.TemporaryDirectory()
    library = below(options)["iteration"]["LD_PRELOAD"]
    for way in options.only.split(","):
        trace = "%s/%s.csv" % (folder.name, way)
        run(options, way, LD_PRELOAD=library, TENURE_TRACE=trace, TENURE_LEAST=options.least)
        answer, pools = replayed(options, trace, POOLS)
        paged = replayed(options, trace, ["iteration"], "--pages", "4KiB")[1]["iteration"]
        live, learned = answer["live_peak"], paged.get("learned", {})
        print("| %s | %d | %.1f | %s | %.4f | %s | %.1f %% |"
              % (way, answer["blocks"], live / 2**20,
                 " | ".join("%.4f" % (pools[pool]["reserved_peak"] / live) for pool in POOLS),
                 paged["reserved_peak"] / live,
                 "%.4f" % (learned["height"] / live) if learned.get("height") else "none",
                 100 * learned.get("served", 0) / answer["blocks"]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", default=",".join(WAYS))
    parser.add_argument("--times", default="cnn,transformer,lstm")
    parser.add_argument("--least", default="64KiB", help="bytes from which blocks are recorded for the second table")
    options = parser.parse_args()
    if options.times:
        table_of_runs(options)
    if options.only:
        table_of_pools(options)


if __name__ == "__main__":
    sys.exit(main())
