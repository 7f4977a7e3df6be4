#!/bin/bash
# What `tenure train` says of bad input: train_bad.sh TENURE. Status 2, a message that names what is
# wrong, and no file that was good is touched.
set -u
. "$(dirname "$(readlink -f "$0")")/expect.sh"
tenure=$1
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$here/train_models.py" "$folder" || exit 1
cd "$folder"
cnn="$tenure train cnn.onnx --batch 8"
lm="$tenure train lm.onnx --batch 8"
good="$cnn --data x.npy,y.npy"

# the model
expect 2 "dequantizelinear_y.*no gradient passes" $tenure train rounded.onnx --data x.npy,y.npy
expect 0 'loss' $tenure train fake.onnx --data x.npy,y.npy
expect 2 "dequantizelinear_y.*not a pair" $tenure train rounded.onnx --data x.npy,y.npy --freeze 7
expect 2 "2 arrays without names, but a step takes 'x', 'z' and labels" $tenure train two.onnx --data x.npy,y.npy
expect 0 'loss' $tenure train fixed.onnx --data x.npy,y.npy
expect 0 'loss' $tenure train fixed.onnx --data x.npy,y.npy --batch 8
expect 2 "no parameter matches|pattern" $good --freeze 'nothing*'
expect 2 'cannot train a model' $good --optimizer none
expect 2 '' $tenure train x.npy --data x.npy,y.npy
expect 2 'no input for samples' $tenure train nothing.onnx --data x.npy,y.npy
head -c 900 cnn.onnx >cut.onnx
expect 2 '' $tenure train cut.onnx --data x.npy,y.npy

# outputs that would replace the data, and binary files among the table
cp x.npy x.kept; cp y.npy y.kept
expect 2 "would replace the input 'x.npy'" $good --checkpoint x.npy
expect 2 "would replace the input 'y.npy'" $good --log y.npy
expect 2 "would replace the input 'y.npy'" $cnn --data x=x.npy,y.npy --log ./y.npy
cmp -s x.npy x.kept && cmp -s y.npy y.kept || { echo "FAILED: data of the training was replaced"; exit 1; }
expect 2 'standard output has the table' $good --save-model -
expect 2 'standard output has the table' $good --checkpoint -
expect 2 'does not end in .onnx' $good --save-model model.tflite
expect 2 'is the file of --checkpoint' $good --checkpoint a.onnx --save-model a.onnx

# a learning rate that is too high; a checkpoint before it stays
expect 0 'written' $good --steps 3 --checkpoint good.ck
cp good.ck kept.ck
wild="--optimizer sgd --lr 1e9 --weight-decay 1e9"
expect 2 'step [0-9]+ is not a number \(learning rate 1e\+09\).*good.ck stays' \
    $good --steps 90 --checkpoint good.ck $wild
cmp good.ck kept.ck || failed=1
expect 2 'step [0-9]+ is not a number' $good --steps 90 $wild --micro-batches 2
expect 2 "after step 3 'w' holds what is not a number; no checkpoint is written, new.ck stays" \
    $tenure train scaled.onnx --data x.npy,y.npy --freeze scale --batch 8 $wild --checkpoint new.ck --checkpoint-every 1
expect 0 'steps +2,' $tenure train scaled.onnx --data x.npy,y.npy --freeze scale --batch 8 --steps 2 $wild \
    --checkpoint two.ck
cmp new.ck two.ck || { echo "FAILED: the checkpoint before the numbers went is another"; failed=1; }

expect 2 '--momentum needs --optimizer momentum; add' $good --momentum 0.5
expect 2 '--momentum: 0 is not supported; use --optimizer sgd' $good --optimizer momentum --momentum 0
expect 0 'loss' $good --steps 1 --momentum 0.5 --optimizer momentum

# names in a file do not steer the terminal; letters of other languages stay
python3 - <<'P'
data = open("rounded.onnx", "rb").read()
name = b"\x1b[31m\x07\x7f" + "\u009b\u00e9\u4e2d".encode() + b"ar_y"
assert b"dequantizelinear_y" in data and len(name) == 18
open("steer.onnx", "wb").write(data.replace(b"dequantizelinear_y", name))
P
expect 2 "'.*\\[31m.*\\\\u009bé中ar_y'.*no gradient" $tenure train steer.onnx --data x.npy,y.npy
LC_ALL=C grep -q '[[:cntrl:]]' err && { echo "FAILED: a control character reaches the terminal"; failed=1; }

# pictures and labels
expect 2 'wrong.npy: sample 41 has label 10; the model has 10 classes, from 0 to 9' $cnn --data x.npy,wrong.npy
expect 2 'odd/train-labels.*sample 41 has label 10' $cnn --data fashion-mnist:odd
expect 2 'x.npy has 96 samples, but few.npy has 3' $cnn --data x.npy,few.npy
expect 2 'none.npy holds no samples' $cnn --data none.npy,none.npy
expect 2 'wide.npy: each of its samples is uint8 \[1,4,16\].*float32 \[1,8,8\]' $cnn --data wide.npy,y.npy
expect 2 'rates.npy: each of its labels is float32' $cnn --data x.npy,rates.npy
expect 2 'nan.npy: number 0 of its samples' $cnn --data nan.npy,y.npy
expect 2 'wide.npy' $cnn --data x.npy,y.npy:wide.npy,y.npy
expect 2 'wrong.npy' $cnn --data x.npy,y.npy:x.npy,wrong.npy
expect 2 'cannot open' $cnn --data nothing.npy,y.npy
expect 2 'neither fashion-mnist' $cnn --data nothing
expect 2 'do not fill a batch' $tenure train cnn.onnx --batch 1000 --data x.npy,y.npy
expect 2 'do not make one update' $good --micro-batches 100
for bytes in 0 3 20 100 1000; do
    head -c $bytes x.npy >cut.npy
    expect 2 'cut.npy' $cnn --data cut.npy,y.npy
done
expect 2 'cannot open' $cnn --data fashion-mnist:nowhere
for file in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    for bytes in 0 5 21 60; do
        head -c $bytes set/$file-ubyte.gz >cut/$file-ubyte.gz
        expect 2 "cut/$file" $cnn --data fashion-mnist:cut
    done
    size=$(stat -c %s set/$file-ubyte.gz)
    head -c $((size - 1)) set/$file-ubyte.gz >cut/$file-ubyte.gz
    expect 2 "cut/$file.*(cut short|damaged)" $cnn --data fashion-mnist:cut
    gunzip <set/$file-ubyte.gz >plain
    printf x | cat plain - >cut/$file-ubyte.gz
    expect 2 "cut/$file.*longer" $cnn --data fashion-mnist:cut
    cp plain cut/$file-ubyte.gz
    expect 0 'on test samples' $cnn --data fashion-mnist:cut
done

# text
expect 2 'text is for models' $cnn --data text:book.txt
expect 2 'each of its samples' $lm --data x.npy,y.npy
: >empty.txt
expect 2 'empty.txt has 0 bytes' $lm --data text:empty.txt
head -c 17 book.txt >short.txt
expect 2 'short.txt has 16 bytes' $lm --data text:short.txt
expect 2 'cannot open' $lm --data text:nothing.txt

# checkpoints
expect 2 'nothing.ck: cannot open' $good --resume nothing.ck
expect 2 'not a checkpoint' $good --resume x.npy
mkfifo pipe
for endless in /dev/zero pipe .; do
    expect 2 'not a regular file' timeout 1200 $good --resume $endless
    expect 2 'not a regular file' timeout 1200 $good --weights $endless
    expect 2 'not a regular file' timeout 1200 $tenure run cnn.onnx --dim n=1 --weights $endless
done
expect 2 'another seed' $good --resume good.ck --seed 4
expect 2 'another optimizer: adam there, sgd here' $good --resume good.ck --optimizer sgd
expect 2 "'w', which this run does not train: it is frozen" $good --resume good.ck --freeze 'w'
expect 2 "another model: this one has no parameter 'kernel'" $lm --data text:book.txt --weights good.ck
expect 2 'cannot open' $good --weights nothing.ck
size=$(stat -c %s good.ck)
for bytes in 0 8 79 80 500 $((size - 1)); do
    head -c $bytes good.ck >cut.ck
    expect 2 'cut.ck.*(cut short|damaged)' $good --resume cut.ck
    expect 2 'cut.ck.*(cut short|damaged)' $tenure run cnn.onnx --dim n=1 --weights cut.ck
done
python3 - <<'P'
for at in 16, 30, 5000:
    data = bytearray(open("good.ck", "rb").read())
    data[at] ^= 1
    open("flipped%d.ck" % at, "wb").write(data)
P
for at in 16 30 5000; do expect 2 'flipped.*damaged' $good --resume flipped$at.ck; done
printf x | cat good.ck - >longer.ck
expect 2 'longer.ck.*damaged' $good --resume longer.ck

# nowhere to write
expect 2 'nowhere/c.ck' $good --checkpoint nowhere/c.ck
expect 2 'nowhere/log.csv' $good --log nowhere/log.csv
expect 2 'No space' $good --log /dev/full
expect 2 'nowhere/r.trace.csv' $good --trace nowhere/r.trace.csv
expect 2 'not a speed' $good --link fast
expect 2 'not a speed' $good --link 1GB
expect 2 'No space' $good --checkpoint /dev/full
expect 2 'good.ck: cannot write: File too large' \
    bash -c "trap '' XFSZ; ulimit -f 4; exec $good --steps 9 --checkpoint good.ck"
cmp good.ck kept.ck || failed=1
[ -z "$(ls good.ck.* 2>/dev/null)" ] || { echo "FAILED: a half of a checkpoint stays"; failed=1; }
mkdir folder
expect 2 'folder' $good --checkpoint folder
exit $failed
