#!/bin/bash
# `run --allow stream`: the same outputs within a budget below the weights, and what is wrong said. stream.sh TENURE MODELS
set -u
tenure=$1 models=$2
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
. "$here/expect.sh"

net=$models/mobilenet_v2.onnx
costs="--costs model:a100-40"
$tenure run $net --weights random:1 --json >whole.json || failed=1
for budget in 16MiB 10MiB; do
    $tenure run $net --weights random:1 --json --budget $budget --allow stream --storage 2GB/s $costs --poison --repeat 2 >part.json || failed=1
    python3 - $budget <<'P' || failed=1
import json, sys
whole, part = json.load(open("whole.json")), json.load(open("part.json"))
budget = int(sys.argv[1][:-3]) << 20
streamed = part["streamed"]
if part["measured_peak"] != part["planned_peak"] or part["arena"] > budget:
    sys.exit(f"FAILED: {part['measured_peak']} of {budget} bytes")
if whole["weights"] + whole["planned_peak"] <= budget or streamed["fetched_bytes"] + part["weights"] < whole["weights"]:
    sys.exit(f"FAILED: {streamed}")
if [o["xxh3"] for o in whole["outputs"]] != [o["xxh3"] for o in part["outputs"]]:
    sys.exit("FAILED: other outputs")
P
done
expect 0 "every bit equal" $tenure run $net --weights random:1 --budget 10MiB --allow stream --storage 2GB/s $costs --check naive
# What activations take no slices of weights lower.
expect 1 "with streamed weights, step .* at once" $tenure run $net --weights random:1 --budget 5MiB --allow stream,split
# All fits: nothing is streamed.
expect 0 "measured peak" $tenure run $net --weights random:1 --budget 64MiB --allow stream $costs
grep -q streamed out && { echo "FAILED: streamed without need"; failed=1; }
expect 1 "with streamed weights, step .* at once" $tenure run $net --weights random:1 --budget 1MiB --allow stream $costs
expect 2 "nowhere: .*No such file or directory" $tenure run $net --weights random:1 --budget 10MiB --allow stream $costs --forms /nowhere
expect 2 "needs --allow stream" $tenure run $net --weights random:1 --budget 10MiB --storage 2GB/s
expect 2 "cannot be combined with --pool" $tenure run $net --weights random:1 --budget 10MiB --allow stream --pool caching
expect 2 "allow needs --budget; add" $tenure run $net --weights random:1 --allow stream
expect 2 "needs --storage: the search uses the read speed" $tenure fit $net --budget 10MiB --allow stream
expect 0 "waiting .* for files" $tenure fit $net --budget 6MiB --allow stream --storage 100MB/s
expect 0 "pass +none" $tenure fit $net --budget 64MiB --allow stream --storage 1GB/s
expect 2 "one budget" $tenure fit $net --sweep 3 --allow stream --storage 1GB/s
exit $failed
