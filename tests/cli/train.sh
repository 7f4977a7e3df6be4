#!/bin/bash
# `tenure train` as a user meets it: train.sh TENURE [RESNET]. RESNET takes pictures of 28 x 28; what
# is about it is left out where it is absent. Bad input: train_bad.sh; interrupted runs: kill.py.
set -u
. "$(dirname "$(readlink -f "$0")")/expect.sh"
tenure=$1
resnet=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$here/train_models.py" "$folder" || exit 1
cd "$folder"
check() { # of out, by a line of Python
    python3 -c "import json; run = json.load(open('out')); assert $1, run" || { echo "FAILED: $1"; failed=1; }
}

# Between the least that a program takes on this processor and all that is used without a budget: less FILE COMMAND...
less() {
    local file=$1
    shift
    expect 0 '' "$@" --steps 2 --json
    cp out whole
    expect 1 'least found takes' "$@" --steps 2 --budget 1KiB
    python3 - <<'P' >"$file" || failed=1
import json, re
whole = json.load(open("whole"))
least = int(re.search(r"least found takes [^(]*\(([\d,]+) bytes", open("err").read())[1].replace(",", ""))
print((least + whole["arena"] + whole["weights"]) // 2)
P
}

one_model() { # every optimizer and switch, in the planned arena and without reuse
    local train="$tenure train $1 --data $2 --batch 8 --weights random:1"
    expect 0 'every bit equal' $train --steps 6 --check naive --log log.csv
    python3 - <<'P' || failed=1
rows = open("log.csv").read().split()
assert rows[0] == "step,loss,correct" and len(rows) == 7, rows
assert all(0 < float(row.split(",")[1]) < 100 and 0 <= int(row.split(",")[2]) <= 8 for row in rows[1:]), rows
P
    for optimizer in sgd momentum adamw; do
        expect 0 'poison +clean' $train --steps 3 --optimizer $optimizer --poison --lr 1e-3
    done
    expect 0 'every bit equal' $train --steps 2 --micro-batches 2 --fuse-update --recompute-cheap --check naive
    # Computed again or not: the same parameters, from less memory.
    for again in "" "--recompute-work 0.3" "--recompute-cheap"; do
        expect 0 '' $train --steps 2 $again --checkpoint "again$again.ck" --json
        python3 -c "import json; print(json.load(open('out'))['arena'])" >"arena$again"
    done
    for again in "--recompute-work 0.3" "--recompute-cheap"; do
        cmp -s again.ck "again$again.ck" || { echo "FAILED: $again changes the bits"; failed=1; }
        [ "$(cat "arena$again")" -le "$(cat arena)" ] || { echo "FAILED: $again costs memory"; failed=1; }
    done
    # Less memory: fitted, and the same parameters.
    less less $train
    expect 0 '"fitted":' $train --steps 2 --budget "$(cat less)" --check naive --checkpoint fit.ck --json
    check "run['fitted']['recomputed'] > 0 or run['fitted']['time'] <= run['fitted']['plain_time']"
    check "run['arena'] + run['weights'] <= $(cat less) and run['measured_peak'] == run['planned_peak']"
    cmp -s again.ck fit.ck || { echo "FAILED: --budget changes the bits"; failed=1; }
    # Kept encoded where that is without loss: the same parameters, too.
    expect 0 '"fitted":' $train --steps 2 --budget "$(cat less)" --codecs bits,csr --check naive --checkpoint coded.ck --json
    cmp -s again.ck coded.ck || { echo "FAILED: --codecs bits,csr changes the bits"; failed=1; }
    # Kept encoded with loss: the errors are told, and a limit that no form meets keeps all parameters as they are.
    expect 1 'least found takes' $train --steps 1 --budget 1KiB --allow compress --codecs float8
    local lossy
    lossy="--allow compress --codecs float8 --budget $(python3 -c "import re
print(64 + int(re.search(r'least found takes [^(]*\(([\d,]+) bytes', open('err').read())[1].replace(',', '')))")"
    expect 0 'relative error at most' $train --steps 2 $lossy
    expect 0 '' $train --steps 2 $lossy --json
    check "all(0 <= it['relative'] <= 1 and it['kept'] == 0 and it['measured'] == 1 for it in run['losses'])"
    check "len(run['losses']) > 0 and run['losses'][0]['relative'] > 0"
    expect 0 '' $train --steps 2 $lossy --max-error 1e-12 --checkpoint coded.ck --json
    check "all(it['kept'] == it['measured'] == 2 or it['relative'] == 0 for it in run['losses'])"
    cmp -s again.ck coded.ck || { echo "FAILED: --max-error lets errors through"; failed=1; }
    # The loss in parts within a budget: the parameters of the same parts without one.
    expect 0 '' $train --steps 2 --loss-parts 4 --checkpoint parts.ck --json
    less less_parts $train --loss-parts 4
    expect 0 '"fitted":' $train --steps 2 --loss-parts 4 --budget "$(cat less_parts)" --check naive --checkpoint fit.ck --json
    check "run['arena'] + run['weights'] <= $(cat less_parts) and run['measured_peak'] == run['planned_peak']"
    cmp -s parts.ck fit.ck || { echo "FAILED: --budget changes the bits of a loss in parts"; failed=1; }
    expect 2 'not one of bits, csr' $train --steps 1 --codecs bits,zip
    expect 1 'it takes' $train --budget "$(cat less)" --pass none
    expect 2 '' $train --steps 1 --recompute-work x
    expect 2 'use an error above 0' $train --steps 1 --max-error 0
    expect 2 'needs --codecs float16|float10|float8' $train --steps 1 --max-error 1%
    for switch in --no-rewrite --plain "--order memory" "--threads 2" "--dtype f32" "--recompute-work 0.3"; do
        expect 0 'every bit equal' $train --steps 2 --check naive $switch
    done
    expect 0 'every bit equal' $train --steps 3 --check naive --dtype bf16
    local half="$train --dtype f16 --loss-scale dynamic"
    expect 0 'every bit equal' $half --steps 6 --check naive --checkpoint whole16.ck
    expect 0 '' $half --steps 3 --checkpoint part16.ck
    expect 0 '' $half --steps 6 --resume part16.ck --checkpoint part16.ck
    cmp -s whole16.ck part16.ck || { echo "FAILED: float16 resumed ends otherwise"; failed=1; }
    expect 2 'with --fuse-update .*parameters' $half --steps 1 --fuse-update
    # A schedule is what its rates do one by one: 0.01 and then half of it; half, and then 0.01.
    local rates="$train --optimizer momentum"
    expect 0 '' $rates --steps 1 --lr 0.01 --checkpoint first.ck
    expect 0 '' $rates --steps 2 --lr 0.005 --resume first.ck --checkpoint half.ck
    for fall in linear cosine; do
        expect 0 '' $rates --steps 2 --lr 0.01 --lr-schedule $fall --checkpoint fall.ck
        cmp -s half.ck fall.ck || { echo "FAILED: --lr-schedule $fall has another rate"; failed=1; }
    done
    expect 0 '' $rates --steps 1 --lr 0.005 --checkpoint first.ck
    expect 0 '' $rates --steps 2 --lr 0.01 --resume first.ck --checkpoint half.ck
    expect 0 '' $rates --steps 2 --lr 0.01 --warmup 1 --checkpoint fall.ck
    cmp -s half.ck fall.ck || { echo "FAILED: --warmup has another rate"; failed=1; }
    expect 2 'not one of constant' $train --steps 1 --lr-schedule steep
    expect 2 'use a number above 0, or dynamic' $train --steps 1 --loss-scale 0
    expect 2 'not one of' $train --steps 1 --dtype f8
    expect 0 '"format":"tenure-train"' $train --steps 2 --json
    check 'run["planned_peak"] == run["measured_peak"] == run["arena"] > 0 and run["steps"] == 2'
    expect 1 'least found takes' $train --budget 1KiB
    expect 1 'it takes' $train --budget 1KiB --pass none
    expect 1 'without changes.*it takes' $train --parallel data=2 --ranks-as-threads --budget 1KiB --pass none
    expect 0 'loss' $train --steps 3 --micro-batches 2 --trace run.trace.json --link 1GB/s
    expect 0 'loss' $train --steps 3 --trace run.trace.csv
    expect 0 '' $tenure replay run.trace.csv
}
one_model cnn.onnx x.npy,y.npy
if [ ! -e "$resnet" ]; then
    echo "SKIP: no shared data, so no larger network"
elif [ "$(case_count 2 1)" -eq 2 ]; then
    one_model "$resnet" big.npy,y.npy
fi

# trained parameters are used: by the test at the end, and by `run --weights`
train="$tenure train scaled.onnx --data x.npy,y.npy:x.npy,y.npy --batch 8 --lr 1e-2 --seed 3"
expect 0 'test_accuracy' $train --epochs 20 --checkpoint s.ck --json
cp out trained.json
run="$tenure run scaled.onnx --dim n=96 --input x=reals.npy"
expect 0 'y float32' $run --weights s.ck --output-dir scores
python3 "$here/train_models.py" --scores s.ck scores/y.npy trained.json || failed=1
expect 0 'every bit equal' $run --weights s.ck --plain --check naive
expect 0 'steps +12,' $train --weights s.ck --freeze scale --optimizer sgd --lr 0 --checkpoint t.ck
expect 0 'another|y float32' $run --weights t.ck --output-dir again
cmp -s scores/y.npy again/y.npy && { echo "FAILED: what was frozen is not in that checkpoint"; failed=1; }

expect 0 'test_accuracy' $tenure train cnn.onnx --data x.npy,y.npy:x.npy,y.npy --batch 8 --epochs 40 --lr 1e-2 \
    --checkpoint c.ck --json
cp out trained.json
run="$tenure run cnn.onnx --dim n=96 --input x=pictures.npy --weights c.ck"
expect 0 'y float32' $run --output-dir scores
expect 0 'y float32' $run --output-dir again --plain
python3 "$here/train_models.py" --right scores/y.npy again/y.npy trained.json || failed=1

# a log goes on where the checkpoint is; nothing is told of steps that were not made
train="$tenure train cnn.onnx --data x.npy,y.npy --batch 8"
expect 0 'loss' $train --steps 7 --log whole.csv --trainable 'w'
expect 0 'loss' $train --steps 4 --checkpoint part.ck --log part.csv
echo '5,0,0' >>part.csv
expect 0 'loss' $train --steps 7 --resume part.ck --log part.csv
cmp whole.csv part.csv || failed=1
expect 0 'is at step 4 of 2; no steps are left' $train --steps 2 --resume part.ck
grep -q loss out && { echo "FAILED: the loss of no step"; failed=1; }
expect 0 '' $train --steps 2 --resume part.ck --json
check '"loss" not in run and run["steps"] == 4'

# text, and what a signal leaves
lm="$tenure train lm.onnx --data text:book.txt --batch 8 --lr 1e-1"
expect 0 '"accuracy":0.[6-9]' $lm --steps 300 --json
$lm --steps 2000000 --checkpoint lm.ck --log lm.csv >out 2>err &
while ! [ -e lm.ck ]; do sleep 0.1; done
kill -INT $!
wait $!
got=$?
[ $got -eq 130 ] && grep -q 'stopped by a signal after step .*--resume lm.ck' err ||
    { echo "FAILED: status $got after SIGINT"; cat err; failed=1; }
steps=$(tail -1 lm.csv | cut -d, -f1)
expect 0 "steps +$((steps + 3))," $lm --steps $((steps + 3)) --resume lm.ck
# the scale of a quantised weight in two initializers with the same contents: the same training
for model in pair pairs; do
    expect 0 '"loss":' $tenure train $model.onnx --data rows.npy,row_labels.npy --batch 8 --steps 4 --plain --json
    grep -o '"loss":[0-9.]*' out >$model.loss
done
cmp pair.loss pairs.loss || { echo "FAILED: two initializers train otherwise than one"; failed=1; }
expect 2 'DequantizeLinear.: no gradient passes this operator .* not a pair' $tenure train pairs_other.onnx --data rows.npy,row_labels.npy --batch 8 --steps 1

exit $failed
