#!/bin/bash
# Concatenation without copies on every model of the shared data that has one: arenas with and without, copies left.
# Every plan verifies and no lower bound rises. fuse.sh TENURE DATA
set -u
tenure=$1
data=$2
[ -d "$data" ] || { echo "SKIP: no shared data"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
declare -A dims=([silero_16k_op15]="--dim batch=1 --dim sequence=512" [bert_base_dyn]="--dim N=4 --dim T=64"
    [char_lstm_dyn]="--dim N=4 --dim T=64" [unet64_dyn]="--dim N=1 --dim H=256 --dim W=256" [resnet50_dynN]="--dim N=8" [fashion_resnet]="--dim N=64")
echo "| model | concatenations | fused | arena without | arena with | saved |"
echo "|---|---:|---:|---:|---:|---:|"
for model in "$data"/onnx{,-light,-train,-weightless}/*.onnx "$data"/onnx/*/*.onnx; do
    name=$(basename "$model" .onnx)
    for mode in "" --fuse-concat; do
        $tenure plan "$model" ${dims[$name]:-} $mode --json -o "$folder/plan$mode.json" >"$folder/out$mode" || { echo "FAILED: $name does not plan"; failed=1; continue 2; }
        $tenure verify "$model" ${dims[$name]:-} --plan "$folder/plan$mode.json" >/dev/null || { echo "FAILED: $name $mode does not verify"; failed=1; }
    done
    python3 - "$name" "$folder" <<'P' || failed=1
import json, sys
name, folder = sys.argv[1:]
plan = json.load(open(f"{folder}/plan--fuse-concat.json"))
before, after = (json.load(open(f"{folder}/out{mode}")) for mode in ("", "--fuse-concat"))
joins = sum(step["type"] in ("Concat", "cat.default") for step in plan["steps"])
fused = sum(tensor["share"] == "fused" for tensor in plan["tensors"])
if joins:
    saved = 100 * (1 - after["peak"] / before["peak"])
    print(f'| {name} | {joins} | {fused} | {before["peak"]:,} | {after["peak"]:,} | {saved:.1f} % |')
if after["lower_bound"] > before["lower_bound"]:
    print(f"FAILED: {name} has a higher peak of live bytes")
    sys.exit(1)
P
done
exit $failed
