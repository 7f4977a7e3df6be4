"""Heads of arenas of microcontrollers: ours beside TensorFlow Lite Micro's own, for every model of some folders.

    arena.py TENURE FOLDER... > table.md

All with alignment 16 and the scratch of the reference kernels, variables outside:
naive: every tensor in memory of its own; bound: no plan needs less; planned: what `-o planned.tflite` needs; online: what
the run time's planner makes of the model as it is; greedy: the same planner as one of ours
(`--planner tflm-greedy`) on our lives without in-place and views, which for models without control flow must be the
same number; saved: planned against online.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile


def ask(tenure, *words):
    answer = subprocess.run([tenure, *words, "--json"], capture_output=True, text=True)
    if answer.returncode:
        sys.exit(answer.stderr)
    return json.loads(answer.stdout)


def main():
    tenure, folders = sys.argv[1], sys.argv[2:]
    print("| model | naive | bound | planned | online | greedy | saved | whole arena, our plan | whole arena, runtime's plan |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "planned.tflite")
        for path in [p for f in folders for p in sorted(glob.glob(f + "/*.tflite"))]:
            arena = ask(tenure, "arena", path, "--kernels", "reference")
            naive = ask(tenure, "plan", path, "-o", copy)["naive"]
            greedy = ask(tenure, "plan", path, "-o", copy, "--planner", "tflm-greedy", "--no-inplace", "--no-views")["peak"]
            head, online = arena["head"]["least"], arena["head_without_plan"]["least"]
            whole = ask(tenure, "arena", path)
            span = lambda r: f"{r['least']:,}" + (f" to {r['most']:,}" if r["most"] > r["least"] else "")  # noqa: E731
            print(f"| {os.path.basename(path)[:-7]} | {naive:,} | {arena['head_lower_bound']['least']:,} | {head:,} | {online:,} "
                  f"| {-(-greedy // 16) * 16:,} | {100 * (1 - head / online) if online else 0:.1f} % | {span(whole['total'])} "
                  f"| {span(whole['total_without_plan'])} |")


main()
