#!/usr/bin/python3
"""`tenure estimate --as pytorch` against what PyTorch allocates: compare.py TENURE FOLDER [BATCH...]

Prints one row of a Markdown table for each network, batch and optimizer. Cases above 5 % are marked. Needs
python3-torch and python3-onnx; takes minutes.
"""
import json
import pathlib
import subprocess
import sys

NETWORKS = "squeezenet1_1 resnet18 mobilenet_v2 mobilenet_v3_small googlenet alexnet efficientnet_b0 densenet121 resnet50_dynN inception_v3".split()
tenure, folder = sys.argv[1:3]
batches = sys.argv[3:] or ["2", "8"]
peak = pathlib.Path(__file__).with_name("pytorch_peak.py")
worst = fits = count = 0
print("| network | batch | optimizer | PyTorch, bytes | estimate, bytes | error |\n|---|---|---|---|---|---|")
for network in NETWORKS:
    model = pathlib.Path(folder, network + ".onnx")
    for batch in batches:
        for optimizer in ("momentum", "adam"):
            measured = int(subprocess.run([sys.executable, peak, model, batch, optimizer], check=True, capture_output=True, text=True).stdout)
            command = [tenure, "estimate", model, "--as", "pytorch", "--batch", batch, "--optimizer", optimizer, "--json"]
            estimated = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["total"]
            error = 100 * (estimated / measured - 1)
            count += 1
            fits += abs(error) <= 5
            print(f"| {network} | {batch} | {optimizer} | {measured:,} | {estimated:,} | {error:+.1f} %{'' if abs(error) <= 5 else ' (misses)'} |", flush=True)
print(f"\n{fits} of {count} within 5 %")
