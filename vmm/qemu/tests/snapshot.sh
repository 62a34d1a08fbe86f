# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced, behind qmp.sh: the state of a whole machine in a qcow2 image, as savevm and loadvm have it.

# block_job COMMAND ARGUMENTS: one that works in the background, to its end. False: it failed.
block_job() {
    local state
    qmp "$1" '"job-id": "job", '"$2" || return 1
    while state=$(qmp query-jobs) && [[ $state != *'"status": "concluded"'* ]]; do sleep 0.05; done
    qmp job-dismiss '"id": "job"' && ! grep '"error"' <<<"$state"
}

# state_disk FILE: a qcow2 image for the snapshot, as node "state".
state_disk() {
    qmp blockdev-add '"driver": "qcow2", "node-name": "state",
        "file": {"driver": "file", "filename": "'"$1"'"}'
}

# new_state_disk FILE: the same, and the image is made in this empty file.
new_state_disk() {
    qmp blockdev-add '"driver": "file", "node-name": "raw", "filename": "'"$1"'"' &&
        block_job blockdev-create '"options": {"driver": "qcow2", "file": "raw", "size": 67108864}' &&
        qmp blockdev-del '"node-name": "raw"' && state_disk "$1"
}

# snapshot snapshot-save|snapshot-load
snapshot() {
    block_job "$1" '"tag": "amid", "vmstate": "state", "devices": ["state"]'
}
