#!/bin/bash
# `tenure estimate` as a user meets it: statuses, messages, the largest batch. estimate.sh TENURE SOURCE
set -u
. "$(dirname "$(readlink -f "$0")")/expect.sh"
tenure=$1
source=$2
model=$source/examples/models/mobilenet_v2.onnx
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# total OPTIONS...: bytes, by --json
total() { $tenure estimate "$model" --json "$@" | python3 -c 'import json,sys; print(json.load(sys.stdin)["total"])'; }

expect 0 'peak .*step' $tenure estimate "$model"
expect 0 'caching' $tenure estimate "$model" --pool caching --batch 4
expect 0 'fits +yes' $tenure estimate "$model" --device t4
expect 1 'fits +no' $tenure estimate "$model" --device 1MiB
expect 2 'list hardware' $tenure estimate "$model" --device abacus
expect 2 'must be above 0' $tenure estimate "$model" --device 0
expect 2 'pool' $tenure estimate "$model" --pool puddle
expect 2 'is not one of demand, start' $tenure estimate "$model" --alloc-policy never
expect 2 '--max-batch needs --device; add --device' $tenure estimate "$model" --max-batch
expect 2 'needs --train' $tenure estimate "$model" --dtype bf16
expect 2 'not one of sgd' $tenure estimate "$model" --train --optimizer magic
expect 2 'from 1' $tenure estimate "$model" --batch 0
expect 2 'need an .onnx or .pt2 model' $tenure estimate "$source/examples/models/wake_words.tflite" --batch 2
expect 0 'total' $tenure estimate "$source/examples/models/wake_words.tflite" --kernels cmsis-nn
expect 2 '' $tenure estimate nowhere.onnx
expect 0 'A100' $tenure list hardware

# an option that would do nothing names what it needs
while read -r option needs; do
    expect 2 "--${option%%=*} .*$needs" $tenure estimate "$model" --$option
done <<'J'
sequence=8 --parallel
sequence-parallel --parallel
micro-batch=2 --parallel
optimizer=adam --train
loss=cross-entropy --train
micro-batches=2 --train
fuse-update --train
recompute-cheap --train
J
for optimizer in sgd adam adamw none; do
    expect 2 "--momentum needs --optimizer momentum, not $optimizer; use" \
        $tenure estimate "$model" --train --optimizer $optimizer --momentum 0.5
done
expect 0 'total' $tenure estimate "$model" --train --optimizer momentum --momentum 0.5
expect 0 'total' $tenure estimate "$model" --train --micro-batches 2 --loss cross-entropy

# what cannot be trained
expect 2 'no parameter' $tenure estimate "$source/examples/models/five_operators.onnx" --train
expect 2 'as cannot be combined with --freeze' $tenure estimate "$model" --as pytorch --freeze '*'
expect 0 'optimizer_state' $tenure estimate "$model" --as pytorch --optimizer adam

# the policies order themselves: what is kept longer is never less
plain=$(total)
start=$(total --alloc-policy start)
both=$(total --alloc-policy start --release-policy exit)
[ "$plain" -le "$start" ] && [ "$start" -le "$both" ] || { echo "FAILED: policies: $plain, $start, $both"; failed=1; }

# the largest batch is what trial and error finds
for limit in 40MiB 80MiB; do
    bytes=$((${limit%MiB} << 20))
    found=$($tenure estimate "$model" --device $limit --max-batch --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["max_batch"])')
    tried=0
    while [ "$(total --batch $((tried + 1)))" -le $bytes ]; do tried=$((tried + 1)); done
    [ "$found" = "$tried" ] || { echo "FAILED: --max-batch for $limit is $found, by trial $tried"; failed=1; }
done
# a batch that the file leaves open; one that its shapes are written for
open=$source/../shared/data/onnx/fashion_resnet.onnx fixed=$source/../shared/data/onnx-weightless/vit_b_16.onnx
if [ -e "$open" ]; then
    expect 0 'largest batch +[1-9]' $tenure estimate "$open" --train --max-batch --device 4MiB
    expect 0 'largest batch +[1-9][0-9]{2}' $tenure estimate "$fixed" --max-batch --device 4GiB
    dense=${open%/*}-weightless/densenet121.onnx all="--train --optimizer none --fuse-update --recompute-cheap --order memory --dtype bf16"
    frozen=$($tenure estimate "$dense" $all --freeze 'features.*' --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["total"])')
    expect 1 "freeze 'features" $tenure estimate "$dense" $all --device "$frozen"
fi

# a change that is offered does fit
$tenure estimate "$model" --pool caching --device 24MiB --json >out
python3 - <<'P' || failed=1
import json
found = json.load(open("out"))
assert not found["fits"] and found["changes"], found
assert all(change["total"] <= 24 << 20 for change in found["changes"])
assert sum(found["parts"].values()) == found["total"]
P

# training, against `tenure train` itself
network=$source/../shared/data/onnx/fashion_resnet.onnx
python3 - <<'P' # eight pictures and no others: nothing is measured on a test set
import struct
for name, kind, shape, data in (("x", "<f4", (8, 1, 28, 28), bytes(4 * 8 * 784)), ("y", "<i8", (8,), bytes(64))):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    open(name + ".npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
P
if [ -e "$network" ] && $tenure train "$network" --data x.npy,y.npy --batch 4 --steps 1 --optimizer adam --json >trained 2>err; then
    $tenure estimate "$network" --train --batch 4 --optimizer adam --kernels onednn --json >out 2>err ||
        $tenure estimate "$network" --train --batch 4 --optimizer adam --kernels plain --json >out
    python3 - <<'P' || failed=1
import json
trained, found = json.load(open("trained")), json.load(open("out"))
assert (trained["arena"], trained["weights"]) == (found["arena"], found["static"]), (trained, found)
P
else
    echo "SKIP: no ../shared/data to train with"
fi

# large transformers
cat >config.json <<'J'
{"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
 "vocab_size": 32000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6}
J
expect 0 'parameters +6,738,415,616' $tenure estimate config.json --train
expect 1 'fits +no' $tenure estimate config.json --train --device a100-80
expect 0 'fits +yes' $tenure estimate config.json --train --device a100-80 --parallel tensor=4,data=8 --shard optimizer
expect 0 'ranks' $tenure estimate config.json --train --parallel tensor=8,pipeline=8,data=16 --json
grep -q '"ranks":1024' out || { echo "FAILED: ranks"; failed=1; }
for option in freeze=7 loss=output micro-batches=2 fuse-update kernels=plain kernels=any pool=bfc max-batch \
    parallel=safe parallel=serial runtime=1MiB alloc-policy=start release-policy=exit as=pytorch planner=greedy \
    threads=2 no-rewrite alignment=64 bank=a=none order=memory; do
    expect 2 "--${option%%=*} .*no effect on an estimate by formulas" \
        $tenure estimate config.json --train --$option --device 1GiB
done
expect 2 'dim has no effect on a config.json' $tenure estimate config.json --train --dim N=2
expect 2 'dim has no effect on the run of a language model' $tenure estimate config.json --dim N=2
expect 0 'parameters' $tenure estimate config.json --train --optimizer sgd --dtype f32 --batch 8 --sequence 512 \
    --micro-batch 2 --parallel tensor=2 --sequence-parallel
expect 2 'cannot be divided by pipeline 5' $tenure estimate config.json --train --parallel pipeline=5
expect 2 'should read data=N' $tenure estimate config.json --train --parallel tensor=x
expect 2 'should read data=N' $tenure estimate config.json --parallel sideways=2
# divided by itself, and how long
cluster="--train --batch 64 --device a100-80"
expect 0 'divided +tensor=[1248],pipeline=' $tenure estimate config.json $cluster --parallel auto --devices 16
expect 0 '"share_of_rate":0\.' $tenure estimate config.json $cluster --parallel auto --devices 16 --json
expect 0 'time +[0-9.]+ s an iteration, predicted' $tenure estimate config.json $cluster \
    --parallel tensor=2,pipeline=4,data=2,interleave=2 --shard optimizer --link-slow 10GB/s --per-node 4
expect 0 '^ +64 ' $tenure estimate config.json $cluster --sweep --devices 64
expect 0 '"rows":\[' $tenure estimate config.json $cluster --sweep --devices 16 --json
expect 0 'wrote scaling.svg' $tenure estimate config.json $cluster --sweep --devices 64 -o scaling.svg
rows=$(grep -c '^ *[0-9]\+ \+[0-9]\+ ' out)
[ "$rows" -ge 3 ] && [ "$(grep -c '<circle' scaling.svg)" -eq $((3 * rows)) ] && [ "$(grep -c '<polyline' scaling.svg)" -eq 4 ] &&
    grep -q '>64</text>' scaling.svg && tail -1 scaling.svg | grep -qx '</svg>' || { echo "FAILED: scaling.svg"; failed=1; }
expect 2 'single .svg' $tenure estimate config.json $cluster --sweep -o scaling.html
expect 2 'single .svg' $tenure estimate config.json $cluster --sweep -o a.svg -o b.svg
expect 1 'no division among 1 devices fits' $tenure estimate config.json $cluster --parallel auto --devices 1
expect 2 'auto needs --devices or --sweep; add --devices N' $tenure estimate config.json $cluster --parallel auto
expect 2 'needs the speed of a device' $tenure estimate config.json --train --parallel auto --devices 8 --device 80GiB
expect 2 'a speed must be above 0' $tenure estimate config.json $cluster --parallel auto --devices 8 --link-fast 0GB/s
expect 2 'chooses ranks' $tenure estimate config.json $cluster --sweep --micro-batch 2
expect 2 'needs --parallel auto' $tenure estimate config.json $cluster --devices 8
expect 2 'cannot be divided by interleave 3' $tenure estimate config.json $cluster --parallel pipeline=4,interleave=3
# to run: without --train
expect 0 'parameters +6,738,415,616' $tenure estimate config.json
expect 0 'weights .*\(13,476,831,232 bytes\) as bf16' $tenure estimate config.json
expect 0 'cache .*\(1,073,741,824 bytes\): 1 x 2048 tokens' $tenure estimate config.json
expect 0 '4 x 1024 tokens as q8_0' $tenure estimate config.json --batch 4 --sequence 1024 --cache-type q8_0
expect 1 "^1[45].[0-9] GiB \\([0-9,]* bytes\\), does not fit$" $tenure estimate config.json --brief --device t4
expect 0 "^13.7 GiB \\([0-9,]* bytes\\), may fit$" $tenure estimate config.json --brief --device t4 --runtime none
expect 0 'as q4_k_m' $tenure estimate config.json --weight-type Q4_K_M
expect 2 "'q9'; known are f32" $tenure estimate config.json --weight-type q9
expect 2 'not one of f32' $tenure estimate config.json --cache-type q9
expect 2 'weight-type needs the run of a language model' $tenure estimate config.json --train --weight-type int4
expect 2 'cache-type needs the run of a language model' $tenure estimate "$model" --cache-type q8_0
# several devices, and parts of the model in host memory; where it does not fit, both are tried, and what is offered fits
expect 0 'at most on each of 2 devices, which share every matrix' $tenure estimate config.json --parallel tensor=2
expect 0 'at most on each of 4 devices, which share the layers' $tenure estimate config.json --parallel pipeline=4
expect 0 'host memory .* at most, in addition' $tenure estimate config.json --host-layers 10
expect 2 'do not divide 32 attention heads' $tenure estimate config.json --parallel tensor=5
expect 2 'data=N. takes as much again' $tenure estimate config.json --parallel data=2
expect 2 'host-layers needs the run of a language model' $tenure estimate config.json --train --host-layers 2
expect 1 'host-layers' $tenure estimate config.json --device 8GiB
$tenure estimate config.json --device 8GiB --json >out
python3 - $tenure <<'P' || failed=1
import json, subprocess, sys
changes = json.load(open("out"))["changes"]
assert any("--host-layers" in c["change"] for c in changes) and any("--parallel" in c["change"] for c in changes), changes
for change in changes:
    found = json.loads(subprocess.run([sys.argv[1], "estimate", "config.json", "--device", "8GiB", "--json", *change["change"].split()],
                                      capture_output=True, text=True).stdout)
    assert found["fits"] and found["total"] == change["total"], (change, found["total"])
P
for option in shard=optimizer recompute=full micro-batch=2 sequence-parallel parallel=auto optimizer=adam dtype=bf16; do
    expect 2 "--${option%%=*}.* needs --train" $tenure estimate config.json --$option
done
for option in kernels=plain pool=bfc parallel=safe alloc-policy=start planner=greedy threads=2 order=memory; do
    expect 2 "--${option%%=*} .*has no effect on the run of a language model" $tenure estimate config.json --$option
done
expect 1 'would fit with.*--weight-type int4' $tenure estimate config.json --device 6GiB --sequence 256
expect 1 'no change that Tenure can suggest makes it fit' $tenure estimate config.json --device 1GiB
expect 2 '--max-batch needs --device; add --device' $tenure estimate config.json --max-batch
python3 - "$tenure" <<'P' || failed=1
import json, subprocess, sys
def ask(*more):
    done = subprocess.run([sys.argv[1], "estimate", "config.json", "--json", *more], stdout=subprocess.PIPE)
    return json.loads(done.stdout)
most = ask("--device", "t4", "--sequence", "256", "--max-batch", "--runtime", "1GiB")["max_batch"]
assert most > 1
for batch, fits in (most, True), (most + 1, False):
    assert ask("--device", "t4", "--sequence", "256", "--runtime", "1GiB", "--batch", str(batch))["fits"] == fits
for limit in 4, 6, 8, 12, 14:
    found = ask("--batch", "2", "--device", "%dGiB" % limit)
    assert sum(found["parts"].values()) == found["total"] and not found["fits"], found
    for change in found["changes"]:  # each does fit when it is taken
        words = change["change"].split()
        batch = [] if "--batch" in words else ["--batch", "2"]
        again = ask(*batch, *words, "--device", "%dGiB" % limit)
        assert again["fits"] and again["total"] == change["total"], (change, again)
P
# the same of training: what is advised is taken, and fits with the bytes and the time that were told
python3 - "$tenure" <<'P' || failed=1
import json, subprocess, sys
def ask(*more):
    done = subprocess.run([sys.argv[1], "estimate", "config.json", "--train", "--json", *more], stdout=subprocess.PIPE)
    return json.loads(done.stdout)
advised = set()
for given in [], ["--parallel", "data=4"], ["--parallel", "tensor=4", "--sequence", "8192"], ["--dtype", "f32"]:
    for device in "t4", "a100-40", "A100-80GB", "h200", "130GiB":
        before = ask(*given, "--device", device)
        if before["fits"]:
            continue
        assert len(set(change["change"] for change in before["changes"])) == len(before["changes"])
        for change in before["changes"]:
            words = change["change"].split()
            kept = [] if "auto" in words else given if "--sequence" not in words or "--sequence" not in given else given[:2]
            if "auto" in words and "--sequence" in given:
                kept = given[2:]
            if "auto" in words and "--dtype" in given:
                kept = given
            advised.add(words[0])
            after = ask(*kept, *words, "--device", device)
            assert after["fits"] and after["total"] == change["total"], (given, device, change, after)
            if "more_time" in change:
                more = after["time"]["seconds"] / before["time"]["seconds"] - 1
                assert abs(more - change["more_time"]) < 1e-4, (change, more)
assert {"--recompute", "--shard", "--sequence", "--parallel"} <= advised, advised
divided = ask("--parallel", "tensor=4", "--sequence-parallel")["total"]
assert ask("--parallel", "tensor=4", "--device", str(divided))["changes"][0] == {"change": "--sequence-parallel", "total": divided}
P
expect 1 'would fit with +--parallel auto --devices 2' $tenure estimate "$source/examples/configs/llama_8b.json" --train --device A100-80GB
# files of weights; what nobody here reads says how it is exported
corpus=$source/fuzz/corpus/weights
expect 0 'weights file +4 tensors' $tenure estimate "$corpus/llama.gguf"
expect 0 'as q4_0' $tenure estimate "$corpus/llama.gguf"
expect 0 'cache .*\(16,384 bytes\)' $tenure estimate "$corpus/llama.gguf"
expect 2 'weight-type' $tenure estimate "$corpus/llama.gguf" --weight-type int4
expect 2 'does not describe the network' $tenure estimate "$corpus/llama.gguf" --train
expect 0 'cache +unknown: the folder of the weights has no config.json' $tenure estimate "$corpus/plain.safetensors"
cp "$corpus/plain.safetensors" model.safetensors
expect 0 'cache ' $tenure estimate model.safetensors
expect 0 'as in the file' $tenure estimate model.safetensors
# a folder is a model: index and shards, numbered parts; the weights are known when the family is not
python3 - <<'P'
import json, os, struct
def shard(path, names):
    header = {n: {"dtype": "BF16", "shape": [8, 8], "data_offsets": [128 * i, 128 * i + 128]} for i, n in enumerate(names)}
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + bytes(128 * len(names)))
for folder in "index", "parts", "missing", "two", "empty":
    os.makedirs(folder)
for folder in "index", "parts":
    shard(folder + "/model-00001-of-00002.safetensors", ["model.layers.0.a", "model.layers.0.b"])
    shard(folder + "/model-00002-of-00002.safetensors", ["model.layers.1.a"])
json.dump({"weight_map": {"model.layers.0.a": "model-00001-of-00002.safetensors", "model.layers.1.a": "model-00002-of-00002.safetensors"}},
          open("index/model.safetensors.index.json", "w"))
json.dump({"model_type": "of_tomorrow", "hidden_size": 8}, open("index/config.json", "w"))
shard("missing/model-00002-of-00002.safetensors", ["a"])
os.makedirs("half")
shard("half/model.safetensors", ["model.embed_tokens.weight"] + ["model.layers.%d.a" % i for i in (0, 2)])
json.dump({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 1, "intermediate_size": 8,
           "vocab_size": 8}, open("half/config.json", "w"))
shard("two/a.safetensors", ["a"])
shard("two/b.safetensors", ["b"])
P
expect 0 '384 bytes at least' $tenure estimate index
expect 0 'cache +unknown: model_type "of_tomorrow"' $tenure estimate index/ --device 1MiB
expect 0 'fits +not known' $tenure estimate index --device 1MiB
expect 1 'fits +no' $tenure estimate index --device 383
expect 0 '"total":null,"at_least":384,.*"weights":384,"cache":null,"workspace":null' $tenure estimate index --json
expect 1 'fits +no: tensors of 2 of 4 layers are not in the file' $tenure estimate half --sequence 8 --device 24GiB
expect 0 '3 tensors of 192 numbers in 2 files' $tenure estimate parts
expect 2 'download all parts' $tenure estimate missing
expect 2 'several models.*a.safetensors.*b.safetensors' $tenure estimate two
expect 2 'the folder has no .safetensors file, no .gguf file and no config.json' $tenure estimate empty
expect 2 'pass the folder' $tenure estimate index/config.json
mkdir known && cp config.json known
expect 0 'parameters +6,738,415,616' $tenure estimate known
expect 0 'parameters +6,738,415,616' $tenure estimate known --train
expect 0 'runtime .*: vllm' $tenure estimate known --runtime vllm
expect 0 'fits +not known' $tenure estimate known --runtime none --device 80GiB
expect 2 'runtime NAME needs the run of a language model' $tenure estimate known --train --runtime vllm
expect 0 'fused' $tenure estimate config.json --train --recompute full --loss-chunk 512
expect 0 'unfused' $tenure estimate config.json --train --attention unfused
expect 2 'attention needs --train' $tenure estimate config.json --attention unfused
# a part of a model is not said to fit
expect 1 'tensors of 59 of 60 layers are not in the file' $tenure estimate "$corpus/gemma4_31b.gguf" --sequence 262144 --cache-type f16 --device 24GiB
$tenure estimate "$corpus/gemma4_31b.gguf" --sequence 262144 --cache-type f16 --device 24GiB >out || true
if grep -q 'would fit' out || ! grep -q 'longest sequence .* at most' out; then
    echo "a part of a model is said to fit after a change:"
    cat out
    failed=1
fi
# nor a model with a projector for images next to it, which is not counted
mkdir pictured && cp "$corpus/llama.gguf" pictured/model.gguf && cp "$corpus/llama.gguf" pictured/mmproj-f16.gguf
expect 0 "the image projector 'mmproj-f16.gguf' is not counted" $tenure estimate pictured
# neither is a model with keys that are not known
printf '{"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128,"vocab_size":256,"rms_norm_eps":1e-5,"memory_slots":4096}' >unread.json
expect 0 'fits +not known: .* unknown keys' $tenure estimate unread.json --sequence 64 --device 24GiB
expect 0 '"not_read":"memory_slots".*"fits":null' $tenure estimate unread.json --sequence 64 --device 24GiB --json
expect 0 'cache .*\(22,313,697,280 bytes\)' $tenure estimate "$corpus/gemma4_31b.gguf" --sequence 262144 --cache-type f16
expect 0 'cache .*\(4,697,620,480 bytes\)' $tenure estimate "$corpus/command_r7b.gguf" --sequence 131072 --cache-type f16
expect 0 'states of 30 layers' $tenure estimate "$corpus/hybrid_qwen.gguf"
for broken in cut.safetensors overlap.safetensors outside.safetensors long.safetensors type.safetensors cut.gguf count.gguf; do
    expect 2 "^tenure: .*$broken: " $tenure estimate "$corpus/$broken"
done
for suffix in pt pth bin h5 keras; do
    echo 'nothing' >model.$suffix
    expect 2 "model.$suffix: .*(export|convert|save_pretrained)" $tenure estimate model.$suffix
    expect 2 "model.$suffix: .*(export|convert|save_pretrained)" $tenure plan model.$suffix
done
expect 2 'weights without a network' $tenure plan model.safetensors
# each path prints one line with --brief; every byte count of its table is a member of the JSON, and every member is documented
python3 - "$tenure" "$model" "$corpus/llama.gguf" <<'P' || failed=1
import json, re, subprocess, sys
tenure, model, weights = sys.argv[1:]
def run(*words):
    return subprocess.run([tenure, *words], capture_output=True, text=True).stdout
def members(value, name):
    for key, inner in value.items() if isinstance(value, dict) else [("[]", inner) for inner in value]:
        path = name + key if key == "[]" else name + "." + key
        yield path, inner
        if isinstance(inner, (dict, list)):
            yield from members(inner, path)
known = {row["name"] for row in json.loads(run("list", "members", "--json"))}
large = ["config.json", "--train", "--batch", "64", "--device", "a100-80"]
for words in ([model, "--device", "t4", "--max-batch"], [model, "--train", "--as", "pytorch"], [model, "--pool", "caching", "--device", "1GiB"],
              [model, "--train", "--batch", "8", "--parallel", "data=2"], [model, "--batch", "8", "--pool", "caching", "--device", "64MiB"], ["config.json", "--device", "8GiB"],
              [weights, "--device", "1GiB", "--max-batch"], ["index"], large, large + ["--parallel", "tensor=2,pipeline=4,data=2"],
              large + ["--parallel", "auto", "--devices", "16"], large + ["--sweep", "--devices", "16"]):
    brief, table, answer = (run("estimate", *words, *more) for more in (["--brief"], [], ["--json"]))
    assert brief.count("\n") == 1 and len(brief) < 250, (words, brief)
    found = json.loads(answer)
    flat = list(members(found, found.pop("format")[len("tenure-"):]))
    numbers = {value for _, value in flat if type(value) is int}
    shown = [int(text.replace(",", "")) for text in re.findall(r"([0-9,]+) bytes\)", table) if not table.startswith("no division")]
    assert set(shown) <= numbers, (words, set(shown) - numbers)
    for name, value in flat:
        if not name.endswith("[]") and not name.endswith(".version"):
            assert name in known or name.rsplit(".", 1)[0] + ".*" in known, (words, name)
P
echo '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9,
 "max_position_embeddings": 8, "num_a\nfits  yes": 3}' >lines.json
expect 0 'not read +num_a.x0afits  yes: unknown' $tenure estimate lines.json
# nonsense: status 2, and the key with what it holds
while read -r pattern json; do
    echo "$json" >nonsense.json
    expect 2 "nonsense.json.*$pattern" $tenure estimate nonsense.json
done <<'J'
hidden_size.*"large".*whole {"hidden_size": "large"}
num_hidden_layers.*-3 {"hidden_size": 64, "num_hidden_layers": -3}
hidden_size.*1e300 {"hidden_size": 1e300}
num_attention_heads {"hidden_size": 64, "num_hidden_layers": 2}
heads.7 {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 7, "vocab_size": 9, "n_ctx": 8}
uplicate {"hidden_size": 64, "hidden_size": 65}
num_local_experts {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 9, "n_ctx": 8, "num_local_experts": 8}
model_type.*mamba {"model_type": "mamba"}
near {"hidden_size": 64,
J
# what a file says does not steer the terminal; letters of other languages stay
echo '{"model_type": "\u001b[31m\u0007\u007f\u009b\u00e9\u4e2d"}' >nonsense.json
expect 2 'model_type "\\x1b\[31m\\x07\\x7f\\u009bé中" is' $tenure estimate nonsense.json
LC_ALL=C grep -q '[[:cntrl:]]' err && { echo "FAILED: a control character reaches the terminal"; failed=1; }
head -c 1000000 /dev/zero | tr '\0' '[' >nonsense.json
expect 2 'nonsense.json:1.*depth' $tenure estimate nonsense.json
echo 'nonsense' >nonsense.json
expect 2 'nonsense.json:1' $tenure estimate nonsense.json
expect 2 'cannot be divided equally among 2' $tenure estimate "$model" --train --batch 3 --parallel data=2
expect 2 'not recognised as a transformer' $tenure estimate "$model" --parallel tensor=2

# advice that can be taken: each line, given as options, fits; none twice; a list only where no change alone is enough, and
# then nothing in it may be left out; the largest batch, of which one more does not fit
python3 - $tenure "$model" <<'P' || failed=1
import json, shlex, subprocess, sys
tenure, model = sys.argv[1:]
def ask(*words):
    it = subprocess.run([tenure, "estimate", model, "--train", "--json", "--batch", "8", *words], capture_output=True, text=True)
    return json.loads(it.stdout)
def parts(text):
    parts = []
    for word in shlex.split(text):
        if word.startswith("--"): parts.append([word])
        else: parts[-1].append(word)
    return parts
for limit in "150MiB", "80MiB":
    changes = [parts(change["change"]) for change in ask("--device", limit)["changes"]]
    assert changes and len({str(change) for change in changes}) == len(changes), (limit, changes)
    others = [c for c in changes if c[0][0] not in ("--batch", "--freeze")]
    assert all(len(c) == 1 for c in others) or len(others) == 1, (limit, others)
    for change in changes:
        assert ask("--device", limit, *sum(change, []))["fits"], (limit, change)
        for left in range(len(change) if len(change) > 1 and change[0][0] != "--freeze" else 0):
            rest = sum(change[:left] + change[left + 1:], [])
            assert not ask("--device", limit, *rest)["fits"], (limit, change, left)
    batch = [int(c[0][1]) for c in changes if c[0][0] == "--batch"]
    assert len(batch) == 1 and not ask("--device", limit, "--batch", str(batch[0] + 1))["fits"], (limit, batch)
P
exit $failed
