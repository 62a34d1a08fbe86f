#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt-slurm.sh -n N -o FILE [SBATCH OPTION...] -- decode|report [OPTION...] TRACE: an array job of Slurm
# that decodes a trace in N pieces, and a job behind it that puts them together into FILE. Pieces that were
# lost are decoded there. Ends when that job has ended, with its exit code.
set -euo pipefail

usage='vpt-slurm.sh -n N -o FILE [SBATCH OPTION...] -- decode|report [OPTION...] TRACE'
count='' out='' options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
    -n) count=${2:?$usage} && shift ;;
    -o) out=${2:?$usage} && shift ;;
    *) options+=("$1") ;;
    esac
    shift
done
if [ $# -lt 3 ] || [ -z "$count" ] || [ -z "$out" ]; then
    echo "usage: $usage" >&2
    exit 2
fi
shift
printf -v vpt '%q' "${VPT:-vpt}"
command=$1
shift
printf -v words ' %q' "$@"
printf -v to '%q' "$out"
# The number of the task is set where the task runs.
job=$(sbatch --parsable --requeue --output=/dev/null "${options[@]}" --array="1-$count" \
    --wrap "exec $vpt $command --shard \$SLURM_ARRAY_TASK_ID/$count$words")
sbatch --wait --output="$out.log" "${options[@]}" --dependency="afterany:${job%%;*}" \
    --wrap "exec $vpt merge --repeat $command$words >$to"
