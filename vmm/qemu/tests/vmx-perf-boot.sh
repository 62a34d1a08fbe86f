#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host records the boot of its guest by stock parts: Debian's kernel with its own driver of Intel PT and
# kvm_intel, and stock perf (perf record -a -e intel_pt//), on VMX in TCG. Host and guest have two processors
# each. From the begin of the guest's QEMU on, through firmware and kernel to the guest's shell and its end, the
# trace of each of the host's processors decodes to what QEMU's plugin interface saw run, instruction by
# instruction. All of the code that is decoded is what that log has of it, as it was at its place: kernels patch
# themselves and processes come and go, and neither perf nor an image of memory at the end has what ran.
#
#   CPUS=1 vmx-perf-boot.sh     one processor each
#
# Needs `make qemu`, the lab's kernel and perf; without them, every test is named and counted as skipped.
# Some minutes, and 4 GB below $TMPDIR.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/linux/nested.sh
. "$here/nested.sh"
# Packets of this profile have linear addresses. Where they have RIPs, as on servers, no packet tells where the
# code of the guest's firmware is, which runs in real mode.
nested_cpu=max,vendor=GenuineIntel,vpt-profile=goldmont-plus,+vmx,-la57
nested_disk=2G
cpus=${CPUS:-2}
least=100000000 # instructions
boot_s=1800

need_perf
need_execlog
skip_all "a nested boot that its host's perf records"

# The log begins before perf records. A capture, though of nothing, has all code translated anew.
records() {
    qmp_pipes "$work/qmp"
    (nested_machine "$boot_s" -smp "$cpus" -m 3000 -chardev "pipe,id=qmp,path=$work/qmp" \
        -mon chardev=qmp,mode=control -plugin "$execlog,blocks=$work/log,code=on,when=$work/begin") &
    outer=$!
    qmp_open "$work/qmp"
    nested_says '^ready' && qmp stop && touch "$work/begin" &&
        qmp x-vpt-start '"file": "'"$work/capture"'"' &&
        qmp x-vpt-stop && qmp cont
    wait "$outer"
    qmp_close
    mkdir -p "$work/out.d"
    tar -C "$work/out.d" -xf "$work/disk"
    tr -d '\r' <"$work/console" >"$work/host"
    cat "$work/host" "$work/qemu" "$work/out.d/perf"
    grep -x 'perf 0' "$work/host" && [ -s "$work/out.d/host.data" ]
}

shell_is_reached() {
    tr -d '\r' <"$work/out.d/inner" >"$work/said"
    tail "$work/said"
    grep -x 'inner status 0' "$work/host" && grep -x "shell: $cpus processors" "$work/said" &&
        grep -x 'shell: done' "$work/said"
}

# Nothing may be lost: perf says it of each buffer, and the driver's buffers hold some seconds.
taken() { # CPU
    "$build/qemu/perf_aux" "$work/out.d/host.data" "$1" "$work/trace.$1" >"$work/taken.$1"
    cat "$work/taken.$1"
    grep ', 0 records of loss$' "$work/taken.$1"
}

# compared CPU LOG CODE
compared() {
    "$build/qemu/compare" --code "$3" "$work/trace.$1" "$2" "$work/log.table" 2>&1
}

# Of what ran while it was recorded, next to nothing is not in the trace: tracing pauses while the driver takes
# up another buffer.
nearly_all() {
    local all off
    read -r all off < <(sed -nE 's/^([0-9]+) instructions, .*, ([0-9]+) logged while off, .*/\1 \2/p' "$1")
    [ $((off * 1000)) -lt "$all" ]
}

decodes() { # CPU
    compared "$1" "$work/log.$1" "$work/log.code" >"$work/compared.$1"
    cat "$work/compared.$1"
    grep ', 0 errors, 0 bytes lost' "$work/compared.$1" && nearly_all "$work/compared.$1" &&
        grep -x identical "$work/compared.$1"
}

# The guest ran on this one, as packets tell: outside of it NR is 0.
both_sides() {
    "$build/vpt" parts --json "$work/trace.$1" >"$work/parts"
    jq -es 'any(.[]; .nr) and any(.[]; .nr | not)' "$work/parts"
}

many() {
    cat "$work"/compared.?
    awk -v least="$least" '/ instructions, / { sum += $1 } END { exit !(sum >= least) }' "$work"/compared.?
}

# A block that ran amid the boot, wholly (bit 31 of its word says when not, and how much is the next word), and
# how many instructions the table has in front of it.
block_amid() {
    word=$(($(stat -c %s "$work/log.0") / 4 / 4))
    read -r word block < <(od -An -v -tu4 -w4 -j $((word * 4)) -N 65536 "$work/log.0" | awk -v word="$word" '
        part { part = 0; next } $1 >= 2147483648 { part = 1; next } NR > 1 { print word + NR - 1, $1; exit }')
    in_front=$(od -An -v -td8 -w8 "$work/log.table" | awk -v block="$block" '
        left { left--; next } n++ == block { print insns + 0; exit } { left = $1; insns += $1 }')
    [ -n "$in_front" ]
}

# put BYTES FILE OFFSET: as printf has them.
put() {
    # shellcheck disable=SC2059
    printf "$1" | dd of="$2" bs=1 seek="$3" conv=notrunc status=none
}

# Its first instruction is said to be a RET, or a NOP if it is one.
other_code_is_found() {
    local byte='\xc3'
    block_amid && cp "$work/log.code" "$work/bad" || return 1
    [ "$(od -An -tx1 -j $((in_front * 16 + 1)) -N 1 "$work/bad")" != ' c3' ] || byte='\x90'
    put "$byte" "$work/bad" $((in_front * 16 + 1))
    compared 0 "$work/log.0" "$work/bad" >"$work/found"
    cat "$work/found"
    ! grep -x identical "$work/found" && grep -E '^different: |, [1-9][0-9]* errors' "$work/found"
}

# The log is said to have another block there.
other_path_is_found() {
    block_amid && cp "$work/log.0" "$work/bad" || return 1
    put '\0\0\0\0' "$work/bad" $((word * 4))
    compared 0 "$work/bad" "$work/log.code" >"$work/found"
    cat "$work/found"
    ! grep -x identical "$work/found" && grep '^different: ' "$work/found"
}

# Other code came to an address, of a kernel too.
patched() {
    cat "$work"/compared.?
    grep -hE '^code: [1-9][0-9]* instructions changed, [1-9][0-9]* of kernels$' "$work"/compared.?
}

mkdir -p "$work/nested/usr/bin"
cp -L "$(command -v perf)" "$work/nested/usr/bin/perf"
shared_objects "$work/nested" "$work/nested/usr/bin/perf"
guest_of shell-init
# There are 3 million MTC packets a second else, however slow this machine is: too much for its processors.
nested_prepare "$lab/vmlinuz" "$work/guest.cpio" <<JOB
mkfifo /control /answers
exec 3<>/control 4<>/answers
perf record -a -m,64M -D -1 --control fifo:/control,/answers -e intel_pt/mtc_period=9/ \\
    -o /out/host.data >/out/perf 2>&1 &
perf=\$!
ask() {
    echo "\$1" >&3
    read -r answer <&4
    echo "\$1: \$answer"
}
ask ping
echo ready
sleep 5
ask enable
/qemu -L /bios -accel kvm -machine pc -m 256 -smp $cpus -cpu host -display none -nodefaults -no-reboot \
    -serial file:/out/inner -kernel /vmlinuz -initrd /guest.cpio \
    -append "console=ttyS0 panic=-1 quiet no_timer_check rdinit=/init" </dev/null
echo "inner status \$?"
ask disable
ask stop
wait \$perf
echo "perf \$?"
ls -l /out
JOB
check 'a nested boot is recorded by its host' records
check "a nested boot that its host's perf records gets to its shell" shell_is_reached
for ((cpu = 0; cpu < cpus; cpu++)); do
    check "a nested boot that its host's perf records: nothing of processor $cpu is lost" taken "$cpu"
    check "a nested boot that its host's perf records: processor $cpu decodes to what ran" decodes "$cpu"
    sed 's/^/    /' "$work/compared.$cpu"
    check "a nested boot that its host's perf records: processor $cpu ran host and guest" both_sides "$cpu"
done
check "a nested boot that its host's perf records: at least $least instructions" many
check "a nested boot that its host's perf records: code has changed" patched
check "a nested boot that its host's perf records: a wrong byte of code is found" other_code_is_found
check "a nested boot that its host's perf records: another block in the log is found" other_path_is_found
summary
