# bash completion for spillwayd: the program says itself what could come next.
_spillwayd() {
    local current=${COMP_WORDS[COMP_CWORD]}
    local -a line=("${COMP_WORDS[@]:0:COMP_CWORD}")
    if [[ $current == -* ]]; then
        line+=("$current")
    fi
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$("${line[@]}" --generate-bash-completion 2>/dev/null)" -- "$current"))
}
complete -o bashdefault -o default -F _spillwayd spillwayd
