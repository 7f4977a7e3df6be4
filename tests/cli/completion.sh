#!/bin/bash
# What shells complete words by: bash is asked as it asks itself; all three are read for every option there is.
# completion.sh TENURE
set -u
tenure=$1
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
touch model.onnx
$tenure completion bash >tenure.bash || failed=1
. ./tenure.bash

# complete WORD...: the answers to the last word; `compopt` is for shells that a person types into
compopt() { :; }
complete_words() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _tenure
}
want() { # want ANSWER WORD...
    local answer=$1
    shift
    complete_words "$@"
    [[ " ${COMPREPLY[*]} " == *" $answer "* ]] || { echo "FAILED: $* : '${COMPREPLY[*]}' without '$answer'"; failed=1; }
}
refuse() { # refuse ANSWER WORD...
    local answer=$1
    shift
    complete_words "$@"
    [[ " ${COMPREPLY[*]} " != *" $answer "* ]] || { echo "FAILED: $* : '${COMPREPLY[*]}' with '$answer'"; failed=1; }
}
want plan tenure pl
want help tenure h
want --capacity= tenure plan --cap
want --json tenure plan --js
want model.onnx tenure plan mod
want greedy-by-size tenure plan --planner = greedy
want greedy-by-size tenure plan --planner greedy
want a100-40 tenure estimate model.onnx --device a100
want hardware tenure list h
want fit tenure help f
want zsh tenure completion z
want objects tenure plan --form = o
want --budget= tenure plan --bud
refuse --epochs= tenure plan --epo
refuse model.onnx tenure plan --capacity mod
for list in $($tenure list --brief); do want "$list" tenure list "$list"; done

# every option of every command is known to all three
for shell in bash zsh fish; do $tenure completion $shell >all.$shell || failed=1; done
for command in $($tenure help | sed -n '/^Commands/,/^$/s/^  \([a-z]\+\) .*/\1/p'); do
    want "$command" tenure "$command"
    for option in $($tenure $command --help=all | grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
        complete_words tenure "$command" "$option"
        [[ " ${COMPREPLY[*]}" == *" $option"* ]] || { echo "FAILED: bash: $command $option"; failed=1; }
        grep -q -- "seen_subcommand_from $command' -l ${option#--} " all.fish || { echo "FAILED: fish: $command $option"; failed=1; }
        sed -n "/^    $command)/,/^        ;;/p" all.zsh | grep -q -- "'\*$option[=[]" ||
            { echo "FAILED: zsh: $command $option"; failed=1; }
    done
done
bash -n all.bash || failed=1
for shell in zsh fish; do
    if command -v $shell >/dev/null; then $shell -n all.$shell || failed=1; fi
done
exit $failed
