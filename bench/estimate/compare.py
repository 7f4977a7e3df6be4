#!/usr/bin/python3
"""`tenure estimate --as pytorch` against what PyTorch allocates: compare.py TENURE FOLDER [BATCH...]

FOLDER is ../shared/data/onnx-weightless: its networks are run node by node (pytorch_peak.py). With
`modules:FOLDER`, PyTorch's modules as users write them are measured (module_peak.py), and their exports,
which go to FOLDER, are estimated. Prints one row of a Markdown table for each network, batch and optimizer;
cases above 5 % are marked. Needs python3-torch, python3-torchvision and python3-onnx; takes minutes.
"""
import json
import pathlib
import subprocess
import sys

NODES = "squeezenet1_1 resnet18 mobilenet_v2 mobilenet_v3_small googlenet alexnet efficientnet_b0 densenet121 resnet50_dynN inception_v3".split()
MODULES = """resnet18 resnet34 resnet50 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x1_0 squeezenet1_1 vgg11_bn densenet121
efficientnet_b0 regnet_y_400mf convnext_tiny mnasnet1_0 googlenet inception_v3 alexnet vit_b_16 swin_t unet gpt-tiny bert-small lstm""".split()
OPTIMIZERS = ["momentum", "adam"]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measure(folder, network, batch):
    """Bytes by optimizer."""
    here = pathlib.Path(__file__).parent
    if modules:
        lines = run(sys.executable, here / "module_peak.py", network, folder, batch, *OPTIMIZERS).split()
        return dict(zip(lines[::2], map(int, lines[1::2])))
    model = pathlib.Path(folder, network + ".onnx")
    return {name: int(run(sys.executable, here / "pytorch_peak.py", model, batch, name)) for name in OPTIMIZERS}


tenure, folder = sys.argv[1:3]
batches = sys.argv[3:] or ["2", "8"]
modules = folder.startswith("modules:")
folder = folder.removeprefix("modules:")
fits = count = 0
print("| network | batch | optimizer | PyTorch, bytes | estimate, bytes | error |\n|---|---|---|---|---|---|")
for network in MODULES if modules else NODES:
    for batch in batches:
        for optimizer, measured in measure(folder, network, batch).items():
            command = [tenure, "estimate", pathlib.Path(folder, network + ".onnx"), "--as", "pytorch", "--batch", batch, "--optimizer", optimizer, "--json"]
            estimated = json.loads(run(*command))["total"]
            error = 100 * (estimated / measured - 1)
            count += 1
            fits += abs(error) <= 5
            print(f"| {network} | {batch} | {optimizer} | {measured:,} | {estimated:,} | {error:+.1f} %{'' if abs(error) <= 5 else ' (misses)'} |", flush=True)
print(f"\n{fits} of {count} within 5 %")
