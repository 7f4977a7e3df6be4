#!/bin/bash
# `--split` of plan and run: less memory for more work, the same outputs, and what is wrong said. split.sh TENURE MODELS BENCH
set -u
tenure=$1 models=$2 bench=$3
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
. "$here/expect.sh"

net=$models/unet64.onnx
little="$models/mobilenet_v2.onnx --input-shape input=1,3,64,64"
expect 0 "in parts +[0-9]+ region" $tenure plan $little --split --extra-work 20%
expect 0 "\"lower_bound\"" $tenure plan $little --split --extra-work 0.2 --json -o plan.json
$tenure run $net --weights random:1 --json >whole.json || failed=1
$tenure run $net --weights random:1 --json --split --extra-work 20% --poison >parts.json || failed=1
python3 - <<'P' || failed=1
import json, sys
whole, parts = json.load(open("whole.json")), json.load(open("parts.json"))
split = parts["split"]
if parts["measured_peak"] != parts["planned_peak"] or parts["measured_peak"] * 3 > whole["measured_peak"]:
    sys.exit(f"FAILED: {parts['measured_peak']} of {whole['measured_peak']} bytes")
if split["whole_arena"] != whole["planned_peak"] or split["extra_operations"] > 0.2 or split["recomputed"] == 0:
    sys.exit(f"FAILED: {split}")
if parts["weights"] != whole["weights"]:
    sys.exit("FAILED: weights are there twice")
P
# A budget: kept to, or refused with what would do.
$tenure run $little --weights random:1 --json >little.json || failed=1
total=$(python3 -c 'import json; r = json.load(open("little.json")); print((r["planned_peak"] + r["weights"]) - r["planned_peak"] // 3)')
expect 0 "poison +clean" $tenure run $little --weights random:1 --split --budget "$total" --poison
expect 1 "splits operators was found that fits in 64.0 KiB .65,536 bytes.; the least found takes" $tenure run $little --weights random:1 --split --budget 64KiB
# What nothing else keeps to.
mobile=$models/mobilenet_v2.onnx
expect 1 "no program that reorders and recomputes whole operators fits in 16.0 MiB .*proved.*With --allow order,recompute,split: 15" $tenure fit $mobile --budget 16MiB --costs model:a100-40 --allow order,recompute
expect 0 "in parts +[0-9]+ region" $tenure fit $mobile --budget 16MiB --costs model:a100-40
expect 0 "in parts +[0-9]+ region" $tenure fit $mobile --budget 16MiB --costs model:a100-40 --allow split
expect 0 "poison +clean" $tenure run $mobile --weights random:1 --budget 16MiB --allow split --poison
# No parts keep to these by themselves: to the first once they are fitted, to the second not.
least="$tenure fit $mobile --costs model:a100-40 --allow order,recompute,split --budget"
expect 0 "in parts +[0-9]+ region" $least 14850000
expect 1 "no program that reorders, recomputes and splits operators was found that fits in 14.0 MiB .14,700,000 bytes" $least 14700000
# A limit of time is one for the search with parts and without.
expect 3 "time was up: no program" $tenure fit $mobile --budget 16MiB --costs model:a100-40 --allow split --timeout 1ms
expect 0 "time " $tenure fit $mobile --budget 1GiB --costs model:a100-40 --allow split --timeout 1ms
expect 0 "time limit was reached before tiles" $tenure plan $mobile --split --timeout 1ms
expect 0 "may have more points" $tenure plan $mobile --split --sweep 8 --timeout 1ms
# Limits of time and of work hold for the search and for all that an explanation tries. The same work gives the same answer.
expect 0 "not tried, or not to the end, because the time was up: .*operators in tiles" $tenure plan $net --explain --timeout 1ms
expect 0 "not tried, or not to the end, because the work limit was reached: .*operators in tiles" $tenure plan $net --explain --work-limit 1
expect 0 "within the work limit; this plan does not use tiles" $tenure plan $mobile --split --work-limit 1
expect 3 "stopped before" $tenure split $net --work-limit 1
expect 3 "stopped" $tenure split $net --timeout 1ms
for run in 1 2; do
    $tenure plan $mobile --split --work-limit 60000 --json >limited$run.json 2>/dev/null || failed=1
    $tenure split $mobile --work-limit 60000 --json >written$run.json 2>/dev/null || failed=1
done
cmp -s written1.json written2.json || { echo "FAILED: a limit of work gives two answers"; failed=1; }
python3 - <<'P' || failed=1
import json, sys
one, two = (json.load(open(f"limited{run}.json"))["peak"] for run in (1, 2))
if one != two:
    sys.exit(f"FAILED: a limit of work gives {one} and {two} bytes")
P
# A change of layout between convolutions runs in parts as they do. The plan promises what a run takes.
PYTHONPATH=$here python3 - <<'P' || failed=1
from train_models import model, node, value, weights
size = 64
model("grouped.onnx",
      [node("Conv", "x,w1", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "b"),
       node("Conv", "b,w2", "c", pads=[1, 1, 1, 1], group=4), node("Relu", "c", "d"),
       node("Conv", "d,w3", "e", pads=[1, 1, 1, 1]), node("GlobalAveragePool", "e", "y")],
      [value("x", [1, 3, size, size])], [value("y", [1, 8, 1, 1])],
      [weights("w1", 32, 3, 3, 3), weights("w2", 32, 8, 3, 3), weights("w3", 8, 32, 3, 3)])
P
kernels=onednn
$tenure plan grouped.onnx --kernels onednn >/dev/null 2>&1 || kernels=plain # a build without it
$tenure plan grouped.onnx --split --kernels $kernels --json >promised.json || failed=1
$tenure run grouped.onnx --split --json --poison >taken.json || failed=1
$tenure plan grouped.onnx --kernels $kernels --json >grouped.json || failed=1
python3 - <<'P' || failed=1
import json, sys
promised, taken, whole = (json.load(open(name + ".json")) for name in ("promised", "taken", "grouped"))
if promised["peak"] != taken["planned_peak"] or promised["peak"] * 2 > whole["peak"]:
    sys.exit(f"FAILED: {promised['peak']} promised, {taken['planned_peak']} taken, {whole['peak']} as it is")
P
# The curve: rising in bytes, falling in work, the last point as it is; drawn with its smallest plan, or with one for a capacity.
$tenure plan $little --split --sweep 6 --json -o curve.json -o curve.csv -o curve.html -o curve.svg >points.json || failed=1
python3 - <<'P' || failed=1
import json
points = json.load(open("points.json"))["points"]
sizes, works = [p["bytes"] for p in points], [p["work"] for p in points]
assert len(points) > 3 and sizes == sorted(set(sizes)) and works == sorted(set(works), reverse=True), points
assert works[0] <= 0.5 and works[-1] == 0 and "split" not in points[-1], points
assert points[0]["arena"] * 2 < points[-1]["arena"] and points[0]["split"]["regions"] > 0, points[0]
fit = json.load(open("curve.json"))["fit"]
assert (fit["pass"], fit["unit"], fit["bytes"]) == ("split", "operations", sizes[0]), fit
assert [p["bytes"] for p in fit["points"]] == sizes
rows = open("curve.csv").read().split("\n\n")
assert len(rows) == 4 and rows[3].startswith("budget,bytes,time,time_bound\n"), rows[3][:80]
P
grep -q "against work" curve.svg && grep -q '"work":true' curve.html || { echo "FAILED: the curve is not drawn"; failed=1; }
small="$tenure plan $little --split --sweep 4"
expect 0 "lower by" $small
middle=$(awk 'NR == 2 { gsub(",", ""); print $2 }' out)
expect 0 "wrote middle.json" $small --budget "$middle" -o middle.json
grep -q "\"bytes\":$middle," middle.json || { echo "FAILED: another plan is drawn"; failed=1; }
expect 1 "the smallest found needs" $small --capacity 64KiB
expect 2 "needs --split" $tenure plan $net --sweep 3
expect 2 "sweep cannot be combined with --explain" $tenure plan $net --split --sweep 3 --explain
# Beside what fit finds: no budget of the curve without parts is answered worse, and there are others below.
for allow in order,recompute order,recompute,split; do
    $tenure fit $mobile --costs model:a100-40 --sweep 4 --allow $allow --json -o $allow.json >$allow || failed=1
done
python3 - <<'P' || failed=1
import json
before, after = [json.load(open(name))["answers"] for name in ("order,recompute", "order,recompute,split")]
by_budget = {answer["budget"]: answer for answer in after}
assert all(by_budget[answer["budget"]]["time"] <= answer["time"] for answer in before), (before, after)
assert after[0]["bytes"] < before[0]["bytes"] and all(a["bytes"] <= a["budget"] for a in after), after
assert all(a["time"] >= b["time"] for a, b in zip(after, after[1:])), after
P
# No work more at all is a share, too.
expect 0 "lower bound" $tenure plan $little --split --extra-work 0%
# MobileNetV2 of 8-bit integers, the image counted: what patches of its first layers should give (MCUNetV2's arithmetic).
if /usr/bin/python3 "$bench/quantised.py" $mobile int8.onnx 2>/dev/null; then
    $tenure run int8.onnx --weights random:1 --json >whole.json || failed=1
    $tenure run int8.onnx --weights random:1 --json --split --extra-work 10% --poison >parts.json || failed=1
    python3 - <<'P' || failed=1
import json
whole, parts = json.load(open("whole.json")), json.load(open("parts.json"))
assert whole["measured_peak"] == 1505280, whole["measured_peak"]
assert parts["measured_peak"] == parts["planned_peak"] <= 1505280 / 4.5, parts["measured_peak"]
assert parts["split"]["extra_operations"] <= 0.1 and parts["poison"] == "clean", parts
assert parts["outputs"] == whole["outputs"], (parts["outputs"], whole["outputs"])
P
    /usr/bin/python3 "$bench/long_transformer.py" transformer.onnx --tokens 256 --layers 1 --width 64 --heads 4 || failed=1
    expect 0 "in parts +[0-9]+ regions?: \\+0.0 % operations" $tenure plan transformer.onnx --split --extra-work 0%
else
    echo "SKIP: python3-onnx is not installed: no such networks"
fi
expect 2 "not one of order, recompute, swap, compress, split" $tenure fit $mobile --budget 8MiB --allow parts
expect 2 "needs --split" $tenure plan $net --extra-work 10%
expect 2 "extra-work" $tenure plan $net --split --extra-work lots
expect 2 "split cannot be combined with --form" $tenure plan $net --split --form objects
exit $failed
