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
    qmp qmp_capabilities >/dev/null
}

qmp_close() {
    exec 7>&- 8<&-
}

# qmp COMMAND [ARGUMENTS]: prints the answer; the arguments are members in JSON. False: it is an error, or there
# is none within 30 seconds, or no QEMU.
qmp() {
    local line
    printf '{"execute": "%s", "arguments": {%s}}\n' "$1" "${2:-}" >&7 || return 1
    while IFS= read -r -t 30 line <&8; do
        case $line in
        *'"return"'*) printf '%s\n' "$line"; return 0 ;;
        *'"error"'*) printf '%s\n' "$line"; return 1 ;;
        esac
    done
    return 1
}

# qmp_listens SOCKET PID: waits until a QEMU listens there for a guest that comes by migration. False: it ended.
qmp_listens() {
    until [ -S "$1" ]; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.02
    done
}

# qmp_migrated: waits until the guest has moved, and prints the last answer. False: that failed, or QEMU ended.
qmp_migrated() {
    local state
    while state=$(qmp query-migrate); do
        case $state in
        *'"status": "completed"'*) printf '%s\n' "$state"; return 0 ;;
        *'"status": "failed"'*) break ;;
        esac
        sleep 0.05
    done
    printf '%s\n' "$state"
    return 1
}

# qmp_migrate URI: moves the guest there.
qmp_migrate() {
    qmp migrate "\"uri\": \"$1\"" && qmp_migrated
}

# qmp_memory FILE MIB: writes so much of the guest's physical memory, from address 0 on.
qmp_memory() {
    qmp pmemsave "\"val\": 0, \"size\": $(($2 << 20)), \"filename\": \"$1\""
}

# qmp_arrived: waits until a guest is there that comes by migration.
qmp_arrived() {
    local state
    while state=$(qmp query-status) && [[ $state == *inmigrate* ]]; do sleep 0.05; done
}
