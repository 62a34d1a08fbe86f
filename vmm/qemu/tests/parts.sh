# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced: compares what a guest traced of itself with what is known to have run.

# What vpt decode prints, as one address a line.
ips_of_decoded() {
    sed -nE 's/^([0-9a-f]+)  .*/\1/p'
}

# images_are_here TRACE.json: of a guest image that the outer host had in its root folder.
images_are_here() {
    sed -i "s,\"[\\\\/]*/\([a-z]*\.elf\),\"$(realpath guest-tests/build)/\1," "$1"
}

address_of() { # ELF SYMBOL
    nm "$1" | sed -n "s/^0*\([0-9a-f]*\) [a-zA-Z] $2\$/0x\1/p"
}

# demo_places: for execlog, where the guests of demo.elf on a Linux host have their code. Its kernel stands
# where no other does, and its programs where only busybox does, which sleeps meanwhile.
demo_places() {
    local kernel end
    kernel=$(address_of guest-tests/build/demo.elf guest_main)
    end=$(address_of guest-tests/build/demo.elf image_end)
    echo "start=$kernel,from=0x400000,to=0x404000,also_from=$((kernel & ~0xfff)),also_to=$end"
}

# demo_ran LOG NUMBER: what one of them ran, one address a line. The log has all of them one after the other,
# and each begins at its first instruction.
demo_ran() {
    od -An -v -tx8 -w8 "$1" | sed 's/^ *//' |
        awk -v first="$(address_of guest-tests/build/demo.elf guest_main)" -v number="$2" '
            "0x" $1 == first && ++at > number { exit }
            at == number'
}

# parts_of RAN LEAST [carried|lost]: what vpt decode prints on standard input. Each part from a begin of tracing
# to its end is a part of RAN, one address a line, in its order. Between them only the handler of the PMI
# runs, which stops the trace. An instruction that was begun may be there: once more if a VM exit came amid
# it and it began again, and in front of a fault. With "carried", those that the host carried out are not
# there: some in a row, as those of the APIC are; nor may be some hundreds of the first, which vpt demux
# cannot tell whose they are. With "lost", any number may be missing between parts.
# Where RAN ends, all is compared. Instructions of RAN count.
parts_of() {
    awk -v least="$2" -v how="${3:-}" '
        BEGIN { carried = how == "carried" }
        NR == FNR { ran[NR] = $1; n = NR; next }
        /^ *-- (enabled|disabled|overflow)/ { piece(); next }
        /^ *-- interrupt/ { event[count + 1] = 1; next }
        /^[0-9a-f]+  / { ips[++count] = $1 }
        # Where the part ends in what ran if it begins at a place; 0: it does not.
        function match_at(place, first,    i, by) {
            skipped = 0
            for (i = first; i <= count; i++) {
                if (place > n && carried)
                    return place
                while (ran[place] != ips[i] && place <= n && i > first && ran[place] == ran[place - 1])
                    place++
                if (ran[place] != ips[i] && (i in event))
                    place++
                for (by = 1; ran[place] != ips[i] && carried && i > first && by <= 4; by++)
                    if (ran[place] == ips[i + by]) {
                        skipped += by
                        i += by
                    }
                if (ran[place] != ips[i])
                    return 0
                place++
            }
            return place
        }
        function piece(    from, end, first) {
            if (!count || at >= n)
                return
            for (first = 1; !end && first <= (carried && !total ? 1000 : 1); first++)
                for (from = at + 1; from <= n; from++)
                    if (ran[from] == ips[first] && (end = match_at(from, first)))
                        break
            if (!end) {
                print "a part of " count " instructions from " ips[1] " on did not run"
                bad = 1
                exit 1 # also where END has called
            }
            if (first > 2)
                print first - 2, "instructions in front"
            if (total)
                between += from - at - 1
            at = end - 1
            total += end - from
            host += skipped
            count = 0
            split("", event)
        }
        END {
            if (!bad)
                piece()
            print total + 0, "instructions,", between + 0, "between their parts,", host + 0, "by the host"
            exit bad || total < least || (between * 20 > total && how != "lost") || host * 50 > total
        }' "$1" -
}

# What a guest that the host's Intel PT traces cannot have. Between two packets of the host that tell the
# time, its cycle counter stands still. Regions that fill up within one piece have one PMI.
timing_rules='CYC: before each TIP of an indirect branch (33.3.6)
processor 0: a PMI by interrupt for each of its regions (33.2.7.2)
processor 1: a PMI by NMI for each of its regions (33.2.7.2)'

# holds_but_for_timing REPORT PASSED: of a guest test; nothing else failed, and at least so many passed.
holds_but_for_timing() {
    ! sed -nE 's/^FAIL: //; T; s/ \(got [^)]*\)$//; p' "$1" | grep -vxF "$timing_rules" &&
        [ "$(grep -c '^PASS' "$1")" -ge "$2" ]
}
