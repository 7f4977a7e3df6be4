#!/bin/bash
# Rules about single tensors in every command that has them: rules.sh TENURE MODELS. The parameters after two steps are the
# same bit by bit, whatever the rules are, and the memory that is used is the memory that was planned.
set -u
. "$(dirname "$(readlink -f "$0")")/expect.sh"
tenure=$1
models=$(readlink -f "$2")
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$here/train_models.py" "$folder" || exit 1
cd "$folder"

same() { # the parameters of a run with these options: same OPTIONS...
    rm -f rules.ck
    expect 0 '"measured_peak"' $train --check naive --poison --checkpoint rules.ck --json "$@"
    python3 -c "import json; run = json.load(open('out')); assert run['measured_peak'] == run['planned_peak'], run" || failed=1
    cmp -s plain.ck rules.ck || { echo "FAILED: $* changes the bits"; failed=1; }
}
arena() { python3 -c "import json; print(json.load(open('out'))['arena'])"; }

for model in "cnn.onnx --data x.npy,y.npy" "deep.onnx --data text:book.txt"; do
    train="$tenure train $model --batch 8 --weights random:1 --steps 2 --plain"
    expect 0 '' $train --checkpoint plain.ck --json
    plain=$(arena)
    for rules in "--recompute type:*" "--swap type:*" "--swap type:*:prefetch=3" "--segments 3" "--keep type:*" \
                 "--segments 3 --keep type:Conv* --order memory" "--recompute type:Gemm* --recompute-cheap"; do
        case "$model$rules" in cnn*Gemm* | deep*Conv*) continue ;; esac
        same $rules
        case "$rules" in
        --swap* | --segments\ 3) [[ $model = cnn* ]] || [ "$(arena)" -lt "$plain" ] || { echo "FAILED: $model $rules saves nothing"; failed=1; } ;;
        --keep*) [ "$(arena)" -eq "$plain" ] || { echo "FAILED: $model $rules costs memory"; failed=1; } ;;
        esac
    done
    # what is estimated is what is used
    expect 0 '' $train --segments 3 --json
    used=$(arena)
    expect 0 "\"arena\":$used," $tenure estimate ${model% --data*} --train --batch 8 --kernels plain --segments 3 --json
    # within a budget, too
    expect 1 'least found takes' $train --budget 1KiB --segments 2
    least=$(python3 -c "import re; print(re.search(r'least found takes [^(]*\(([\d,]+) bytes', open('err').read())[1].replace(',', ''))")
    same --budget "$least" --segments 2
    case $model in deep*) why=".*the rule keep 'type:\*' prevents it" ;; *) why= ;; esac
    expect 1 "obeys the rules$why" $train --budget "$least" --keep 'type:*'
done

# stages of a pipeline obey the rules, too, with a budget and without one
train="$tenure train deep.onnx --data text:book.txt --batch 8 --weights random:1 --steps 2 --plain --parallel pipeline=2 --micro-batches 2 --ranks-as-threads"
expect 0 '' $train --checkpoint plain.ck --json
plain=$(arena)
for rules in "--segments 2" "--recompute *_l1.*" "--segments 2 --keep type:Relu"; do
    set -f
    same $rules
    used=$(arena)
    [ "$used" -lt "$plain" ] || { echo "FAILED: pipeline, $rules saves nothing: $used of $plain"; failed=1; }
    same $rules --budget 100MB
    [ "$(arena)" -eq "$used" ] || { echo "FAILED: pipeline, $rules: $(arena) bytes with a budget, $used without"; failed=1; }
    expect 0 "\"arena\":$used," $tenure estimate deep.onnx --train --batch 8 --kernels plain --parallel pipeline=2 --micro-batches 2 $rules --json
    set +f
done
for budget in "" "--budget 100MB"; do
    expect 2 "the rule keep 'decoder.' matches no operator" $train --keep 'decoder*' $budget
done
# ranks that combine or gather results do it again, or keep what came together, as the rules say: other bytes are sent, for the
# same bits, in the planned memory
ranks() { # DIVISION OPTIONS...: in `said` the bytes that are sent, in `bits` a hash of the checkpoint
    local division=$1
    shift
    rm -f rank.ck*
    expect 0 '' $tenure train deep.onnx --data text:book.txt --batch 8 --weights random:1 --steps 2 --plain --ranks-as-threads --poison \
        --checkpoint rank.ck --json --parallel $division "$@"
    said=$(python3 -c "
import json
run = json.load(open('out'))
assert run['measured_peak'] == run['planned_peak'], run
print(sum(rank['step_bytes'] for rank in run['ranks']))") || failed=1
    bits=$(cat rank.ck* | sha256sum)
}
other() { # less|more OPTIONS...: than without them in the same division
    local sign=$1 before=$said same=$bits
    shift
    ranks "$division" "$@"
    [ "$bits" = "$same" ] || { echo "FAILED: $division $* changes the bits"; failed=1; }
    [ "$([ "$said" -gt "$before" ] && echo more; [ "$said" -lt "$before" ] && echo less)" = "$sign" ] ||
        { echo "FAILED: $division $*: $said bytes sent, $before without"; failed=1; }
    said=$before
}
division="tensor=2"
ranks "$division"
other more --segments 3 --recompute 'type:RankSum'
other more --segments 3 --recompute 'type:RankSum' --budget 735KiB
division="tensor=2,pipeline=2 --micro-batches 2 --sequence-parallel"
ranks "$division"
other more --segments 2 --recompute 'type:RankScatter'
other less --keep 'type:RankGather'
division="data=2 --shard parameters --bucket 8KB"
ranks "$division"
other less --keep 'type:ShardWhole'
division="$division --gather-ahead 100MB"
ranks "$division"
other more --recompute 'type:ShardWhole'
train="$tenure train deep.onnx --data text:book.txt --batch 8 --weights random:1 --steps 1 --plain --ranks-as-threads --parallel"
expect 2 "keep 'type:RankSum' and recompute 'type:Rank\*' contradict" $train tensor=2 --keep 'type:RankSum' --recompute 'type:Rank*'
expect 2 "recompute 'type:RankGather' matches no operator" $train tensor=2 --recompute 'type:RankGather'
expect 2 "keep 'type:ShardWhole' matches no operator" $train data=2 --keep 'type:ShardWhole'

# counting zeros runs the first batch before the trainer knows how many classes there are
expect 0 'fitted' $tenure train deep.onnx --data text:book.txt --batch 8 --weights random:1 --steps 1 --plain --budget 1700KB --codecs csr

branches="$models/two_branches.onnx --weights random:1"
expect 0 'every bit equal' $tenure run $branches --swap 'type:*:prefetch=2' --check naive --poison
expect 0 'every bit equal' $tenure run $branches --recompute 'type:*' --check naive

mobile="$models/mobilenet_v2.onnx --train --batch 4 --costs model:a100-80"
expect 0 '"recomputed":' $tenure fit $mobile --budget 1GiB --recompute 'type:Clip' --json
expect 0 "recompute '.*Clip_output_0', [0-9]+ bytes: rule recompute 'type:Clip'" $tenure fit $mobile --budget 140MiB --recompute 'type:Clip' --explain
expect 2 'swap needs --link' $tenure fit $mobile --budget 1GiB --swap 'type:Conv'
expect 0 '' $tenure fit $mobile --budget 1GiB --swap 'type:Conv:prefetch=2' --link 12GB/s
expect 2 "matches no operator .* operator types are 'Conv', 'Clip'" $tenure fit $mobile --budget 1GiB --keep 'type:Convolution'
expect 2 "operator names are '/features" $tenure fit $mobile --budget 1GiB --keep 'decoder*'
expect 2 "contradict each other: both match" $tenure fit $mobile --budget 1GiB --keep 'type:C*' --recompute 'type:Conv'
expect 2 "changes nothing" $tenure fit $mobile --budget 1GiB --recompute 'type:CrossEntropy'
expect 2 "keep 'type:AdamStep' changes nothing: .* static memory" $tenure fit $mobile --budget 1GiB --keep 'type:AdamStep'
expect 2 "swap 'type:Conv' and swap 'type:C.nv' .prefetch 3. contradict" $tenure fit $mobile --budget 1GiB --link 1GB/s --swap 'type:Conv' --swap 'type:C?nv:prefetch=3'
expect 0 '' $tenure fit $mobile --budget 1GiB --link 1GB/s --swap 'type:Conv' --swap 'type:C?nv:prefetch=1'
expect 1 '"ruled":true,"claims"' $tenure fit $mobile --budget 60MiB --keep 'type:*' --json
expect 1 '"ruled":false,"claims"' $tenure fit $mobile --budget 60MiB --allow order --json
expect 1 'no plan of this order, changed only by the rules, fits in' $tenure fit $mobile --budget 50MiB --pass none --recompute 'type:Clip'
expect 2 'too few for 100000 segments' $tenure fit $mobile --budget 1GiB --segments 100000
expect 2 'segments need a training step' $tenure run $branches --segments 2
expect 2 'not a number of operators' $tenure fit $mobile --budget 1GiB --link 1GB/s --swap 'type:Conv:prefetch=0'
expect 2 'the pattern is empty' $tenure fit $mobile --budget 1GiB --keep 'type:'
# a problem without a model: by hand, 6 bytes are enough only if n1 runs twice, and 7 if nothing does
printf '{"cpu":[3,1,1,2,2,5,4],"ram":[1,3,1,1,2,1,1],"edges":[[0,1],[0,2],[1,3],[2,3],[2,4],[3,4],[1,5],[4,5],[2,6]]}' >dag.json
expect 0 '^time +19,' $tenure fit --problem dag.json --budget 6
expect 1 "proved; the least found takes 7 bytes; the rule keep 'o1' prevents it" $tenure fit --problem dag.json --budget 6 --keep o1
expect 0 '^time +18,' $tenure fit --problem dag.json --budget 7 --keep 'o*'
# bytes before fitting are those without the rules, and so is the end of the curve
for rules in "" "--recompute o1" "--keep o3"; do
    expect 0 '^without fitting +7 bytes' $tenure fit --problem dag.json --budget 7 $rules
done
expect 0 '^ +7 +7 +18 ' $tenure fit --problem dag.json --sweep 4
end=$(tail -n 1 out)
expect 0 '^ +6 +6 +19 ' $tenure fit --problem dag.json --sweep 4 --keep o3
[ "$(tail -n 1 out)" = "$end" ] || { echo "FAILED: the curve with --keep o3 ends at $(tail -n 1 out), not at $end"; failed=1; }
expect 2 "keep 'x' matches no operator" $tenure fit --problem dag.json --budget 7 --keep x
expect 2 "keep 'type:x' matches no operator: operators of a problem have no types" $tenure fit --problem dag.json --budget 7 --keep type:x
expect 2 'order cannot be combined with --problem' $tenure fit --problem dag.json --budget 7 --order memory
expect 2 'which needs a model file' $tenure estimate "$models/../configs/gpt_175b.json" --train --batch 8 --recompute 'type:Conv'
expect 2 'has no effect' $tenure estimate "$models/../configs/gpt_175b.json" --train --batch 8 --keep 'type:Conv'
exit $failed
