#!/bin/bash
# `tenure split`: models in parts that are read back, and what is wrong said. split_file.sh TENURE MODELS SHARED
set -u
tenure=$1 models=$2 shared=$3
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
. "$here/expect.sh"

net=$models/wake_words.tflite
expect 0 "regions in tiles +[1-9][0-9]* +[0-9.]+ x less" $tenure split $net --extra-work 25% -o small.tflite
expect 0 "of [0-9]+ bytes, [0-9]+ region" $tenure split $net --budget 56KiB --plan -o planned.tflite --brief
expect 0 "fits" $tenure arena planned.tflite --max 56KiB
expect 0 "valid" $tenure verify planned.tflite
expect 0 "it fits without tiles" $tenure split $net --budget 1MiB
$tenure split $net --extra-work 0.25 --json >told.json || failed=1
$tenure arena small.tflite --plan none --json >arena.json || failed=1
python3 - <<'P' || failed=1
import json, sys
told, arena = json.load(open("told.json")), json.load(open("arena.json"))
if told["format"] != "tenure-split" or not told["found"] or told["parts"] != arena["total"]["most"] or told["parts"] >= told["whole"]:
    sys.exit(f"FAILED: {told}, of which `tenure arena` says {arena['total']['most']}")
P
cp $models/unet64.onnx . && $tenure split unet64.onnx --extra-work 25% -o small.onnx --quiet || failed=1
expect 0 "lower bound" $tenure plan small.onnx
# Nothing keeps to it: said, with who holds most, and nothing is written.
expect 1 "the least found is" $tenure split $net --budget 1KiB -o none.tflite
grep -q "at the peak" err || { echo "FAILED: does not say who holds the peak"; failed=1; }
expect 1 "\"found\":false" $tenure split $net --budget 1KiB --json -o none.tflite
[ ! -e none.tflite ] || { echo "FAILED: written without an answer"; failed=1; }
# The least that is told is what a share of work finds.
for model in "$shared"/tiny_resnet8_int8.tflite $net; do
    [ -e "$model" ] || { echo "SKIP: $model is not there"; continue; }
    $tenure split "$model" --budget 16KiB --plan --json >few.json 2>/dev/null
    $tenure split "$model" --extra-work 1000 --plan --json >much.json 2>/dev/null || failed=1
    python3 -c 'import json; few, much = (json.load(open(n))["parts"] for n in ("few.json", "much.json")); assert few == much, (few, much)' || failed=1
done
# A full disk: what stood there stands there, and nothing lies beside it.
echo old >there.tflite
(
    ulimit -f 4
    trap '' XFSZ
    expect 2 "there.tflite" $tenure split $net --extra-work 25% -o there.tflite
    exit $failed
) || failed=1
[ "$(cat there.tflite)" = old ] || { echo "FAILED: half a file"; failed=1; }
expect 2 "/dev/full" $tenure split $net --extra-work 25% -o /dev/full
[ "$(ls | grep -c there)" = 1 ] || { echo "FAILED: something is left behind"; ls; failed=1; }
# A folder that is not there is told before any search.
expect 2 "'no/such.tflite' cannot be written: no: No such file" $tenure split $net --extra-work 25% -o no/such.tflite
# Standard input and output: the model alone goes there, the table to people.
$tenure split - --extra-work 25% -o - <$net >piped.tflite 2>told || { cat told; failed=1; }
grep -q "x less" told && cmp piped.tflite small.tflite || { echo "FAILED: through a pipe"; failed=1; }
$tenure split - --extra-work 25% --json -o -.tflite <$net >piped.tflite 2>told || failed=1
grep -q '"found":true' told && cmp piped.tflite small.tflite || { echo "FAILED: through a pipe, --json"; failed=1; }
# What goes with what.
expect 2 "would replace the input 'small.tflite'; write to another file, or give --overwrite" $tenure split small.tflite --extra-work 25% -o ./small.tflite
cp $net own.tflite
expect 0 "x less" $tenure split own.tflite --extra-work 25% -o ./own.tflite --overwrite
cmp own.tflite small.tflite || { echo "FAILED: --overwrite writes something else"; failed=1; }
expect 2 "must end in .tflite" $tenure split $net -o small.onnx
expect 2 "is not a .tflite or .onnx model" $tenure split there.txt
expect 2 "No such file" $tenure split nowhere.tflite
expect 2 "only such a file can contain a plan" $tenure split $models/unet64.onnx --plan
expect 2 "has a head" $tenure split $models/unet64.onnx --head
expect 0 "x less" $tenure split $net --head --extra-work 25%
expect 2 "which model" $tenure split
expect 2 "must be above 0" $tenure split $net --budget 0
expect 2 "extra-work" $tenure split $net --extra-work lots
expect 2 "give this option only once" $tenure split $net -o a.tflite -o b.tflite
head -c 3000 $net >half.tflite
expect 2 "half.tflite" $tenure split half.tflite --extra-work 25% -o none.tflite
exit $failed
