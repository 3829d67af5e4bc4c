#compdef spillwayd
# zsh completion for spillwayd: the program says itself what could come next.
local current=${words[CURRENT]}
local -a line choices
line=("${(@)words[1,CURRENT-1]}")
if [[ $current == -* ]]; then
    line+=("$current")
fi
choices=("${(@f)$("${line[@]}" --generate-bash-completion 2>/dev/null)}")
if [[ -n ${choices[1]} ]]; then
    compadd -a choices
else
    _files
fi
