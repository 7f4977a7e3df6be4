#!/bin/bash
# `tenure embed`: tables made and shown, lookups replayed, and what is wrong said. embed.sh TENURE
set -u
tenure=$1
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
. "$here/expect.sh"

expect 0 "wrote t.rows" $tenure embed create t.rows --rows 1e8 --dim 64 --optimizer adagrad --seed 3 --scale 0.5
[ "$(stat -c %s t.rows)" = $((4096 + 100000000 * 512)) ] && [ "$(du -k t.rows | cut -f1)" -le 64 ] || { echo "FAILED: size"; failed=1; }
expect 0 "^rows +100,000,000$" $tenure embed show t.rows
expect 0 "^t.rows: 100,000,000 rows of 64 float32" $tenure embed show t.rows --brief
expect 0 "row 99999999: -?0\.[0-9]" $tenure embed show t.rows --row 99999999
expect 0 "\"undone\":0" $tenure embed undo t.rows --json
expect 2 "row 100000000; the table has rows 0 to 99999999" $tenure embed show t.rows --row 1e8
expect 2 "there is such a file" $tenure embed create t.rows --rows 5
expect 2 "create needs --rows; add --rows N" $tenure embed create other.rows
expect 2 "No such file" $tenure embed show other.rows
expect 2 "is not one of create, show, undo, replay; did you mean 'create'" $tenure embed creat x
expect 2 "not a whole number" $tenure embed create x --rows 1.5e0
[ ! -e x ] && [ ! -e other.rows ] || { echo "FAILED: a file was left"; failed=1; }
truncate -s -1 t.rows
expect 2 "t.rows: the table is cut short: it ends at byte" $tenure embed show t.rows
echo rows >no.rows
expect 2 "no.rows: is no table of rows" $tenure embed show no.rows

# A trace: the numbers that a pencil finds. Room for few rows, so that policies differ.
rm t.rows
$tenure embed create t.rows --rows 1000 --dim 4 >/dev/null
(for i in $(seq 1 20); do echo 1; echo 2; echo $((100 + i)); done; echo "# end") >trace.txt
expect 0 "belady 63\.333 %" $tenure embed replay trace.txt --cache 64KiB --policy belady --brief
for policy in lru lfu clock sampled; do
    expect 0 "\"lookup_hits\":38,.*\"cold\":22" $tenure embed replay trace.txt --cache 64KiB --table t.rows --policy $policy --policy belady --json
done
expect 0 "^lookups +60$" $tenure embed replay trace.txt --cache 64KiB
expect 0 "lookups/s" $tenure embed replay --zipf 1.1 --lookups 2e4 --cache 20KiB --batch 64 --table t.rows --reader threads
expect 2 "reads row 101; the table has rows 0 to 99" $tenure embed replay trace.txt --cache 64KiB --rows 100
echo 7x >bad.txt
expect 2 "bad.txt:1: a line must be a row number" $tenure embed replay bad.txt --cache 64KiB
expect 2 "give at least" $tenure embed replay trace.txt --cache 1KiB
expect 2 "did you mean 'lru'" $tenure embed replay trace.txt --cache 64KiB --policy lrv
expect 2 "add --rows" $tenure embed replay --zipf 1 --cache 1MiB
expect 2 "or add --zipf" $tenure embed replay --cache 1MiB
expect 1 "more different rows than" $tenure embed replay --zipf 0 --rows 1e6 --lookups 4000 --batch 2000 --cache 96KiB --dim 16
expect 0 "^lfu " $tenure list row-policies
expect 0 "Example" $tenure embed --help
exit $failed
