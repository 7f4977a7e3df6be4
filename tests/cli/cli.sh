#!/bin/bash
# The command as a user meets it: what it prints, where, and with which status. cli.sh TENURE SOURCE
set -u
. "$(dirname "$(readlink -f "$0")")/expect.sh"
tenure=$1
source=$2
model=$source/examples/models/mobilenet_v2.onnx
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

printf 'id,lower,upper,size\na,0,3,600\nb,1,4,500\nc,3,6,700\n' >buffers.csv

# planning
expect 0 'lower bound +1.2 KiB' $tenure plan buffers.csv
expect 0 'optimal' $tenure plan "$model"
for format in json csv html svg; do
    expect 0 "wrote plan.$format" $tenure plan "$model" -o plan.$format
    [ -s plan.$format ] || { echo "FAILED: no plan.$format"; failed=1; }
done
expect 0 '"format":"tenure-plan"' $tenure plan "$model" --json
python3 - <<'P' || failed=1
import json
summary = json.load(open("out"))
for key in "format version input planner status peak lower_bound gap naive by_kind buffers seconds seed".split():
    assert key in summary, key
assert all(isinstance(summary[key], int) for key in ("peak", "lower_bound", "naive", "buffers", "seed"))
assert abs(summary["gap"] - (summary["peak"] / summary["lower_bound"] - 1)) < 1e-12
assert isinstance(summary["by_kind"], dict) and summary["by_kind"]["activation"] > 0
P
# streams that are asked for are reported, even if one is enough for all operators
expect 0 'streams +1  of 4 has operators' $tenure plan "$model" --streams 4
expect 0 '"streams":1,"stream_waits":0,' $tenure plan "$model" --streams 4 --json
# a claim about a model's waits or time names the order that it holds for
for objective in 'waits:adds fewer waits' 'time:takes less time' 'pairs:has a lower reuse cost'; do
    expect 0 "optimal for this order and these in-place choices: no plan within the capacity ${objective#*:}" \
        $tenure plan "$source/examples/models/two_branches.onnx" --objective ${objective%%:*} --capacity 24KiB
done
# every member is listed, and the table has the same numbers
python3 - "$tenure" "$model" "$source" <<'P' || failed=1
import json, re, subprocess, sys
tenure, model, source = sys.argv[1:]
def run(*words): return subprocess.run([tenure, *words], capture_output=True, text=True).stdout
def names(value, name):
    for key, inner in value.items():
        yield name + key
        for item in inner if isinstance(inner, list) else [inner]:
            if isinstance(item, dict): yield from names(item, name + key + ("[]." if isinstance(inner, list) else "."))
known = {row["name"] for row in json.loads(run("list", "members", "--json"))}
lines = {"peak": "arena", "lower_bound": "lower bound", "naive": "without reuse", "caching_pool": "caching pool", "device": "device",
         "dependencies_added": "dependencies"}
for words in ([model], [model, "--device", "1GiB", "--kernels", "none"], [model, "--train", "--batch", "2", "--device", "a100-80"], ["buffers.csv"],
              [source + "/examples/problems/two_banks.csv"]):
    answer, table = json.loads(run("plan", *words, "--json")), run("plan", *words)
    for name in names(answer, "plan."):
        assert name in known or name in ("plan.format", "plan.version"), (words, name)
    for key, label in lines.items():
        line = re.search(r"^  %s +(.*)" % label, table, re.M)
        assert (answer.get(key) is not None) == (line is not None), (words, key)
        if line: assert f"{answer[key]:,}" in line.group(1), (words, key, line.group(1))
P
# who holds the peak: all of them add up to it, and to each kind
expect 0 '"holders":' $tenure plan "$model" --json --holders=100000
python3 - <<'P' || failed=1
import collections, json
summary = json.load(open("out"))
kinds = collections.Counter()
for row in summary["holders"]: kinds[row["kind"]] += row["allocated"]
assert summary["holder_count"] == len(summary["holders"]) > 0 and dict(kinds) == summary["at_peak"], (kinds, summary)
P
expect 0 'by kind .*activation' $tenure plan "$model" --holders
expect 0 'in [0-9]+ more' $tenure plan buffers.csv --holders=1
expect 2 'out of range; use a number from 1' $tenure plan buffers.csv --holders=0
expect 2 'cannot be combined with --form' $tenure plan buffers.csv --holders --form objects
for planner in $($tenure list planners | awk '{print $1}'); do
    expect 0 "planner $planner" $tenure plan buffers.csv --planner $planner
done
expect 0 'arena' $tenure plan plan.json
expect 0 'arena +9' $tenure plan "$model" --no-inplace --no-views
expect 0 'planner' $tenure plan buffers.csv --threads 2 --seed 7 --timeout 10s --work-limit 1000000 --alignment 64

# a step of training: what it is for, what lies beside the arena, the device
expect 0 'kept for backward +[1-9]' $tenure plan "$model" --train --batch 2 --optimizer adam -o step.html -o step.json
grep -q 'optimizer state .*outside the arena' out || { echo "FAILED: where is Adam's state?"; failed=1; }
expect 0 'valid' $tenure verify step.json --plan step.json
expect 0 '"static":' $tenure plan "$model" --train --batch 2 --optimizer adam --json
mv out step_plan
expect 0 '"total":' $tenure estimate "$model" --train --batch 2 --optimizer adam -o estimated.json --json
python3 - <<'P' || failed=1
import json
plan, found = json.load(open("step_plan")), json.load(open("out"))
assert (plan["peak"], plan["static"]) == (found["arena"], found["static"]), (plan, found)
assert plan["by_kind"]["optimizer_state"] == 2 * plan["by_kind"]["parameter"], plan["by_kind"]
assert json.load(open("step.json"))["tensors"] == json.load(open("estimated.json"))["tensors"]
P
expect 1 'does not fit|too much|more than allowed' $tenure plan "$model" --train --batch 2 --device 1MiB
expect 0 'NVIDIA T4' $tenure plan "$model" --device t4
expect 2 'needs --train' $tenure plan "$model" --optimizer sgd
expect 2 'cannot be combined with --form' $tenure plan "$model" --train --form objects
expect 2 'needs a model' $tenure plan buffers.csv --train
expect 2 'train cannot be combined with a plan for a microcontroller' $tenure plan "$source/examples/models/keywords.tflite" --train -o k.tflite
expect 2 'needs an estimate with a plan' $tenure estimate "$model" --pool caching -o x.html

# why: every proposal is what planning the changed thing gives
expect 0 'why 1.2 KiB' $tenure plan buffers.csv --explain
mv out why
for row in a b c; do
    grep -v "^$row," buffers.csv >without.csv
    expect 0 '"peak":' $tenure plan without.csv --json
    python3 - $row <<'P' || failed=1
import json, re, sys
peak = json.load(open("out"))["peak"]
told = re.search(rf"^ +([\d,]+) +[\d,]+ less without {sys.argv[1]}\b", open("why").read(), re.M)
live = re.search(rf"^ +[\d,]+  {sys.argv[1]}$", open("why").read(), re.M)
assert (told is None) == (live is None) and (told is None or int(told[1].replace(",", "")) == peak), (peak, told)
P
done
unet=$source/examples/models/unet64.onnx
expect 0 'less with --fuse-concat' $tenure plan "$unet" --explain
expect 0 'less in the arena with operators in tiles, [0-9]+ regions?(, [0-9]+ tensors? recomputed)?: \+[0-9.]+ % operations' $tenure plan "$unet" --explain
mv out why
expect 0 '"peak":' $tenure plan "$unet" --fuse-concat --json
python3 - <<'P' || failed=1
import json, re
plan, why = json.load(open("out")), open("why").read()
told = re.search(r"^ +([\d,]+) +[\d,]+ less with --fuse-concat", why, re.M)
assert int(told[1].replace(",", "")) == plan["peak"] + plan["static"], (told, plan)
stack = [tuple(int(n.replace(",", "")) for n in m) for m in re.findall(r"^ +([\d,]+) to +([\d,]+)  ", why.split("why these offsets")[1], re.M)]
assert stack[-1][0] == 0 and all(low >= end for (low, _), (_, end) in zip(stack, stack[1:])), stack
P
expect 0 'time predicted' $tenure plan "$unet" --train --optimizer sgd --explain
expect 0 'caching pool +[1-9]' $tenure plan "$model"
expect 0 '"caching_pool":' $tenure plan "$model" --json
mv out planned
expect 0 '"pool":"caching"' $tenure estimate "$model" --pool caching --json
python3 -c 'import json; p, e = (json.load(open(f)) for f in ("planned", "out")); assert p["caching_pool"] == e["arena"], (p, e)' || failed=1
expect 1 '"more_time":' $tenure estimate "$unet" --train --optimizer sgd --device 300MiB --json

# one line
for line in "plan $model" "estimate $model" "estimate $model --device 1MiB" "run $source/examples/models/five_operators.onnx --weights random:1" \
    "arena $source/examples/models/keywords.tflite"; do
    $tenure $line --brief >out 2>err
    [ "$(wc -l <out)" = 1 ] || { echo "FAILED: tenure $line --brief:"; cat out err; failed=1; }
done
grep -q ' to \| bytes)' out || { echo "FAILED: arena --brief"; failed=1; }

# two plans beside each other
expect 0 'wrote both.html' $tenure diff "$model" step.json -o both.html
[ "$(grep -c 'id="pages"' both.html)" = 1 ] || { echo "FAILED: both.html"; failed=1; }
expect 2 'as .html only' $tenure diff "$model" "$model" -o both.json

# does it fit?
expect 1 '500 +b' $tenure plan buffers.csv --capacity 1KiB
expect 1 '"exit_status":1,' $tenure plan buffers.csv --capacity 1KiB --json
python3 -c 'import json; e = json.load(open("out")); assert e["status"] == "E_INFEASIBLE" and e["holder_count"] == len(e["holders"]) > 0' || failed=1
# a claim names its scope, and a gap is 0.0 % only if it is zero
expect 0 'optimal for this order and these in-place choices' $tenure plan "$model"
expect 0 'optimal: no plan of these buffers needs less' $tenure plan buffers.csv
printf 'id,lower,upper,size\na,0,3,100000\n' >low.csv
printf 'id,lower,upper,size,offset\na,0,3,100000,1\n' >high.csv
expect 0 'the gap < 0.1 %' $tenure verify low.csv --plan high.csv
expect 0 'arena' $tenure plan buffers.csv --capacity 1200
printf 'id,lower,upper,size\na,0,2,3\nb,0,4,2\nc,3,6,3\nd,5,7,3\ne,2,3,2\nf,4,5,1\n' >tight.csv
expect 3 'best layout found|lower' $tenure plan tight.csv --planner naive --capacity 6

# input that has no end, no writer, no ids of its own; a CSV that cannot say the plan
ln -s /dev/zero endless.csv
expect 2 'it has a zero byte' timeout 1200 $tenure plan endless.csv --read-limit 1MiB
expect 2 'more than 1048576 bytes;.*read-limit' bash -c "yes 1,2,3,4 2>/dev/null | timeout 1200 $tenure plan - --read-limit 1MiB"
expect 2 'more than 1048576 bytes;.*read-limit' bash -c "yes 1,2,3,4 2>/dev/null | timeout 1200 $tenure plan - --read-limit 1GiB --read-l 1MiB"
mkfifo silent.csv
expect 2 'nobody writes' timeout 1200 $tenure plan silent.csv
cat buffers.csv >silent.csv & # waits until somebody reads
expect 0 'arena' timeout 1200 $tenure plan silent.csv
printf 'id,lower,upper,size\na,0,3,600\na,1,4,500\n,3,6,700\n,2,5,10\n' >twice.csv
expect 0 'wrote' $tenure plan twice.csv -o twice_plan.csv
expect 0 'valid: 4 buffers' $tenure verify twice.csv --plan twice_plan.csv
sed 's/^a,1,4,500,.*/a,1,4,500,0/; s/^a,0,3,600,.*/a,0,3,600,0/' twice_plan.csv >wrong.csv
expect 1 'share bytes' $tenure verify twice.csv --plan wrong.csv
printf '{"format":"mem-plan","version":1,"unit":"bytes","buffers":[{"name":"x","size":192,"first":0,"last_excl":4,%s}]}' \
    '"pieces":[[0,4,0,64],[1,3,128,192]]' >windows.json
expect 0 'wrote' $tenure plan windows.json -o windows_plan.csv -o windows_plan.json
grep -q '0-1@0:64 1-3@0:64+128:192 3-4@0:64' windows_plan.csv || { echo "FAILED: two windows at one step in CSV"; failed=1; }
for plan in windows_plan.csv windows_plan.json; do expect 0 'valid: 1 buffer' $tenure verify windows.json --plan $plan; done

# the allocation told step by step, on the worked example
example=$source/examples/models/five_operators.onnx
expect 0 '3 tags end to end: 192 bytes' $tenure plan "$example" --explain=tags
for line in 'B gets tag 0, a new one' 'C gets tag 1, a new one: B is still live' 'F gets tag 2' "B is dead: tag 0 returns to the queue" \
    'E takes tag 0 from the queue' 'G works in place'; do
    grep -q "$line" out || { echo "FAILED: --explain does not say: $line"; failed=1; }
done
expect 0 'tags end to end' $tenure plan "$model" --explain=tags
expect 2 'needs a model' $tenure plan buffers.csv --explain=tags
expect 2 'explain cannot be combined with --json' $tenure plan "$model" --explain --json

# shared objects
printf 'id,lower,upper,size\na,0,2,2x8\nb,1,3,2x8\nc,2,4,1x4\n' >textures.csv
for strategy in $($tenure list objects | awk '{print $1}'); do
    expect 0 'objects +[1-3] for 3 buffers' $tenure plan buffers.csv --form objects --planner $strategy
done
expect 0 'objects +4 for 55 buffers' $tenure plan "$model" --form objects
expect 0 '2 for 3 buffers' $tenure plan textures.csv --form objects -o objects.csv -o objects.json
grep -q '^c,2,4,1x4,0$' objects.csv || { echo "FAILED: objects.csv"; failed=1; }
expect 0 '"format":"tenure-objects"' $tenure plan textures.csv --form objects --json
python3 -c 'import json; json.load(open("out")); o = json.load(open("objects.json")); assert o["total"] == 32 == sum(a * b for a, b in o["object_sizes"]) and [b["object"] for b in o["assignment"]] == [0, 1, 0]' || failed=1
expect 2 'not defined for sizes that are 2-vectors' $tenure plan textures.csv --form objects --planner greedy-by-size
printf 'id,lower,upper,size,gaps\na,0,9,5,2-3\n' >gaps.csv
expect 0 '1 for 1 buffers' $tenure plan gaps.csv --form objects
printf 'id,lower,upper,size,offset\na,0,9,5,0\n' >pinned.csv
expect 2 'is pinned' $tenure plan pinned.csv --form objects
printf 'id,lower,upper,size,gaps\na,0,9,5x5,2-3\n' >gaps.csv
expect 2 'know no gaps' $tenure plan gaps.csv --form objects
expect 2 'did you mean .objects' $tenure plan buffers.csv --form object
expect 2 'written as .csv or .json' $tenure plan buffers.csv --form objects -o plan.html
expect 2 'no strategy' $tenure plan buffers.csv --form objects --planner exact
expect 1 'capacity' $tenure plan buffers.csv --form objects --capacity 1
expect 0 '^textures.csv: 32 elements, optimal by ' $tenure plan textures.csv --form objects --brief
expect 0 '^valid: 2 objects for 3 buffers, 32 elements' $tenure verify textures.csv --form objects --plan objects.csv
sed 's/^b,\(.*\),1$/b,\1,0/' objects.csv >clash.csv
expect 1 'not valid: records 0 and 1 share object 0 at step 1' $tenure verify textures.csv --form objects --plan clash.csv
expect 1 '"valid":false' $tenure verify textures.csv --form objects --plan clash.csv --json
grep -v '^b' objects.csv >missing.csv
expect 1 "no object for 'b'" $tenure verify textures.csv --form objects --plan missing.csv
expect 2 'needs the columns' $tenure verify textures.csv --form objects --plan textures.csv
printf 'id,object\na,7\nb,9\nc,x\n' >bad.csv
expect 2 "bad.csv:4.*'object' is (no|not a) number" $tenure verify textures.csv --form objects --plan bad.csv
$tenure plan "$model" --form objects -o m.csv >out
expect 0 '^valid: 4 objects for 55' $tenure verify "$model" --form objects --plan m.csv

# usage
expect 2 'could mean' $tenure plan buffers.csv --capacity 10K
expect 2 'no format' $tenure plan buffers.csv -o plan.xyz
expect 2 'power of two' $tenure plan buffers.csv --alignment 3
expect 2 'needs a model' $tenure plan buffers.csv --dim N=2
expect 2 'no planner is called' $tenure plan buffers.csv --planner nobody
expect 2 'not a time' $tenure plan buffers.csv --timeout soon
expect 2 'no input given' $tenure plan
expect 2 'no command' $tenure plant
expect 2 'NAME=' $tenure plan "$model" --dim N
expect 2 'not a dimension' $tenure plan "$model" --dim N=-4
expect 2 'not a dimension' $tenure plan "$model" --dim N=many
expect 2 'nobody' $tenure plan "$model" --dim nobody=4
expect 2 '' $tenure plan "$model" --input-shape input=1,3,4611686018427387904,4611686018427387904
expect 2 'N,N' $tenure plan "$model" --value input=1,x
expect 2 'inputs are .input' $tenure plan "$model" --value nobody=4
expect 2 '150528 elements' $tenure plan "$model" --value input=4
expect 0 'tenure 0' $tenure --version
expect 0 'kernels ' $tenure --version
expect 0 'plan.*verify' $tenure --help
for command in plan verify run train split simulate replay watch embed report list; do expect 0 'Example' $tenure $command --help; done

# bad files
expect 2 'no-such.onnx: cannot open' $tenure plan no-such.onnx
expect 2 'buffers.txt' $tenure plan buffers.txt
head -c 3000 "$model" >cut.onnx
expect 2 'cut.onnx' $tenure plan cut.onnx
head -c 20000 /dev/zero >zero.onnx
expect 2 'zero.onnx' $tenure plan zero.onnx
printf 'id,lower,upper,size\na,0,3,many\n' >bad.csv
expect 2 "bad.csv:2.*'size'" $tenure plan bad.csv
echo '{"format": "other"}' >bad.json
expect 2 'bad.json' $tenure plan bad.json

# output: whole or not at all
expect 2 'no-folder' $tenure plan buffers.csv -o no-folder/plan.csv
echo old >kept.csv
expect 2 '' $tenure plan bad.csv -o kept.csv
[ "$(cat kept.csv)" = old ] || { echo "FAILED: a failing run touched its output"; failed=1; }
ls | grep -q '\.part$' && { echo "FAILED: something half-written is left"; failed=1; }
if [ -w /dev/full ]; then
    $tenure plan buffers.csv >/dev/full 2>err
    [ $? -eq 2 ] || { echo "FAILED: a full disk goes unnoticed"; failed=1; }
fi

# verifying
$tenure plan buffers.csv -o ours.csv >/dev/null
expect 0 '^valid' $tenure verify buffers.csv --plan ours.csv
$tenure plan "$model" -o m.json -o m.csv >/dev/null
expect 0 '^valid: 55 buffers' $tenure verify "$model" --plan m.json
expect 0 '^valid' $tenure verify "$model" --plan m.csv
expect 0 '"valid": ?true' $tenure verify "$model" --plan m.csv --json
sed 's/^b,\(.*\),[0-9]*$/b,\1,0/; s/^c,\(.*\),[0-9]*$/c,\1,0/' ours.csv >moved.csv
expect 1 "'a' and 'b' share bytes \[0, 500\) at step 1" $tenure verify buffers.csv --plan moved.csv
grep -v '^b' ours.csv >missing.csv
expect 1 "no offset for 'b'" $tenure verify buffers.csv --plan missing.csv
sed 's/^b,/x,/' ours.csv >renamed.csv
expect 1 "'b'" $tenure verify buffers.csv --plan renamed.csv
sed 's/,500,/,499,/' ours.csv >shrunk.csv
expect 1 "'b' has 499 bytes" $tenure verify buffers.csv --plan shrunk.csv
expect 2 'no offsets' $tenure verify buffers.csv --plan buffers.csv
expect 2 'no plan given' $tenure verify buffers.csv

# another tool's plan of the model: every tensor end to end, no sharing at all; then one of them moved
python3 - <<'P'
import json
plan, at, rows = json.load(open("m.json")), 0, ["id,lower,upper,size,offset"]
for tensor in plan["tensors"]:
    rows.append(f'{tensor["name"]},{tensor["first"]},{tensor["last_excl"]},{tensor["size"]},{at}')
    at += (tensor["size"] + 63) // 64 * 64
open("naive.csv", "w").write("\n".join(rows) + "\n")
rows[3] = rows[3].rsplit(",", 1)[0] + "," + rows[2].rsplit(",", 1)[1]
open("clash.csv", "w").write("\n".join(rows) + "\n")
P
expect 0 '^valid' $tenure verify "$model" --plan naive.csv
python3 - <<'P'
rows = open("naive.csv").read().split()
rows[2] = rows[2].rsplit(",", 1)[0] + "," + rows[1].rsplit(",", 1)[1]
open("clash.csv", "w").write("\n".join(rows) + "\n")
P
expect 1 "'input'|share bytes" $tenure verify "$model" --plan clash.csv

# ties, streams, banks: planned, written, read back, judged
for problem in allreduce two_streams; do
    expect 0 'optimal' $tenure plan "$source/examples/problems/$problem.csv" -o limits.csv -o limits.json
    for plan in limits.csv limits.json; do
        expect 0 '^valid' $tenure verify "$source/examples/problems/$problem.csv" --plan $plan
        expect 0 '^valid' $tenure verify $plan --plan $plan
    done
done
two=$source/examples/problems/two_banks.csv
fast="--bank sram=256KiB@8GB/s --bank dram=64MiB@0.5GB/s"
expect 0 'no choice of banks takes less time' $tenure plan "$two" $fast -o banks.csv -o banks.json -o banks.html -o banks.svg
for plan in banks.csv banks.json; do
    expect 0 '^valid' $tenure verify "$two" --plan $plan $fast
done
expect 0 '^valid' $tenure verify "$two" --plan banks.json
expect 2 'rows in 2 banks; add --bank' $tenure verify "$two" --plan banks.csv
expect 2 'contradicts banks.json' $tenure verify "$two" --plan banks.json --bank sram=1MiB
expect 0 '^valid' $tenure verify banks.json --plan banks.json
expect 2 'has no effect: banks.json states the alignment' $tenure plan banks.json --alignment 4096
expect 2 'has no effect: banks.json states the alignment' $tenure diff "$two" banks.json --alignment 4096
expect 2 'has no effect: banks.json is a plan' $tenure diff "$two" banks.json --bank sram=1MiB
expect 0 '"peak":1212' $tenure diff buffers.csv buffers.csv --alignment 512 --json
expect 0 'traffic' $tenure plan "$model" --bank sram=2MiB@8GB/s --bank dram=64MiB@0.5GB/s -o banks.json
expect 0 '^valid' $tenure verify "$model" --bank sram=2MiB@8GB/s --bank dram=64MiB@0.5GB/s --plan banks.json
expect 1 'fit into no bank' $tenure plan "$two" --bank a=1KiB --bank b=2KiB
for wrong in sram sram=x a=1KiB@8 a=1KiB@8GB a=0 a=1KiB@-1GB/s; do expect 2 '' $tenure plan "$two" --bank $wrong; done

# TensorFlow Lite
lite=$source/fuzz/corpus/tflite
for name in branches calls constants convolution loop nothing state; do
    expect 0 'lower bound' $tenure plan "$lite/$name.tflite" -o lite.json
    expect 0 '^valid' $tenure verify "$lite/$name.tflite" --plan lite.json
    expect 0 'lower bound' $tenure plan "$lite/$name.tflite" --order memory -o lite.json
    expect 0 '^valid' $tenure verify "$lite/$name.tflite" --plan lite.json
done
# an operator without known kernels (here LOCAL_RESPONSE_NORMALIZATION in place of SOFTMAX) is never said to fit
python3 - "$source" <<'P' || failed=1
import struct, sys
sys.path.insert(0, sys.argv[1] + "/tests/import")
import tflite
model = tflite.Model(sys.argv[1] + "/examples/models/keywords.tflite")
data = bytearray(model.data)
for code in tflite.Table(model.data, struct.unpack_from("<I", model.data, 0)[0]).tables(1):
    for field, form in (0, "<b"), (3, "<i"):
        if code.number(field, form[1]) == 25:
            struct.pack_into(form, data, code.place(field), 13)
open("unknown.tflite", "wb").write(data)
P
expect 0 'not known whether it fits without changes: the kernels of 1 operator are unknown' $tenure arena unknown.tflite --max 64KiB
expect 0 '"fits":null.*"fits_with_plan":null' $tenure arena unknown.tflite --max 64KiB --json
expect 0 'may fit' $tenure arena unknown.tflite --max 64KiB --brief
expect 1 'does not fit' $tenure arena unknown.tflite --max 4KiB
expect 0 'fits without changes' $tenure arena "$source/examples/models/keywords.tflite" --max 64KiB
expect 0 'arena +896 bytes' $tenure plan "$lite/convolution.tflite" --input-shape x=2,8,8,3
expect 2 'CONV_2D.*ranks 3 and 4' $tenure plan "$lite/convolution.tflite" --input-shape x=8,8,3
expect 0 'wrote planned.tflite' $tenure plan "$lite/loop.tflite" -o planned.tflite
expect 0 '^valid' $tenure verify planned.tflite
expect 2 'no plan inside' $tenure verify "$lite/loop.tflite"
expect 2 'not a .tflite model' $tenure plan buffers.csv -o planned.tflite
expect 2 'no offsets' $tenure plan buffers.csv --form objects -o planned.tflite
expect 2 'one arena' $tenure plan "$lite/loop.tflite" --bank a=1KiB --bank b=64KiB -o planned.tflite
head -c 700 "$lite/convolution.tflite" >cut.tflite
expect 2 'cut.tflite' $tenure plan cut.tflite

# what may run side by side
branches=$source/examples/models/two_branches.onnx
expect 0 '"dependencies_added":1,' $tenure plan "$branches" --json
expect 0 '"dependencies_added":0,' $tenure plan "$branches" --parallel safe --json
$tenure plan "$branches" -o serial.json >/dev/null
python3 -c 'import json; assert json.load(open("serial.json"))["dependencies_added"] == [["A[2]", "A[5]"]]' || failed=1
$tenure plan "$branches" --parallel safe -o safe.json >/dev/null
expect 0 '^valid' $tenure verify "$branches" --parallel safe --plan safe.json
expect 2 'safe contradicts serial.json' $tenure verify "$branches" --parallel safe --plan serial.json
expect 2 'not one of serial, safe' $tenure plan "$branches" --parallel always
expect 2 'needs a model' $tenure plan buffers.csv --parallel safe

# orders of operators: found, proved, written, checked
train=$source/examples/models/train_alexnet.onnx
expect 0 'order memory; no order has a lower peak' $tenure plan "$train" --order memory -o order.json
expect 0 '^valid.*377\.1 MiB' $tenure verify "$train" --plan order.json
expect 0 'order file; no order' $tenure plan "$model" --order auto
expect 1 '491,424,388 bytes., so no layout of these buffers fits in 400.0 MiB' $tenure plan "$train" --capacity 400MiB
expect 0 'arena +377\.1 MiB' $tenure plan "$train" --capacity 400MiB --order memory
expect 1 'at the peak, step' $tenure plan "$train" --capacity 300MiB --order auto
expect 2 'no order is called' $tenure plan "$model" --order fastest
expect 2 'needs a model' $tenure plan buffers.csv --order memory
$tenure plan "$train" --order memory -o order.csv >out
expect 0 '^valid' $tenure verify "$train" --plan order.csv --order memory
expect 2 'made with other options.*--order' $tenure verify "$train" --plan order.csv
python3 - <<'P'
import json
plan = json.load(open("order.json"))
steps = [i for i, step in enumerate(plan["steps"]) if "node" in step]
first, last = steps[0], steps[-1]
plan["steps"][first], plan["steps"][last] = plan["steps"][last], plan["steps"][first]
json.dump(plan, open("swapped.json", "w"))
del plan["steps"][last]
json.dump(plan, open("short.json", "w"))
P
expect 1 'nothing has defined it' $tenure verify "$train" --plan swapped.json
expect 1 'nothing has defined it' $tenure verify "$train" --plan short.json

# concatenation without copies
concat=$source/examples/models/unet64.onnx
expect 0 'arena +64\.0 MiB' $tenure plan "$concat"
expect 0 'arena +48\.0 MiB' $tenure plan "$concat" --fuse-concat -o fused.json
grep -q '"share":"fused"' fused.json || { echo "FAILED: nothing is fused"; failed=1; }
expect 0 '^valid' $tenure verify "$concat" --plan fused.json
# weights inside the arena: one number, verified, the same results
expect 2 'is not one of' $tenure plan "$model" --static here
for place in arena first; do
    expect 0 'parameter .* parameter|13,951,264' $tenure plan "$model" --static $place -o static.json -o static.html
    expect 0 'valid: 231' $tenure verify "$model" --plan static.json
    grep -q classifier.1.weight static.html || { echo "FAILED: no weight in the page"; failed=1; }
    expect 0 'poison +clean' $tenure run "$model" --weights random:1 --static $place --check naive --poison
done
expect 0 '' $tenure run "$model" --weights random:1 --json
cp out apart.json
expect 0 '' $tenure run "$model" --weights random:1 --static arena --json
python3 - <<'P' || failed=1
import json
plan, apart, inside = (json.load(open(name)) for name in ("static.json", "apart.json", "out"))
assert inside["outputs"] == apart["outputs"]
assert inside["planned_peak"] == inside["measured_peak"] == inside["arena"]
assert inside["weights"] == apart["weights"]
assert 0 <= apart["arena"] + apart["weights"] - inside["arena"] < 64 or inside["arena"] - apart["arena"] - apart["weights"] < 64 * 200
with open("need", "w") as file: print(inside["arena"], inside["arena"] - 1, file=file)
rows = {row["name"]: row for row in plan["buffers"]}
weight = rows["classifier.1.weight"]
assert weight["kind"] == "parameter", weight
victim = next(row for row in plan["buffers"] if row["kind"] == "activation" and row["size"] > 0)
victim["offset"] = weight["offset"]
json.dump(plan, open("broken.json", "w"))
P
read -r need less <need
expect 0 'weights' $tenure run "$model" --weights random:1 --static arena --budget "$need"
expect 1 'least found takes' $tenure run "$model" --weights random:1 --static arena --budget "$less" --allow order,recompute
expect 1 "classifier.1.weight' share bytes" $tenure verify "$model" --plan broken.json
expect 2 'a pool takes static memory' $tenure run "$model" --weights random:1 --static arena --pool bfc
expect 2 'needs a model' $tenure plan buffers.csv --static arena
expect 2 'needs a model' $tenure plan buffers.csv --fuse-concat

# replays: the plan beside the pools, a capacity that is too small, and damage
trace=$source/examples/traces/two_steps.csv
expect 0 'planned +[0-9,]+ +1.000 x' $tenure replay "$trace"
expect 0 '"format":"tenure-replay"' $tenure replay "$trace" --json
python3 - <<'P' || failed=1
import json
answer = json.load(open("out"))
pools = {pool["name"]: pool for pool in answer["pools"]}
assert len(pools) >= 6 and all(pool["fits"] for pool in pools.values())
assert pools["planned"]["reserved_peak"] == answer["planned"]["peak"] >= answer["live_peak"] == 6700000
for pool in pools.values():
    assert pool["requested_peak"] == answer["live_peak"] <= pool["allocated_peak"] <= pool["reserved_peak"]
    assert pool["holders"][0]["name"].startswith("layer1/")
P
for pool in $($tenure list pools | awk '{print $1}'); do
    expect 0 "^  $pool " $tenure replay "$trace" --pool $pool
    expect 1 "$pool +does not fit" $tenure replay "$trace" --pool $pool --capacity 6MB
done
expect 1 'when it did not fit, pool best-fit' $tenure replay "$trace" --pool best-fit --capacity 6MB
# steps by size: MiB asked for, and MiB allocated, by the steps that PyTorch's AllocatorConfigTest expects of this list
steps='caching:roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]'
for pair in 33:36 65:72 130:192 300:320 600:768 1025:1280 2050:2050; do
    printf 'action,id,size,lifetime,name,kind,op\nalloc,a,%s,,a,,\n' $((${pair%:*} << 20)) >steps.csv
    expect 0 "\"allocated_peak\":$((${pair#*:} << 20))," $tenure replay steps.csv --pool "$steps" --json
done
for bad in '[64:8' '[]' '[64]' '[48:2]' '[64:3]' '4.5' '99999999999'; do
    expect 2 'roundup_power2_divisions' $tenure replay steps.csv --pool "caching:roundup_power2_divisions:$bad"
done
# a device maps a segment's pages from anywhere: two free segments of 20 MiB, not adjacent, make room for one of 40
m=$((20 << 20))
printf 'action,id,size,lifetime,name,kind,op\nalloc,a,%s,,,,\nalloc,b,%s,,,,\nalloc,c,%s,,,,\nfree,a,,,,,\nfree,c,,,,,\nalloc,d,%s,,,,\n' $m $m $m $((2 * m)) >apart.csv
for pool in caching caching:max_split_size_mb:64 caching:expandable_segments:True; do
    expect 0 "\"reserved_peak\":$((3 * m))," $tenure replay apart.csv --pool $pool --capacity $((3 * m)) --json
    expect 1 'does not fit' $tenure replay apart.csv --pool $pool --capacity $((3 * m - 1))
done
expect 1 'best-fit +does not fit' $tenure replay apart.csv --pool best-fit --capacity $((3 * m))
expect 0 'wrote pools.svg' $tenure replay "$trace" -o pools.svg
python3 - "$($tenure list pools | wc -l)" <<'P' || failed=1
import sys
import xml.dom.minidom
drawing = xml.dom.minidom.parse("pools.svg")
assert len(drawing.getElementsByTagName("path")) == 1 + int(sys.argv[1]), "an area, and a line for each pool"
P
expect 1 'wrote pools.svg' $tenure replay "$trace" -o pools.svg --capacity 6MB
expect 2 'does not end in .svg' $tenure replay "$trace" -o pools.png
expect 0 'rows skipped: 3 ' $tenure replay "$source/fuzz/corpus/trace/rmm.csv"
printf 'action,id,size\nfree,a,1\n' >bad.csv
expect 2 "bad.csv:2: 'a' is freed and is not in use" $tenure replay bad.csv
expect 2 'no pool' $tenure replay "$trace" --pool none

# two versions of a model or a plan, the gate
$tenure plan "$model" -o old.json -o old.csv >out
expect 0 'peak +\+0 bytes' $tenure diff "$model" old.json --max-increase 0
expect 0 'peak +\+0 bytes' $tenure diff old.json old.csv
expect 1 'more than --max-increase' $tenure diff "$model" "$source/examples/models/unet64.onnx" --max-increase 2%
expect 0 'no longer at the peak' $tenure diff "$model" "$source/examples/models/unet64.onnx"
printf 'id,lower,upper,size,offset\na,0,3,600,0\nb,1,4,700,600\nc,3,6,700,1300\n' >grown.csv
printf 'id,lower,upper,size,offset\na,0,3,600,0\nb,1,4,500,600\nc,3,6,700,1100\n' >before.csv
expect 0 '^ +\+200 +500 +700  b' $tenure diff before.csv grown.csv
expect 1 'peak +\+200 bytes, \+11.11 %' $tenure diff before.csv grown.csv --max-increase 11%
expect 0 'peak' $tenure diff before.csv grown.csv --max-increase 11.2%
expect 1 'peak' $tenure diff before.csv grown.csv --max-increase 199
expect 0 'peak' $tenure diff grown.csv before.csv --max-increase 0%
expect 1 '"within": ?false' $tenure diff before.csv grown.csv --max-increase 1% --json
python3 -c 'import json; d = json.load(open("out")); assert d["change"] == 200 and sum(t["change"] for t in d["tensors"]) == d["new"]["live"] - d["old"]["live"]' || failed=1
expect 2 'two inputs are needed' $tenure diff before.csv
expect 2 'no-such.csv' $tenure diff before.csv no-such.csv
expect 2 'max-increase' $tenure diff before.csv grown.csv --max-increase many

# a recorded run in less memory: f runs again, because its result was evicted; the values are
# computed by hand (a and b are evicted, a and c are dropped at their release)
python3 - >run.log <<'P'
import json
def put(what, **rest): print(json.dumps({"INSTRUCTION": what, **rest}))
def size(name, count):
    put("MEMORY", NAME=name, MEMORY=str(count))
put("CONSTANT", NAME="w")
size("w", 8)
for name, result, arguments, count, seconds in ("f", "a", "w", 100, 1), ("g", "b", "w", 100, 2), ("h", "c", "w", 100, 3), ("k", "d", "a", 10, 4):
    put("CALL", NAME=name, ARGS=[arguments], RESULT=[result], TIME=str(seconds * 10 ** 9))
    size(result, count)
    put("ALIAS", NAME=result, ALIAS="-1")
for name in "abc": put("RELEASE", NAME=name)
P
expect 0 '^plain peak +318 bytes$' $tenure simulate run.log --policy lru --budget 218
for line in 'operators +4, 10 s' 'lower bound +118 bytes: .*' 'budget +218 bytes, 68.6 %' 'time +11 s, relative to the plain time: 1.1' 'recomputed +1 operators, 1 s' 'dropped +4, 400 bytes'; do
    grep -qE "^$line$" out || { echo "FAILED: simulate prints no line '$line'"; cat out; failed=1; }
done
expect 0 '^218 of 318 bytes, 1.1000 of the plain time, lru$' $tenure simulate run.log --policy lru --budget 218 --brief
expect 0 '"remade_ops":1,"remade_cost":1000000000,' $tenure simulate run.log --policy lru --budget 218 --json

# the arena of a microcontroller
lite=$source/fuzz/corpus/tflite
expect 0 'head: tensors and scratch' $tenure arena "$lite/convolution.tflite"
expect 0 'fits without changes: ' $tenure arena "$lite/convolution.tflite" --max 64KiB
expect 1 'smallest sufficient capacity' $tenure arena "$lite/convolution.tflite" --max 512
least=$($tenure arena "$lite/convolution.tflite" --json 2>/dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["total_as_it_is"]["most"])')
expect 0 'fits without changes: 0 bytes' $tenure arena "$lite/convolution.tflite" --max "$least"
expect 1 'does not fit' $tenure arena "$lite/convolution.tflite" --max $((least - 1))
# between what the file takes as it is and what it takes with our plan inside, only a file that is written fits
wake=$source/examples/models/wake_words.tflite
read -r plain planned < <($tenure arena "$wake" --json | python3 -c 'import json,sys; a = json.load(sys.stdin); print(a["total_as_it_is"]["most"], a["total"]["most"])')
[ "$planned" -lt "$plain" ] || { echo "FAILED: $planned of $plain"; failed=1; }
expect 1 "does not fit without changes" $tenure arena "$wake" --max "$planned"
expect 1 "with our plan inside: .* it fits" $tenure arena "$wake" --max "$planned"
expect 1 "does not fit without changes; with our plan inside" $tenure arena "$wake" --max "$planned" --brief
expect 0 "fits with the written plan: 0 bytes" $tenure arena "$wake" --max "$planned" -o wake.tflite
expect 0 "fits without changes: 0 bytes" $tenure arena wake.tflite --max "$planned"
for target in cortex-m0 cortex-m55 x86-64; do expect 0 "$target" $tenure arena "$lite/loop.tflite" --target $target; done
expect 0 '"plan":"none"' $tenure arena "$lite/state.tflite" --plan none --json
expect 0 'planned by the runtime' $tenure arena "$lite/loop.tflite"
expect 0 'planned by Tenure' $tenure arena "$lite/loop.tflite" --plan ours
expect 2 'no plan inside' $tenure arena "$lite/state.tflite" --plan inside
$tenure plan "$lite/state.tflite" -o planned.tflite >out
expect 0 'the plan inside the model' $tenure arena planned.tflite
expect 0 'slow .* yes$' $tenure arena "$lite/convolution.tflite" --bank fast=300 --bank slow=64KiB
expect 1 'no bank has room' $tenure arena "$lite/convolution.tflite" --bank fast=300 --bank slow=512
expect 2 'is not one of' $tenure arena "$lite/loop.tflite" --target pentium
for target in esp32 esp32-s3 esp32-p4 esp32-c3; do expect 0 "$target, kernels: esp-nn 1.0.0 to 1.2.3" $tenure arena "$wake" --target $target --kernels esp-nn; done
expect 0 'kernels: reference, esp-nn 1.0.0 to 1.2.3' $tenure arena "$wake" --target esp32-s3
expect 0 'kernels: reference, cmsis-nn 4.1.0 to main' $tenure arena "$wake"
expect 0 'most with esp-nn 1.2.1' $tenure arena "$wake" --target esp32-s3 --kernels esp-nn@1.2.1
expect 0 '"deciding_version":"7.0.0"' $tenure arena "$wake" --kernels cmsis-nn@7.0.0,gcc,tflm=2025-01-31 --json
expect 0 'valid' bash -c "'$tenure' arena '$wake' --target esp32-s3 --kernels esp-nn@1.2.1,tflm=2025-01 -o esp.json -q && '$tenure' verify '$wake' --plan esp.json"
expect 2 'is not an ESP32' $tenure arena "$wake" --kernels esp-nn
expect 2 'is not a Cortex-M' $tenure arena "$wake" --target esp32 --kernels cmsis-nn
expect 2 "version '1.9' is not known" $tenure arena "$wake" --target esp32 --kernels esp-nn@1.9
expect 2 'have a version' $tenure arena "$wake" --kernels any@1.2
expect 2 'tflm=YYYY-MM-DD' $tenure arena "$wake" --kernels any,tflm=2025
expect 2 'is too long' $tenure arena "$wake" --kernels "cmsis-nn@$(printf '1%.0s' {1..80})"
expect 2 'not a .tflite model' $tenure arena "$model"
expect 0 'lower bound' $tenure plan "$lite/loop.tflite" --kernels any
expect 2 'not one of' $tenure plan "$lite/loop.tflite" --kernels mine

# runs: inside the plan, without reuse, under poison, in pools, within a budget
run="$tenure run $model --weights random:1 --input-shape input=1,3,64,64"
expect 0 'every bit equal' $run --check naive
expect 0 'poison +clean' $run --poison --threads 2
expect 0 'every bit equal' $run --plain --no-rewrite --check naive --order memory
expect 0 '"format":"tenure-run"' $run --json --holders=100000 --check naive --poison
python3 - <<'P' || failed=1
import json
run = json.load(open("out"))
assert run["measured_peak"] == run["planned_peak"] == run["arena"] > 0 and run["weights"] > 0, run
assert run["check"] == {"naive": "equal"} and run["poison"] == "clean" and run["seconds"] > 0, run
assert len(run["outputs"]) == 1 and run["outputs"][0]["shape"] == [1, 1000] and len(run["outputs"][0]["xxh3"]) == 16, run
assert sum(row["allocated"] for row in run["holders"]) <= run["planned_peak"], run
open("need", "w").write(str(run["arena"] + run["weights"]))
open("whole", "w").write(str(run["weights"]))
P
expect 0 'poison +clean' $run --weights-dtype int8 --check naive --poison
expect 0 '"format":"tenure-run"' $run --weights-dtype int8 --plain --no-rewrite --json
python3 - <<'P' || failed=1
import json
run = json.load(open("out"))
whole = int(open("whole").read())
assert run["weights"] < 0.3 * whole, (run["weights"], whole)
P
expect 2 'not one of' $run --weights-dtype int4
expect 0 'pruned +90\.00 %.*' $run --prune 0.9 --check naive --poison
expect 0 '"pruned":.*"places":"(bits|8-bit)"' $run --prune 0.8 --prune-scope tensor --plain --no-rewrite --json
python3 - <<'P' || failed=1
import json
run = json.load(open("out"))
told, whole = run["pruned"], int(open("whole").read())
assert 0.79 < told["zeros"] / told["elements"] < 0.81 and 0 < told["error"] < 1, told
assert told["stored"] < 0.3 * told["bytes"] and run["weights"] < whole, (run["weights"], whole)
P
expect 0 'places' $run --prune 0.9 --weights-dtype int8 --static arena
for share in 1 -0.5 nan x; do expect 2 'prune' $run --prune $share; done
expect 2 'not one of' $run --prune 0.5 --prune-scope some
need=$(cat need)
expect 0 'planned peak' $run --budget "$need"
expect 1 "holders of .*" $run --budget $((need - 1)) --allow order,recompute
expect 1 "that is proved; the least found takes" $run --budget $((need - 1)) --allow order,recompute
expect 1 "recomputes whole operators fits .*Not tried: swap,compress,split,stream" $run --budget $((need - 1)) --allow order,recompute
expect 1 "it takes" $run --budget $((need - 1)) --pass none
expect 2 "no pass is called" $run --budget $((need - 1)) --pass nobody
for pool in $($tenure list pools | awk '{print $1}'); do
    [ "$pool" = planned ] || expect 0 "measured peak" $run --pool $pool
done
expect 1 'most is held by' $run --pool best-fit --budget $((need - 1000000))
expect 0 'wrote run.trace.csv' $run --pool bfc --trace run.trace.csv
expect 0 'planned ahead' $tenure replay run.trace.csv
expect 0 'wrote run.trace.json' $run --trace run.trace.json
python3 - <<'P' || failed=1
import json
events = json.load(open("run.trace.json"))["traceEvents"]
assert any(e.get("ph") == "X" and "Conv" in e.get("name", "") + e.get("cat", "") for e in events), events[:5]
assert any(e.get("ph") == "C" for e in events)
P
expect 0 'wrote|output' $run --output-dir out.d --input input=ones
python3 -c 'import sys; data = open("out.d/output.npy", "rb").read(); sys.exit(data[:6] != b"\x93NUMPY" or len(data) != 128 + 4000)' ||
    { echo "FAILED: no output.npy"; failed=1; }
expect 2 'has no input' $run --input nothing=ones
expect 2 'input .input. needs' $run --input input=out.d/output.npy
expect 2 'next to' $tenure run "$model"
expect 2 'cannot be combined' $run --poison --trace run.trace.json
expect 2 'does not end in .trace.json' $run --trace run.txt
expect 2 'no planner' $run --planner nobody
expect 2 'is unknown; write --check=naive' $run --check everything

# lists, and the manual says what --help says, which names no option twice
for command in plan verify run train arena split diff estimate simulate replay watch embed report list; do
    twice=$($tenure $command --help=all | grep -oE '^ {1,8}(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort | uniq -d)
    [ -z "$twice" ] || { echo "FAILED: tenure $command --help names twice: $twice"; failed=1; }
done
expect 0 'memory' $tenure list orders
expect 0 'greedy-by-size' $tenure list planners
expect 0 'min-cost-flow' $tenure list objects
expect 0 'best-fit' $tenure list pools
expect 0 'host' $tenure list devices
expect 0 'Conv ' $tenure list operators
expect 0 'onnx' $tenure list formats
expect 0 'tflite' $tenure list formats
expect 2 'no list' $tenure list tensors
for command in plan verify run train arena split diff estimate simulate replay watch embed report list; do
    for option in $($tenure $command --help=all | grep -oE '^ {1,8}(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
        sed 's/\\-/-/g' "$source/docs/man/tenure-$command.1" | grep -q -- "^\.B.*$option" ||
            { echo "FAILED: tenure-$command.1 does not know $option"; failed=1; }
    done
    for option in $(sed 's/\\-/-/g' "$source/docs/man/tenure-$command.1" | grep '^\.B -' | grep -oE -- '--[a-z-]+'); do
        $tenure $command --help=all | grep -q -- "$option" ||
            { echo "FAILED: tenure $command --help does not know $option"; failed=1; }
    done
done
# a topic's help fits a screen, and shows every option that it names
for topic in $($tenure estimate --help | sed -n 's/^tenure estimate --help=\([a-z]*\):.*/\1/p'); do
    COLUMNS=80 $tenure estimate --help=$topic >out
    [ $(wc -l <out) -le 50 ] || { echo "FAILED: the help of $topic has $(wc -l <out) lines"; failed=1; }
    named=$(sed -n "/{\"$topic\", /,/^     \"  tenure/p" "$source/src/cli/commands/estimate.c" | sed 1d | grep -v '"  tenure' | tr -d '",\n' | wc -w)
    [ $(grep -cE '^ {1,8}(-., )?--[a-z-]+' out) -eq $named ] || { echo "FAILED: the help of $topic misses an option"; failed=1; }
done
expect 2 "no topic 'zebra'" $tenure help estimate zebra
python3 "$source/tools/man-options" --check $tenure "$source"/docs/man/tenure-*.1 || failed=1
python3 "$source/tools/format-members" --check $tenure || failed=1
exit $failed
