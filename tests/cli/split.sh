#!/bin/bash
# `--split` of plan and run: less memory for more work, the same outputs, and what is wrong said. split.sh TENURE MODELS
set -u
tenure=$1 models=$2
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
. "$here/expect.sh"

net=$models/unet64.onnx
expect 0 "in parts +[0-9]+ region" $tenure plan $net --split --extra-work 20%
expect 0 "\"lower_bound\"" $tenure plan $net --split --extra-work 0.2 --json -o plan.json
$tenure run $net --weights random:1 --json >whole.json || failed=1
$tenure run $net --weights random:1 --json --split --extra-work 20% --poison >parts.json || failed=1
python3 - <<'P' || failed=1
import json, sys
whole, parts = json.load(open("whole.json")), json.load(open("parts.json"))
split = parts["split"]
if parts["measured_peak"] != parts["planned_peak"] or parts["measured_peak"] * 1.5 > whole["measured_peak"]:
    sys.exit(f"FAILED: {parts['measured_peak']} of {whole['measured_peak']} bytes")
if split["whole_arena"] != whole["planned_peak"] or split["extra_operations"] > 0.2:
    sys.exit(f"FAILED: {split}")
if parts["weights"] != whole["weights"]:
    sys.exit("FAILED: weights are there twice")
P
# A budget: kept to, or refused with what would do.
total=$(python3 -c 'import json; r = json.load(open("whole.json")); print((r["planned_peak"] + r["weights"]) - r["planned_peak"] // 3)')
expect 0 "poison +clean" $tenure run $net --weights random:1 --split --budget "$total" --poison
expect 1 "the least found is|at least" $tenure run $net --weights random:1 --split --budget 64KiB
# What nothing else keeps to.
mobile=$models/mobilenet_v2.onnx
expect 1 "no program fits" $tenure fit $mobile --budget 16MiB --costs model:a100-40
expect 0 "in parts +[0-9]+ region" $tenure fit $mobile --budget 16MiB --costs model:a100-40 --allow split
expect 0 "poison +clean" $tenure run $mobile --weights random:1 --budget 16MiB --allow split --poison
expect 2 "none of order, recompute, swap, compress, split" $tenure fit $mobile --budget 8MiB --allow parts
expect 2 "give that, too" $tenure plan $net --extra-work 10%
expect 2 "extra-work" $tenure plan $net --split --extra-work lots
expect 2 "split is for offsets" $tenure plan $net --split --form objects
exit $failed
