#!/bin/bash
# Every model of the shared data plans and verifies; without in-place and views the peaks of live bytes are
# those of an independent script (reference/models.md, measured by tools/live.py). models.sh TENURE DATA
set -u
tenure=$1
data=$2
[ -d "$data" ] || { echo "SKIP: no shared data"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
declare -A dims=([bert_base_dyn]="--dim N=4 --dim T=64" [char_lstm_dyn]="--dim N=4 --dim T=64" [unet64_dyn]="--dim N=1 --dim H=256 --dim W=256"
    [resnet50_dynN]="--dim N=8" [fashion_resnet]="--dim N=64" [silero_16k_op15]="--dim batch=1 --dim sequence=512")
printf '%-28s %15s %13s %13s %8s %6s\n' model naive peak bound gap ms
for model in "$data"/onnx{,-light,-train,-weightless}/*.onnx "$data"/onnx/*/*.onnx "$data"/tflite/*.tflite; do
    name=$(basename "$model" .onnx)
    options=${dims[$name]:-}
    if ! $tenure plan "$model" $options --json -o "$folder/plan.json" >"$folder/out"; then
        echo "FAILED: $name does not plan"
        failed=1
        continue
    fi
    $tenure verify "$model" $options --plan "$folder/plan.json" >/dev/null || { echo "FAILED: $name does not verify"; failed=1; }
    python3 - "$name" "$folder/out" <<'P'
import json, sys
s = json.load(open(sys.argv[2]))
ms = 1000 * sum(v for k, v in s["seconds"].items() if k != "write")
print(f'{sys.argv[1]:28} {s["naive"]:15} {s["peak"]:13} {s["lower_bound"]:13} {100 * s["gap"]:7.2f}% {ms:6.1f}')
P
done
# name, peak of live bytes as reference/models.md has it, and the unit of its last digit
while read -r name peak digit; do
    found=$($tenure plan "$data/onnx-weightless/$name.onnx" --no-inplace --no-views --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["lower_bound"])')
    python3 -c "import sys; sys.exit(abs($found - $peak) > $digit)" || { echo "FAILED: $name has a peak of $found, the reference $peak"; failed=1; }
done <<'T'
resnet50 9630000 10000
mobilenet_v2 9630000 10000
vgg16 25700000 100000
densenet121 8430000 10000
inception_v3 11100000 100000
unet64 67100000 100000
bert_base_t128 5100000 100000
gpt2_small_t128 26100000 100000
T
exit $failed
