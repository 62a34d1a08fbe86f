# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced: talks QMP over two named pipes, QMP.in and QMP.out, of QEMU's
#   -chardev pipe,id=qmp,path=QMP -mon chardev=qmp,mode=control

# qmp_pipes QMP: before QEMU starts.
qmp_pipes() {
    rm -f "$1.in" "$1.out"
    mkfifo "$1.in" "$1.out"
}

# qmp_open QMP: after QEMU was started in the background.
qmp_open() {
    trap '' PIPE # a QEMU that has ended is an error of a command, and no end of the test
    exec 7>"$1.in" 8<"$1.out"
    qmp '{"execute": "qmp_capabilities"}' >/dev/null
}

qmp_close() {
    exec 7>&- 8<&-
}

# qmp COMMAND: prints the answer. False: it is an error, or there is none within 30 seconds, or no QEMU.
qmp() {
    local line
    printf '%s\n' "$1" >&7 || return 1
    while IFS= read -r -t 30 line <&8; do
        case $line in
        *'"return"'*) printf '%s\n' "$line"; return 0 ;;
        *'"error"'*) printf '%s\n' "$line"; return 1 ;;
        esac
    done
    return 1
}
