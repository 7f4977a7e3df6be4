#!/bin/bash
# `tenure train --online capuchin` as a user meets it: online.sh TENURE. The parameters have the bits of a run without a
# budget, the device never has more bytes than the budget, and what is refused.
set -u
. "$(dirname "$(readlink -f "$0")")/expect.sh"
tenure=$1
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$here/train_models.py" "$folder" || exit 1
cd "$folder"

check() { # of out and $budget, by a line of Python
    python3 -c "import json; run = json.load(open('out')); on = run['online']; steps = on['iterations']
assert $1, on" || { echo "FAILED: $1"; failed=1; }
}

one_model() { # MODEL DATA
    local train="$tenure train $1 --data $2 --batch 16 --weights random:1"
    expect 0 '' $train --steps 8 --checkpoint whole.ck --json
    cp out whole
    expect 1 "too small for one operator: '.*static memory" $train --steps 1 --budget 1KiB --link 2GB/s --online capuchin
    python3 - <<'P' >budgets || failed=1
import json, re
whole = json.load(open("whole"))
most = whole["arena"] + whole["weights"]
least = int(re.search(r"needs [^(]*\(([\d,]+) bytes\) at once", open("err").read())[1].replace(",", ""))
print(*sorted({least, least + max(most - least, 0) // 3, least + max(most - least, 0) * 2 // 3, most + 4096}))
P
    for budget in $(cat budgets); do
        local online="$train --budget $budget --link 2GB/s --online capuchin"
        expect 0 '"online":' $online --steps 8 --check naive --checkpoint online.ck --json --explain
        cmp -s whole.ck online.ck || { echo "FAILED: $online changes the bits"; failed=1; }
        check "on['device_peak'] <= on['budget'] == $budget and len(steps) == 8 and not steps[0]['guided']"
        check "all(step['evictions'] == 0 for step in steps if step['guided'])"
        check "steps[0]['out_bytes'] >= steps[0]['in_bytes']"
        check "all(step['late'] <= step['copies'] and 0 <= step['stall_seconds'] <= step['seconds'] for step in steps)"
        grep -q '^iteration 0: passive' err || { echo "FAILED: --explain says nothing of the first iteration"; failed=1; }
        if python3 -c "import json; on = json.load(open('out'))['online']; exit(on['swapped'] + on['recomputed'] == 0)"; then
            grep -qE 'FT -?[0-9]+|MSPS [0-9]' err || { echo "FAILED: --explain shows neither FT nor MSPS"; failed=1; }
            grep -q 'back-access at step' err || { echo "FAILED: --explain shows no measured access"; failed=1; }
            touch decided
        fi
        # interrupted and resumed: the same bits
        expect 0 '' $online --steps 3 --checkpoint part.ck
        expect 0 'last step' $online --steps 8 --resume part.ck --checkpoint part.ck
    done
    cmp -s whole.ck part.ck || { echo "FAILED: a resumed run changes the bits"; failed=1; }
}
one_model cnn.onnx x.npy,y.npy
one_model deep.onnx text:"$here/train_models.py"
[ -e decided ] || { echo "FAILED: no policy decided anything"; failed=1; }

# one step is passive: it has no plan, so no planned peak is reported
expect 0 '"planned_peak":null' $tenure train cnn.onnx --data x.npy,y.npy --batch 16 --weights random:1 --steps 1 --budget 4MiB --link 2GB/s \
    --online capuchin --json
expect 0 'measured peak' $tenure train cnn.onnx --data x.npy,y.npy --batch 16 --weights random:1 --steps 1 --budget 4MiB --link 2GB/s --online capuchin
grep -q 'planned peak' out && { echo "FAILED: a planned peak without a plan"; failed=1; }

# what is refused
good="$tenure train cnn.onnx --data x.npy,y.npy --batch 8 --steps 2"
expect 2 'needs --budget' $good --online capuchin --link 1GB/s
expect 2 'needs --link' $good --online capuchin --budget 1MiB
expect 2 'capuchin' $good --online dtr --budget 1MiB --link 1GB/s
expect 2 'must be above 0' $good --online capuchin --budget 1MiB --link 0GB/s
expect 2 'above 0' $good --online capuchin --budget 0 --link 1GB/s
expect 2 'needs --online' $good --explain
for other in "--pass joint" "--swap pattern*" "--poison" "--codecs bits" "--parallel data=2" "--ranks-as-threads" "--trace t.trace.json" \
    "--swap-device host" "--timeout 1s" "--static arena"; do
    expect 2 "online" $good --online capuchin --budget 1MiB --link 1GB/s $other
done
exit $failed
