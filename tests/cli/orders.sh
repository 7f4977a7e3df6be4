#!/bin/bash
# The order of least memory on every model of the shared data, against the file's order: arenas, gain, and whether the
# order is proved to be the best. Training graphs twice: as they are, gradients kept to the end, and with the weights
# updated in place instead (tools/with-updates). With --trace also torchvision networks at small batches. No graph
# may get worse, every plan verifies. orders.sh TENURE DATA [--trace]
set -u
tenure=$1
data=$2
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
[ -d "$data" ] || { echo "SKIP: no shared data"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
declare -A dims=([bert_base_dyn]="--dim N=4 --dim T=64" [char_lstm_dyn]="--dim N=4 --dim T=64" [unet64_dyn]="--dim N=1 --dim H=256 --dim W=256"
    [resnet50_dynN]="--dim N=8" [fashion_resnet]="--dim N=64" [silero_16k_op15]="--dim batch=1 --dim sequence=512")

# row NAME MODEL OPTION...: one line of the table, and its numbers to $folder/rows
row() {
    local name=$1 model=$2
    shift 2
    for order in file memory; do
        $tenure plan "$model" "$@" --order $order --json -o "$folder/$order.json" >"$folder/$order.out" ||
            { echo "FAILED: $name does not plan, order $order"; failed=1; return; }
        $tenure verify "$model" "$@" --plan "$folder/$order.json" >/dev/null || { echo "FAILED: $name, order $order, does not verify"; failed=1; }
    done
    python3 - "$name" "$folder" <<'P' || failed=1
import json, sys
name, folder = sys.argv[1:]
file, memory = (json.load(open(f"{folder}/{order}.out")) for order in ("file", "memory"))
gain = 100 * (1 - memory["peak"] / file["peak"])
proved = "proved" if memory["order_proved"] else ""
ms = 1000 * memory["seconds"]["order"]
print(f'{name:36} {file["peak"]:14,} {memory["peak"]:14,} {gain:7.2f} % {ms:8.1f}  {proved}')
print(f"{gain} {int(bool(proved))}", file=open(f"{folder}/rows", "a"))
if memory["peak"] > file["peak"]:
    print(f"FAILED: {name} got worse")
    sys.exit(1)
P
}
title() { printf '\n%-36s %14s %14s %9s %8s\n' "$1" "file" "memory" gain ms; rm -f "$folder/rows"; }
total() {
    python3 - "$folder/rows" <<'P'
import sys
rows = [line.split() for line in open(sys.argv[1])]
print(f"{len(rows)} graphs, {sum(int(row[1]) for row in rows)} proved, gain {sum(float(row[0]) for row in rows) / len(rows):.1f} % on average")
P
}

title "networks as they are"
for model in "$data"/onnx{,-light,-train,-weightless}/*.onnx "$data"/onnx/*/*.onnx; do
    name=$(basename "$model" .onnx)
    row "$name" "$model" ${dims[$name]:-}
done
total
if ! /usr/bin/python3 -c 'import onnx' 2>/dev/null; then
    echo "SKIP: no python3-onnx, so no training graphs with updates"
    exit $failed
fi
title "weights updated in place"
for model in "$data"/onnx-train/*.onnx; do
    name=$(basename "$model" .onnx)
    "$tools/with-updates" "$model" "$folder/$name.onnx" >/dev/null || { failed=1; continue; }
    row "$name" "$folder/$name.onnx"
    row "$name, weights out" "$folder/$name.onnx" --parameter 'param_*'
done
total
[ "${3:-}" = --trace ] || exit $failed
title "traced, weights updated"
for network in alexnet vgg16 resnet18 resnet50 mobilenet_v2 densenet121 googlenet inception_v3 squeezenet1_1 shufflenet_v2_x1_0; do
    for batch in 1 8 32; do
        "$tools/trace-training" $network $batch "$folder/$network.onnx" >/dev/null 2>&1 || { echo "SKIP: $network is not traced"; continue; }
        "$tools/with-updates" "$folder/$network.onnx" "$folder/$network.u.onnx" >/dev/null || { failed=1; continue; }
        row "$network, batch $batch" "$folder/$network.u.onnx"
        row "$network, batch $batch, weights out" "$folder/$network.u.onnx" --parameter 'param_*'
    done
done
total
exit $failed
