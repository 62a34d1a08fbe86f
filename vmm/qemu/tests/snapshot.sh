# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced, behind qmp.sh: the state of a whole machine in a qcow2 image, as savevm and loadvm have it.

# block_job COMMAND: one that works in the background, named "job", to its end. False: it failed.
block_job() {
    local state
    qmp "$1" || return 1
    until state=$(qmp '{"execute": "query-jobs"}') && grep -q '"status": "concluded"' <<<"$state"; do
        sleep 0.05
    done
    qmp '{"execute": "job-dismiss", "arguments": {"id": "job"}}'
    ! grep '"error"' <<<"$state"
}

# state_disk FILE: a qcow2 image for the snapshot, as node "state".
state_disk() {
    qmp '{"execute": "blockdev-add", "arguments": {"driver": "qcow2", "node-name": "state",
        "file": {"driver": "file", "filename": "'"$1"'"}}}'
}

# new_state_disk FILE: the same, and the image is made in this empty file.
new_state_disk() {
    qmp '{"execute": "blockdev-add", "arguments": {"driver": "file", "node-name": "raw", "filename": "'"$1"'"}}' &&
        block_job '{"execute": "blockdev-create", "arguments": {"job-id": "job", "options":
            {"driver": "qcow2", "file": "raw", "size": 67108864}}}' &&
        qmp '{"execute": "blockdev-del", "arguments": {"node-name": "raw"}}' && state_disk "$1"
}

# snapshot snapshot-save|snapshot-load
snapshot() {
    block_job '{"execute": "'"$1"'", "arguments": {"job-id": "job", "tag": "amid", "vmstate": "state",
        "devices": ["state"]}}'
}
