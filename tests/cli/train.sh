#!/bin/bash
# `tenure train` as a user meets it: train.sh TENURE MODEL [KILLS]. The model takes pictures of 28 x 28.
# Interrupted at KILLS random moments (10) and resumed, a run must end with the bits of one that was not.
set -u
tenure=$1
model=$2
kills=${3:-10}
[ -e "$model" ] || { echo "SKIP: $model is absent"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failed=0
python3 - <<'P'
import random, struct
random.seed(5)
def npy(path, descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * (117 - len(head)) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
n = 96
labels = [random.randrange(10) for _ in range(n)]
pictures = bytes(random.randrange(64) + 19 * labels[i] for i in range(n) for _ in range(784))
npy("x.npy", "|u1", (n, 1, 28, 28), pictures)
npy("y.npy", "<i8", (n,), struct.pack("<%dq" % n, *labels))
npy("bad.npy", "<i8", (n,), struct.pack("<%dq" % n, *[77] * n))
npy("few.npy", "<i8", (3,), struct.pack("<3q", 1, 2, 3))
P
expect() {
    local status=$1 pattern=$2
    shift 2
    "$@" >out 2>err </dev/null
    local got=$?
    if [ $got -ne "$status" ] || ! cat out err | grep -qE -- "$pattern"; then
        echo "FAILED: $* (status $got, expected $status and '$pattern')"
        cat out err | head -5
        failed=1
    fi
}
train="$tenure train $model --data x.npy,y.npy --batch 8 --weights random:1"

expect 0 'every bit equal' $train --steps 6 --check naive --log log.csv
python3 - <<'P' || failed=1
rows = open("log.csv").read().split()
assert rows[0] == "step,loss,correct" and len(rows) == 7, rows
assert all(0 < float(row.split(",")[1]) < 100 and 0 <= int(row.split(",")[2]) <= 8 for row in rows[1:]), rows
P
for optimizer in sgd momentum adamw; do
    expect 0 'poison +clean' $train --steps 3 --optimizer $optimizer --poison --lr 1e-3
done
expect 0 'every bit equal' $train --steps 2 --micro-batches 2 --fuse-update --check naive
expect 0 '"format":"tenure-train"' $train --steps 2 --json
python3 - <<'P' || failed=1
import json
run = json.load(open("out"))
assert run["planned_peak"] == run["measured_peak"] == run["arena"] > 0 and run["steps"] == 2, run
P
expect 0 'on test samples' $tenure train "$model" --data x.npy,y.npy:x.npy,y.npy --batch 8 --steps 1
expect 1 'would do' $train --budget 1MiB
expect 2 'no number' $train --steps 9 --optimizer sgd --lr 1e30
expect 2 '' $tenure train "$model" --data x.npy,bad.npy --batch 8 --steps 1
expect 2 'labels' $tenure train "$model" --data x.npy,few.npy --batch 8
expect 2 'cannot open' $tenure train "$model" --data nothing.npy,y.npy
expect 2 'neither fashion-mnist' $tenure train "$model" --data nothing
expect 2 'do not fill a batch' $tenure train "$model" --data x.npy,y.npy --batch 1000
head -c 3000 x.npy >cut.npy
expect 2 '' $tenure train "$model" --data cut.npy,y.npy --batch 8

# killed and resumed
expect 0 'steps' $train --steps 12 --checkpoint whole.ck --checkpoint-every 3
for ((i = 0; i < kills; i++)); do
    rm -f part.ck
    for ((tries = 0; tries < 40; tries++)); do
        resume=
        [ -e part.ck ] && resume="--resume part.ck"
        $train --steps 12 --checkpoint part.ck --checkpoint-every 3 $resume >out 2>err &
        sleep 0.$((RANDOM % 9))$((RANDOM % 10))
        [ $tries -lt 3 ] && kill -9 $! 2>/dev/null
        wait $! 2>/dev/null && break
    done
    cmp -s whole.ck part.ck || { echo "FAILED: killed and resumed, run $i ends otherwise"; failed=1; }
done
train16="$train --dtype f16 --loss-scale dynamic"
expect 0 'every bit equal' $train --dtype bf16 --steps 3 --check naive
expect 0 'every bit equal' $train16 --steps 6 --check naive --checkpoint whole16.ck
expect 0 '' $train16 --steps 3 --checkpoint part16.ck
expect 0 '' $train16 --steps 6 --resume part16.ck --checkpoint part16.ck
cmp -s whole16.ck part16.ck || { echo "FAILED: float16 resumed ends otherwise"; failed=1; }
expect 2 'fuse_update' $train16 --steps 1 --fuse-update
expect 2 'neither dynamic nor' $train --steps 1 --loss-scale 0
expect 2 'none of' $train --steps 1 --dtype f8
expect 2 'another seed' $train --steps 20 --resume whole.ck --seed 4
head -c 5000 whole.ck >cut.ck
expect 2 'damaged|cut short' $train --steps 20 --resume cut.ck
printf x >>whole.ck
expect 2 'damaged' $train --steps 20 --resume whole.ck
exit $failed
