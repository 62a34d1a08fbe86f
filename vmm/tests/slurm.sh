#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Array jobs of a Slurm of its own, on this machine: munged, slurmctld and slurmd with keys, ports and folders
# of this test. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
slurm=$(realpath "$(dirname "$0")/../cli/vpt-slurm.sh")
saved=$(dirname "$0")/saved
vpt=$(realpath "$vpt")
PATH=$PATH:/usr/sbin

for program in munged slurmctld slurmd sbatch; do
    command -v "$program" >/dev/null || skip_rest 'Slurm' "there is no $program"
done
[ "$(id -u)" = 0 ] || skip_rest 'Slurm' 'slurmd has to be started by root'

chmod 755 "$work"
mkdir "$work/munge" "$work/state" "$work/spool"
head -c 1024 /dev/urandom >"$work/munge/key"
chmod 700 "$work/munge"
chmod 600 "$work/munge/key"
port=$((20000 + RANDOM % 20000))
cat >"$work/slurm.conf" <<END
ClusterName=vpt
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CryptoType=crypto/munge
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=100000
ReturnToService=2
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$(nproc)
PartitionName=all Nodes=ALL Default=YES State=UP
END
echo 'CgroupPlugin=cgroup/v1' >"$work/cgroup.conf"
export SLURM_CONF=$work/slurm.conf

started=()
start() {
    "$@" >"$work/$(basename "$1").log" 2>&1 &
    started+=($!)
}
stop() {
    scancel -u root 2>/dev/null
    kill "${started[@]}" 2>/dev/null
    wait "${started[@]}" 2>/dev/null
    rm -rf "$work"
}
trap stop EXIT
start munged --foreground --force --key-file="$work/munge/key" --socket="$work/munge/socket" \
    --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed"
sleep 1
start slurmctld -D
start slurmd -D
up=
for _ in $(seq 30); do
    if sinfo -h -o %T 2>/dev/null | grep -q idle; then up=yes && break; fi
    sleep 1
done
[ -n "$up" ] || {
    skip_rest 'Slurm' "it does not run here: $(tail -n 1 "$work/slurmd.log" "$work/slurmctld.log" | tr '\n' ' ')"
}

gzip -dc "$saved/guest.elf.gz" >"$work/guest.elf"
gzip -dc "$saved/guest.pt.gz" >"$work/one.pt"
for _ in $(seq 16); do cat "$work/one.pt"; done >"$work/guest.pt"
cp "$saved/guest.pt.json" "$work/guest.pt.json"
"$vpt" report --json "$work/guest.pt" >"$work/alone"

expect 'an array of 2' 0 '' env VPT="$vpt" "$slurm" -n 2 -o "$work/two" -- report --json "$work/guest.pt"
check 'the same as one process' cmp "$work/alone" "$work/two"

# A program that is killed once, in the midst of piece 5.
cat >"$work/killed" <<END
#!/bin/bash
if [[ \$* = *5/16* ]] && mkdir "$work/once" 2>/dev/null; then kill -KILL \$\$; fi
exec "$vpt" "\$@"
END
chmod +x "$work/killed"
rm -r "$work/guest.pt.shards"
expect 'an array of 16 with one killed' 0 '' env VPT="$work/killed" "$slurm" -n 16 -o "$work/many" -- \
    report --json "$work/guest.pt"
check 'it was killed' test -d "$work/once"
check 'and is not there' test ! -e "$work/guest.pt.shards/5-of-16"
check 'the others are' test "$(find "$work/guest.pt.shards" -name '*-of-16' | wc -l)" = 15
check 'the same as one process' cmp "$work/alone" "$work/many"
summary
