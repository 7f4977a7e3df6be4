#!/bin/bash
# Forty mistakes and what is answered: each with its status, in one line that names what is wrong, where, and what to do.
# mistakes.sh TENURE SOURCE [--show]: with --show every command and its answer is printed, for a person to read.
set -u
tenure=$1
models=$2/examples/models
show=${3:-}
failed=0
count=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cp "$models"/{five_operators,two_branches,mobilenet_v2}.onnx "$models/keywords.tflite" .
printf 'id,lower,upper,size\na,0,3,600\nb,1,4,500\nc,3,6,700\n' >buffers.csv
$tenure plan buffers.csv -o buffers_plan.csv --quiet
$tenure plan mobilenet_v2.onnx -o mobilenet.json --quiet

judge() { # judge STATUS GOT PATTERN COMMAND: what is in `err` is one line, ours, not too long, and says it
    local lines
    lines=$(grep -c . err)
    count=$((count + 1))
    [ -z "$show" ] || { echo "\$ $4"; sed 's/^/    /' err; echo "    = $2"; }
    [ "$2" -eq "$1" ] || { echo "FAILED: $4: status $2, not $1"; failed=1; }
    [ "$lines" -eq 1 ] || { echo "FAILED: $4: $lines lines, not one"; failed=1; }
    grep -qE '^tenure: (error|warning): ' err || { echo "FAILED: $4: does not say who speaks"; failed=1; }
    [ "$(wc -c <err)" -le 320 ] || { echo "FAILED: $4: too long to be read"; failed=1; }
    grep -qE -- "$3" err || { echo "FAILED: $4: no '$3' in: $(head -1 err)"; failed=1; }
}
wrong() { # wrong STATUS PATTERN WORDS...
    local status=$1 pattern=$2
    shift 2
    timeout 1200 $tenure "$@" >out 2>err </dev/null
    judge "$status" $? "$pattern" "tenure $*"
}

# waits and time
cp "$models/../problems/waits.json" .
$tenure plan waits.json --objective time --capacity 2 --workers 2 -o waits_plan.json --quiet
wrong 2 "curve.json': a curve is written as .svg or .html" plan waits.json --objective waits --sweep 3 -o curve.svg -o curve.json
[ ! -e curve.svg ] || { echo "FAILED: a curve was written by a command with a mistake"; failed=1; }
sed 's/"waits":2,/"waits":-2,/' waits_plan.json >minus.json
wrong 2 'minus.json: result: "waits" must be a whole number' verify waits.json --plan minus.json
sed 's/"workers":2/"workers":null/' waits_plan.json >alone.json
wrong 2 'must be given together' verify waits.json --plan alone.json
sed 's/\[1, 4\]/[4, 1]/' waits.json >cycle.json
wrong 2 'order\[3\]: the order of events 4 and 1.* must have the lower number' plan cycle.json
sed 's/"uses": \[1\]/"uses": [5]/' waits.json >contradict.json
wrong 2 "'a' and .* share bytes, but event .* still used \(until event 5\)" plan contradict.json
sed 's/"buffer": 2/"buffer": 3/' waits.json >index.json
wrong 2 'spans\[2\] .*an index below 3' plan index.json
sed 's/\[3, 3, 3, 3, 3, 3\]/[9223372036854775807, 3, 3, 3, 3, 3]/' waits.json >times.json
wrong 2 'add up to more than 2\^63 - 1; use a larger unit' plan times.json

# a word misspelt
wrong 2 "no command 'plna'; did you mean 'plan'" plna buffers.csv
wrong 2 'no command .five_operators.onnx.; to plan a file' five_operators.onnx
wrong 2 "the command must come first" --json plan buffers.csv
wrong 2 'no option --capcity; did you mean --capacity' plan buffers.csv --capcity 4KiB
wrong 2 'no option --zebra; .*help=all' plan buffers.csv --zebra
wrong 2 '--no could mean --no-[a-z]+ or --no-[a-z]+' plan five_operators.onnx --no
wrong 2 'no option -z' plan buffers.csv -z
wrong 2 "no planner is called 'greddy'; did you mean 'greedy-by" plan buffers.csv --planner greddy
wrong 2 "no planner is called 'simulated'; see .tenure list planners" plan buffers.csv --planner simulated
wrong 2 "no device is called 'a10o'; did you mean 'a100|did you mean 'a10" estimate five_operators.onnx --device a10o
wrong 2 "'A100' is ambiguous; write one of a100-40, a100-80" estimate five_operators.onnx --device A100
wrong 2 "did you mean 'memory'" plan five_operators.onnx --order memroy
wrong 2 "no pass is called 'jiont'; did you mean 'joint'" fit five_operators.onnx --budget 1KiB --pass jiont --costs model:a100-40
wrong 2 "no list 'hardwear'; did you mean 'hardware'" list hardwear
wrong 2 "'adan' is not one of .*did you mean 'adam'" train five_operators.onnx --data x.npy --optimizer adan
wrong 2 "not one of offsets, objects; did you mean 'objects'" plan buffers.csv --form object
wrong 2 "is not one of auto, bar, lines, none" plan buffers.csv --progress loud

# a setting that the library names by its field (tests/import/test_options.c) is shown as an option
wrong 2 'onnx: --dim nobody: no dimension has that name; .*\(--input-shape sets a whole shape\)' plan five_operators.onnx --dim nobody=4
wrong 2 "onnx: --value nobody: no input has that name; inputs are 'A'" plan five_operators.onnx --value nobody=4
wrong 2 'no plan inside this model; give one with --plan FILE' verify keywords.tflite
wrong 2 'make contents up with --weights random:SEED$' run mobilenet_v2.onnx
for command in plan verify run train estimate; do $tenure $command --help=all; done >options 2>&1
for option in $(grep -oE '"--[a-z-]+' "$2/src/cli/terminal/messages.c" | tr -d '"'); do
    grep -qE -- "$option\b" options || { echo "FAILED: settings.c names $option, which no command has"; failed=1; }
done

# a number that cannot be
wrong 2 '--capacity: .*could mean 10MB or 10MiB|could mean MB or MiB' plan buffers.csv --capacity 10M
wrong 2 '--threads: 0 is out of range; use a number from 1 to 64' plan buffers.csv --threads 0
wrong 2 '--threads: 9999999999999999999999 is out of range; use a number from 1 to 64' plan buffers.csv --threads 9999999999999999999999
wrong 2 '--batch: -4 is out of range; use a number from 1' estimate five_operators.onnx --batch -4
wrong 2 "--batch: 'many' is not a whole number" estimate five_operators.onnx --batch many
wrong 2 '--sweep: 1 is out of range; use a number from 2 to 10,000' fit five_operators.onnx --sweep 1
wrong 2 "--timeout: 'soon' is not a time; write it like 10s" plan buffers.csv --timeout soon
wrong 2 '--timeout: -3s is out of range' plan buffers.csv --timeout=-3s
wrong 2 "'6' is not a power of two|not a power" plan buffers.csv --alignment 6
wrong 2 '--capacity needs a value: SIZE' plan buffers.csv --capacity
wrong 2 '--json takes no value' plan buffers.csv --json=yes

# something left out, or too much
wrong 2 'no input given; pass the file of a model or problem' plan
wrong 2 'no plan given.*--plan FILE' verify buffers.csv
wrong 2 'no budget given.*--budget' fit five_operators.onnx
wrong 2 "only one input; 'five_operators.onnx' is a second one" plan buffers.csv five_operators.onnx

# a file that is not there, is another one, or is broken
wrong 2 'no-such.onnx: cannot open: No such file' plan no-such.onnx
wrong 2 'cannot read: Is a directory' plan .
printf '<!DOCTYPE html><html>' >page.onnx
wrong 2 'page.onnx.* web page, not a model' plan page.onnx
head -c 3000 mobilenet_v2.onnx >cut.onnx
wrong 2 'cut.onnx' plan cut.onnx
: >empty.onnx
wrong 2 'empty.onnx: the file is empty' plan empty.onnx
printf 'id,lower,upper,size\na,0,3,600\nb,1,many,500\n' >bad.csv
wrong 2 "bad.csv:3: .*'upper'" plan bad.csv
wrong 2 "mobilenet.json is a plan for another model" verify five_operators.onnx --plan mobilenet.json
wrong 2 'plan for another model, or was made with other options: 0 of its 3 rows' verify five_operators.onnx --plan buffers_plan.csv
wrong 2 'no format for .*plan.xyz.; use one of .json' plan buffers.csv -o plan.xyz
wrong 2 'no-folder/plan.csv' plan buffers.csv -o no-folder/plan.csv
wrong 2 'not a .tflite model' arena five_operators.onnx
wrong 2 'standard input is empty' plan -
timeout 1200 $tenure plan - <bad.csv >out 2>err
judge 2 $? "^tenure: error: <stdin>:3: .*'upper'" 'tenure plan - <bad.csv'
timeout 1200 $tenure plan -o - - <bad.csv >out 2>err
judge 2 $? "^tenure: error: -.csv:3: .*'upper'" 'tenure plan -o - - <bad.csv' # which of the two streams is open

# a file that another command reads, as a file and on standard input
other() { # other PATTERN COMMAND FILE WORDS...
    local pattern=$1 command=$2 file=$3
    shift 3
    wrong 2 "$(basename "$file"): $pattern" "$command" "$file" "$@"
    timeout 1200 $tenure "$command" - "$@" <"$file" >out 2>err
    judge 2 $? "<stdin>: " "tenure $command - <$file"
}
for command in plan fit; do
    words=
    [ $command = plan ] || words='--budget 1MiB'
    other 'this is a device memory profile of JAX.*`tenure report` reads it' $command "$2/examples/foreign/memory.prof" $words
    other "this is a file of ONNX Runtime's node memory statistics.*report" $command "$2/examples/foreign/node_stats.csv" $words
    other "this is a trace of PyTorch's profiler, or another one" $command "$2/examples/traces/train.pt.trace.json" $words
    other 'this is a pickle, perhaps a memory snapshot of PyTorch' $command "$2/examples/snapshots/out_of_memory.pickle" $words
    other 'this is a log of allocations; `tenure replay` reads it' $command "$2/examples/traces/two_steps.csv" $words
done
printf '{"format": "tenure-costs", "version": 1, "operators": []}' >costs.json
printf 'step,loss,correct\n0,2.5,1\n' >losses.csv
printf '{"metadata": {}, "weight_map": {"w": "a.safetensors"}}' >index.json
for command in plan report replay; do
    other 'this is the configuration of a language model; `tenure estimate` reads it' $command "$2/examples/configs/llama_8b.json"
    other 'this is a file of operator costs; .*--costs' $command costs.json
    other 'this is the log of `tenure train`' $command losses.csv
    other "this is the index of a model's weights; .tenure estimate. reads it" $command index.json
done
other 'this is a plan or a problem; `tenure plan`' run mobilenet.json
wrong 2 'costs.json: this is a file of operator costs' verify five_operators.onnx --plan costs.json
cp five_operators.onnx five.gguf
cp five_operators.onnx five.json
wrong 2 'its name says .gguf, but it is an ONNX model; give it a name that ends in .onnx' plan five.gguf
wrong 2 'this is an ONNX model; give it a name that ends in .onnx' plan five.json
wrong 2 "adjacent: .*weight' matches only tensors that are kept between runs, such as the parameter" plan mobilenet_v2.onnx --adjacent '*weight'
wrong 2 "adjacent: no tensor matches 'x.0.'" plan mobilenet_v2.onnx --adjacent 'x[0]'
cat mobilenet.json | timeout 1200 $tenure run --weights - - >out 2>err
judge 2 $? 'standard input is given twice: --weights reads it; name a file' 'tenure run --weights - - <mobilenet.json'
wrong 2 "output-dir: '-' is not a folder" run five_operators.onnx --output-dir -
wrong 2 'log: standard output has the table' train five_operators.onnx --data x.npy,y.npy --log -
other 'this is an ONNX model.*`tenure plan` reads it' report five_operators.onnx
other 'this is a TensorFlow Lite model.*`tenure plan`' report keywords.tflite

# a damaged file, and an option about streams: the message names the file
head -c 3000 "$2/examples/foreign/convolutions.pte" >cut.pte
printf '\060' | dd of=cut.pte bs=1 seek=3 conv=notrunc 2>/dev/null
wrong 2 '^tenure: error: cut.pte: ' plan cut.pte
{ printf '\377\377\377\177ET12'; head -c 4000 /dev/zero; } >root.pte
wrong 2 '^tenure: error: root.pte: byte 0' plan root.pte
wrong 2 '^tenure: error: two_branches.onnx: --stream: no operator matches' plan two_branches.onnx --streams 2 --stream nope=1

# an option that this kind of input would ignore
foreign=$2/examples/foreign
for option in '--device 0' '--bars 3 -o x.html' --no-pools '--timeout 3s' '-o x.html'; do
    for file in memory.prof node_stats.csv; do
        wrong 2 "${option%% *} cannot be combined with a profile or statistics.*remove the option" report "$foreign/$file" $option
    done
done
for option in '--dim N=2' '--order memory' '--input-shape x=3' '--value x=3' '--static arena' --no-inplace --no-views --no-rewrite --train \
    '--batch 2' '--kernels plain' --fuse-concat --keep-aten '--parameter x' '--parallel safe' '--format nchw'; do
    wrong 2 "${option%% *} needs a model" verify "$foreign/convolutions.pte" $option
done
for option in '--alignment 64' '--bank a=1MiB'; do
    wrong 2 "${option%% *} cannot be combined with a plan of another tool" verify "$foreign/xla" $option
done
wrong 2 '--planner has no effect: both inputs are plans' diff "$foreign/xla" "$foreign/convolutions.pte" --planner auto

# help and version are commands; colour only on a terminal, and not with NO_COLOR
for words in 'help help' 'help version' 'help --help' 'version --help' version; do
    $tenure $words >out 2>err && [ -s out ] && [ ! -s err ] || { echo "FAILED: tenure $words"; failed=1; }
done
if script -qec true /dev/null >/dev/null 2>&1; then
    TERM=xterm NO_COLOR= script -qc "$tenure plan no-such.onnx" /dev/null >out </dev/null
    grep -q "^tenure: $(printf '\033')\[1;31merror: $(printf '\033')\[0mno-such" out || { echo "FAILED: no colour on a terminal"; failed=1; }
    TERM=xterm NO_COLOR=1 script -qc "$tenure plan no-such.onnx" /dev/null >out </dev/null
    grep -q '^tenure: error: no-such' out || { echo "FAILED: colour with NO_COLOR"; failed=1; }
fi

# no progress lines without a terminal, unless asked
awk 'BEGIN { srand(7); print "id,lower,upper,size"; for (i = 0; i < 300; i++) { a = int(rand() * 400)
    printf "%d,%d,%d,%d\n", i, a, a + 1 + int(rand() * 60), 64 * (1 + int(rand() * 1000)) } }' >long.csv
$tenure plan long.csv --planner exact --timeout 4 >out 2>err </dev/null
! grep -q '^tenure: plan' err || { echo "FAILED: progress without a terminal: $(head -1 err)"; failed=1; }

# an output that takes nothing
$tenure list operators >/dev/full 2>err
judge 2 $? 'cannot write to standard output: No space left' 'tenure list operators >/dev/full'
$tenure plan buffers.csv -o - 2>err >/dev/full
judge 2 $? 'No space left' 'tenure plan buffers.csv -o - >/dev/full'

# a reader that leaves: no word, and the status that every command has in a pipe then
for command in 'list operators' 'help' 'plan mobilenet_v2.onnx --holders=100000' 'plan mobilenet_v2.onnx -o -.html'; do
    { $tenure $command 2>err | (exec true); statuses=("${PIPESTATUS[@]}"); }
    count=$((count + 1))
    [ -z "$show" ] || echo "\$ tenure $command | true  = ${statuses[0]}"
    [ "${statuses[0]}" -eq 141 ] || [ "${statuses[0]}" -eq 0 ] || { echo "FAILED: $command | true: status ${statuses[0]}"; failed=1; }
    ! grep -qi 'pipe\|cannot' err || { echo "FAILED: $command | true says: $(head -1 err)"; failed=1; }
done

# interrupted: the best so far, verified, with its gap, and status 3; or an answer that came before
awk 'BEGIN { srand(7); print "id,lower,upper,size"; for (i = 0; i < 120000; i++) { a = int(rand() * 40000)
    printf "%d,%d,%d,%d\n", i, a, a + 1 + int(rand() * 300), 64 * (1 + int(rand() * 1000)) } }' >hard.csv
timeout --preserve-status -s INT 3 $tenure plan hard.csv --planner auto --progress=none -o best.csv >out 2>err </dev/null
status=$?
if [ $status -eq 3 ] && ! grep -q 'before any result was found' err; then
    judge 3 $status 'interrupted; this is the best result so far .verified., [0-9.]+ % above' 'tenure plan hard.csv, Ctrl-C after 3 s'
    $tenure verify hard.csv --plan best.csv >out || { echo "FAILED: what was left by Ctrl-C is not valid"; failed=1; }
elif [ $status -ne 0 ]; then
    judge 3 $status 'interrupted before any result was found' 'tenure plan hard.csv, Ctrl-C after 3 s'
fi

timeout --preserve-status -s INT 3 $tenure fit mobilenet_v2.onnx --train --batch 16 --budget 600MiB --costs model:a100-40 \
    --progress=none >out 2>err </dev/null
status=$?
case $status in
0 | 1) ;; # it was done before, or has proved that nothing fits
*) judge 3 $status 'interrupted' 'tenure fit mobilenet_v2.onnx, Ctrl-C after 3 s' ;;
esac
env --default-signal=INT $tenure plan hard.csv --planner exact --progress=lines >out 2>err </dev/null & # a script's SIGINT is ignored
until grep -q ', gap' err || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
kill -INT $! 2>/dev/null
wait $!
grep -qE '^tenure: plan: [0-9]+ s.*best [0-9.]+ [KMG]iB, bound [0-9.]+ [KMG]iB, gap [0-9.]+ %' err ||
    { echo "FAILED: --progress=lines says nothing: $(head -3 err)"; failed=1; }

# a narrow terminal: no line is broken by it, names are cut in the middle
for columns in 60 80 120; do
    COLUMNS=$columns $tenure plan --help=all >out
    longest=$(sed '/^Examples/,$d' out | awk '{ if (length($0) > n) n = length($0) } END { print n }')
    [ "$longest" -le $columns ] || { echo "FAILED: help in $columns columns has a line of $longest"; failed=1; }
done
$tenure plan mobilenet_v2.onnx >out
longest=$(awk '{ if (length($0) > n) n = length($0) } END { print n }' out)
[ "$longest" -le 80 ] || { echo "FAILED: a plan has a line of $longest columns: $(awk 'length($0) > 80' out | head -1)"; failed=1; }
COLUMNS=130 $tenure plan mobilenet_v2.onnx | grep -q '/features/features.2/conv' || { echo "FAILED: a wide terminal shows no whole name"; failed=1; }

# quiet and brief
$tenure plan buffers.csv --quiet -o quiet.csv >out 2>err || failed=1
[ ! -s out ] && [ ! -s err ] && [ -s quiet.csv ] || { echo "FAILED: --quiet speaks, or writes nothing"; failed=1; }
for command in 'plan buffers.csv' 'diff buffers.csv buffers.csv' 'verify buffers.csv --plan quiet.csv' 'list planners'; do
    [ "$($tenure $command --brief | wc -l)" -eq 1 ] || { echo "FAILED: $command --brief is not one line"; failed=1; }
done

# standard input and output, of every kind
for file in buffers.csv five_operators.onnx keywords.tflite mobilenet.json; do
    cat $file | $tenure plan - --json >out 2>err || { echo "FAILED: cat $file | tenure plan -: $(head -1 err)"; failed=1; }
    $tenure plan $file --json >whole
    for key in peak lower_bound; do
        [ "$(grep -o "\"$key\":[ 0-9]*" out)" = "$(grep -o "\"$key\":[ 0-9]*" whole)" ] || { echo "FAILED: - is not $file"; failed=1; }
    done
done
$tenure plan buffers.csv -o -.csv 2>err | $tenure verify buffers.csv --plan - >out || { echo "FAILED: -o -.csv | verify --plan -"; failed=1; }

[ $count -ge 40 ] || { echo "FAILED: $count mistakes, not forty"; failed=1; }
exit $failed
