#!/bin/bash
# `tenure report` and `tenure replay` as a user meets them: what they say, what they write, what they refuse.
#   report.sh TENURE SOURCE
set -u
tenure=$1
source=$2
. "$source/tests/cli/expect.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
snapshot=$source/examples/snapshots/out_of_memory.pickle

expect 0 'at the peak .*MiB' $tenure report "$snapshot"
expect 0 'out of memory 1 of 1' $tenure report "$snapshot" --top 2
expect 0 'memory now' $tenure report "$snapshot" --no-pools
expect 0 'the events and the segments agree' $tenure report "$snapshot" --device 0
expect 0 '^device 0: peak .* ran out of memory$' $tenure report "$snapshot" --brief
expect 0 'wrote oom.html' $tenure report "$snapshot" -o oom.html -o oom.svg -o oom.csv
grep -q 'model.py:30 forward' oom.html || { echo "FAILED: no stack in the page"; failed=1; }
# what the file says of a block, as our own runs do, goes before the guess; of many segments the page tells the sum
expect 0 'wrote own.pickle' $tenure run "$source/examples/models/unet64.onnx" --weights random:1 --trace own.pickle
expect 0 'wrote own.html' $tenure report own.pickle -o own.html
grep -q '"kinds":.*"parameter",[0-9]*,false.*"workspace"' own.html || { echo "FAILED: no categories in the page"; failed=1; }
expect 0 'smallest blocks are not drawn' $tenure report "$snapshot" --bars 7 -o few.html
expect 0 '"format":"tenure-report"' $tenure report "$snapshot" --json
expect 0 '"format":"tenure-report"' sh -c "$tenure report - --json <'$snapshot'"
expect 0 'planned +[0-9,]+ +1.000 x' $tenure replay "$snapshot"
expect 0 'planned ahead' $tenure replay "$snapshot" --device 0 --pool caching

expect 2 'no snapshot given' $tenure report
expect 2 'no device 3' $tenure report "$snapshot" --device 3
expect 2 'no device 3' $tenure replay "$snapshot" --device 3
expect 2 'no format' $tenure report "$snapshot" -o oom.png
expect 2 'No such file' $tenure report nowhere.pickle
printf '\x80\x02cos\nsystem\n(U\x05falsetR.' >code.pickle
expect 2 'code.pickle, byte 2: GLOBAL: this pickle asks for code' $tenure report code.pickle
expect 2 'code.pickle, byte 2: GLOBAL' $tenure replay code.pickle
printf 'PK\x03\x04' >model.pt
expect 2 'model.pt: this is a damaged zip archive; copy or download it again' $tenure report model.pt
printf '\x80\x04}.' >empty.pickle
expect 2 'no memory snapshot' $tenure report empty.pickle
head -c 4000 "$snapshot" >cut.pickle
expect 2 'cut.pickle, byte [0-9]+: the file ends' $tenure report cut.pickle
: >nothing.pickle
expect 2 'nothing.pickle' $tenure report nothing.pickle
exit $failed
