# fish completion for spillwayd: the program says itself what could come next.
function __spillwayd_complete
    set -l line (commandline -opc)
    set -l current (commandline -ct)
    if string match -q -- '-*' $current
        set -a line $current
    end
    $line --generate-bash-completion 2>/dev/null
end
complete -c spillwayd -a '(__spillwayd_complete)'
