# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it sets what it needs
# Sourced by report.sh: names of functions by other ways than vpt's, and sums by these names.
#
# Functions may have several names, and each side shows one of them. So names that stand at one address
# are one group, and sums are those of groups. What no name belongs to is a group of each file.
#
# Needs: build, work, root (files of the guest), out (folder of a guest), and sums of report.sh.

# ---- Tables of names ----

# Functions that a file has: "first last name", in hexadecimal digits, the last behind its end. Where
# one without a size ends is a matter of opinion: what it runs is the file's. Code is as far above its
# addresses as $2 says.
functions_of() { # FILE DISTANCE
    local value size name
    readelf -sW "$1" 2>/dev/null | awk '$1 ~ /^[0-9]+:$/ && $4 ~ /^(FUNC|IFUNC)$/ &&
        $3 != "0" && $7 != "UND" && $7 != "ABS" && NF >= 8 { sub(/@.*/, "", $8); print $2, $3, $8 }' | sort -u |
        while read -r value size name; do
            printf '%016x %016x %s\n' $((16#$value + $2)) $((16#$value + $2 + size)) "$name"
        done
}

# How far the addresses of a file's code are above its offsets.
code_above() { # FILE
    local offset address
    read -r offset address < <(readelf -lW "$1" | awk '$1 == "LOAD" && / R E / { print $2, $3; exit }')
    echo $((address - offset))
}

# Code of these files as a process has it mapped, its functions and itself: lines of "first last
# file|name".
functions_of_process() { # PID FILE...
    local pid=$1 file range offset base
    shift
    for file; do
        read -r range offset < <(awk -v file="$file" '$2 ~ /x/ && $6 == file { print $1, $3; exit }' \
            "$out/told/proc/$pid/maps") || return 1
        base=$((16#${range%-*} - 16#$offset - $(code_above "$root$file")))
        functions_of "$root$file" "$base" | sed "s,[^ ]*\$,${file##*/}|&,"
    done
}
# "first last file"
code_of_process() { # PID FILE...
    local pid=$1 file range
    shift
    for file; do
        read -r range < <(awk -v file="$file" '$2 ~ /x/ && $6 == file { print $1; exit }' "$out/told/proc/$pid/maps")
        printf '%016x %016x %s\n' $((16#${range%-*})) $((16#${range#*-})) "${file##*/}"
    done
}

# ---- Sums of groups ----

# Groups of names: "name representative" for lines of "address name", names at one address being one group.
# Several functions have one name, so that a group may have several addresses.
groups_of() {
    awk '
        function top(name) {
            while (parent[name] != name)
                name = parent[name]
            return name
        }
        !($2 in parent) { parent[$2] = $2 }
        $1 in at { parent[top($2)] = top(at[$1]); next }
        { at[$1] = $2 }
        END { for (name in parent) print name, top(name) }'
}

# Sums of groups, of lines "instructions file|name"; what has no group is the file's. Sorted.
sums_by_group() { # GROUPS
    awk 'NR == FNR { group[$1] = $2; next }
        { sub(/@@?[A-Z].*/, "", $2); if (!($2 in group)) sub(/\|.*/, "", $2) }
        { sums[$2 in group ? group[$2] : $2] += $1 } END { for (name in sums) printf "%d %s\n", sums[name], name }' "$1" - |
        sort -k 2
}

# ---- The log of executed blocks ----

decodes_to_log() {
    local trace
    for trace in 0 1; do
        [ -s "$out/compared.$trace" ] || "$build/qemu/compare" --counts "$out/counts.$trace" "$out/trace.$trace" \
            "$work/blocks.$trace" "$work/blocks.table" >"$out/compared.$trace" || { cat "$out/compared.$trace"; return 1; }
        cat "$out/compared.$trace"
        grep ', 0 errors, 0 bytes lost' "$out/compared.$trace" >/dev/null || return 1
    done
}

# Executed addresses with what stands there: "times name", or none where nobody says. Symbols, ends of
# symbols and code in the order of addresses: all have as many digits. Of two functions, the one counts
# that begins later.
named_addresses() { # SYMBOLS CODE
    { awk '{ print $1, "1 begin", $3; print $2, "0 end", $1 }' "$1"
      awk '{ print $1, "0 code", $3; print $2, "0 code", "" }' "$2"
      cat "$out"/counts.[01] | awk '{ print $1, "2 ran", $2 }'; } | LC_ALL=C sort -k 1,2 | awk '
        $3 == "begin" { if (from != $1) name = $4; from = $1; next }
        $3 == "end" { if ($4 == from) name = from = ""; next }
        $3 == "code" { file = $4; name = from = ""; next }
        name != "" { print $4, name; next }
        file != "" { print $4, file }'
}

# Of the kernel and its modules, a name holds up to the next one.
kernel_functions() {
    awk '$2 ~ /^[tTwW]$/ && $1 ~ /^[89a-f]/ { print $1, $3 }' "$out/told/kallsyms" | LC_ALL=C sort -s -k 1,1 >"$work/texts"
    awk '{ if (at != "" && $1 != at) { for (i = 0; i < n; i++) print at, $1, "kernel|" names[i]; n = 0 }
           at = $1; names[n++] = $2 } END { for (i = 0; i < n; i++) print at, "ffffffffffffffff", "kernel|" names[i] }' \
        "$work/texts"
}

# What the known programs and the library of one of them ran, the kernel and its modules.
symbols_of_guest() {
    local name pid
    : >"$work/code"
    for name in crew keeper gadget; do
        pid=$(grep -lx "$name" "$out"/told/proc/*/comm | sed -n 's,.*/\([0-9]*\)/comm,\1,p')
        functions_of_process "$pid" "/usr/bin/$name" || return 1
        code_of_process "$pid" "/usr/bin/$name" >>"$work/code"
        if [ "$name" = crew ]; then
            functions_of_process "$pid" /usr/lib/libtools.so || return 1
            code_of_process "$pid" /usr/lib/libtools.so >>"$work/code"
        fi
    done
    kernel_functions
}

same_functions_as_log() {
    symbols_of_guest >"$work/symbols" || return 1
    awk '{ print $1, $3 }' "$work/symbols" | groups_of >"$work/groups"
    named_addresses "$work/symbols" "$work/code" >"$work/executed"
    sums_by_group "$work/groups" <"$work/executed" >"$work/wanted"
    awk -F '\t' '$2 == "[kernel]" { print $1, "kernel|" $3; next }
        $2 ~ /^(crew|keeper|gadget|libtools.so)$/ { print $1, $2 "|" $3 }' "$out/sums" |
        sums_by_group "$work/groups" >"$work/found"
    awk 'NR == FNR { known += $1; next } { all += $2 } END {
        printf "%d of %d executed instructions, %.2f %%\n", known, all, 100 * known / all }' \
        "$work/wanted" <(cat "$out"/counts.[01])
    echo "$(wc -l <"$work/wanted") groups of names"
    diff "$work/wanted" "$work/found" && [ "$(wc -l <"$work/wanted")" -gt 1000 ]
}

# ---- The guest's own trace ----

# Names that the program gives itself: what ran before was the shell, and perf itself.
crew=crew,offspring,left,right

# What stock perf makes of it: "instructions file|function", and "instructions tid".
perf_report() { # SORT
    perf report -i "$out/told/own.data" --symfs "$root" --no-demangle --itrace=i1i --stdio -n -t '|' --sort "comm,$1" \
        --percent-limit 0 2>"$work/perf.err" | awk -F '|' -v OFS='|' -v names=",$crew," '!/^#/ && NF > 3 {
            gsub(/ /, "", $2); gsub(/ /, "", $3); if (index(names, "," $3 ",")) print }'
}
perf_functions() {
    perf_report dso,sym | awk -F '|' '{ gsub(/ /, "", $4); sub(/.*\//, "", $4); sub(/^ *\[.\] */, "", $5); sub(/ *$/, "", $5)
        print $2, $4 "|" $5 }'
}
perf_threads() {
    perf_report pid | awk -F '|' '{ gsub(/ |:.*/, "", $4); sums[$4] += $2 }
        END { for (tid in sums) printf "%d %s\n", sums[tid], tid }' | sort -k 2
}

# The same of the capture: user code of the processes that perf saw, from where they were the program.
captured_own() {
    local pid
    for pid in $(perf script -i "$out/told/own.data" --show-task-events --no-itrace 2>/dev/null |
        sed -nE 's/.*PERF_RECORD_COMM exec: .*:([0-9]+)\/.*/\1/p; s/.*PERF_RECORD_FORK\(([0-9]+):.*/\1/p' | sort -u); do
        sum_up_process "$pid" 2>/dev/null &&
            awk -F '\t' -v names=",$crew," 'index(names, "," $2 ",") && $4 == "user"' "$out/process-$pid"
    done
}

same_functions_as_perf() {
    local file
    captured_own >"$out/own" && [ -s "$out/own" ] || return 1
    for file in /usr/bin/crew /usr/lib/libtools.so $(ldd "$root/usr/bin/crew" | sed -nE 's,^[^/]*(/[^ ]+) .*,\1,p'); do
        [ ! -f "$root$file" ] || functions_of "$root$file" 0 | sed "s,[^ ]*\$,${file##*/}|&,"
    done | awk '{ file = $3; sub(/\|.*/, "", file); print file $1, $3 }' | groups_of >"$work/groups"
    perf_functions | sums_by_group "$work/groups" >"$work/wanted"
    awk -F '\t' '{ print $1, $5 "|" $6 }' "$out/own" | sums_by_group "$work/groups" >"$work/found"
    awk '{ sum += $1 } END { print sum " instructions of " NR " functions" }' "$work/wanted"
    diff "$work/wanted" "$work/found" && [ "$(wc -l <"$work/wanted")" -gt 20 ]
}

same_threads_as_perf() {
    perf_threads >"$work/wanted"
    awk -F '\t' '{ sums[$3] += $1 } END { for (tid in sums) printf "%d %s\n", sums[tid], tid }' "$out/own" |
        sort -k 2 >"$work/found"
    diff "$work/wanted" "$work/found" && [ "$(wc -l <"$work/wanted")" -gt 10 ]
}
