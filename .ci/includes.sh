#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# includes.sh: whether the tree keeps to the table in docs/design.md that says which folder may
# include which. The page is the rule: this script reads it there. Reported are
#   - an include that the table does not allow, and a folder with no row;
#   - a header that stands nowhere in the tree, or at two places that the name could mean;
#   - names with '..' in them: headers are named from a root, or alone if they are in the same folder;
#   - circles between folders, and between files of a library, which is emulation/, decoder/ or
#     guest-tests/lib/ (NAME.c and NAME.h count as one);
#   - more floors of files in decoder/ than the page allows.
# Ends with status 1 if there is anything to report.
set -euo pipefail
cd "$(git -C "${1:-$(dirname "${BASH_SOURCE[0]}")}" rev-parse --show-toplevel)"
page=docs/design.md

# What the page says: rows as 'R FOLDERS|INCLUDES', floors as 'L COUNT'.
rules() {
    awk -F '|' '
        /^\| folder \| may include \|/ { inside = 1; next }
        inside && !/^\|/ { inside = 0 }
        inside && $2 ~ /`/ { print "R " $2 "|" $3 }
        { text = text " " $0 }
        END { if (match(text, /at most [0-9]+ floors/)) print "L " substr(text, RSTART, RLENGTH) }
    ' "$page"
}

sources() {
    git ls-files -co --exclude-standard -- '*.c' '*.h' '*.S' '*.inc' | while IFS= read -r file; do
        [ ! -f "$file" ] || printf 'F %s\n' "$file"
    done
}

includes() {
    sources | cut -d ' ' -f 2- | xargs -r grep -nH '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' |
        sed -E 's/^([^:]*):([0-9]+):[^"]*"([^"]*)".*/I \1 \2 \3/' || true
}

# The tables below are of awk: row[FOLDER] is what it may include, between blanks.
{ rules && sources && includes; } | awk -v page="$page" '
    function report(text) { print text; failed = 1 }

    # The words of a cell that stand in backquotes, without a slash at the end.
    function words(cell, out,    count, found) {
        delete out
        while (match(cell, /`[^`]*`/)) {
            found = substr(cell, RSTART + 1, RLENGTH - 2)
            sub(/\/$/, "", found)
            out[++count] = found
            cell = substr(cell, RSTART + RLENGTH)
        }
        return count
    }

    function add_row(text,    cells, folders, others, count, i, j) {
        split(text, cells, "|")
        count = words(cells[2], others)
        for (i = words(cells[1], folders); i > 0; i--) {
            row[folders[i]] = " "
            foreign[folders[i]] = cells[2] ~ /QEMU/
            for (j = 1; j <= count; j++)
                row[folders[i]] = row[folders[i]] others[j] " "
        }
    }

    function parent(path) { return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "" }

    # The nearest folder above a file that has a row.
    function folder_of(path) {
        for (path = parent(path); path != "" && !(path in row); path = parent(path))
            continue
        return path
    }

    # The library that a file belongs to, with its tests.
    function library_of(path) {
        return match(path, /^(emulation|decoder|guest-tests\/lib)\//) ? substr(path, 1, RLENGTH) : ""
    }

    # Where the compiler looks for the headers that a file names. In QEMU, emulation/ is libvpt/.
    function roots_of(from) {
        if (foreign[folder_of(from)])
            return "emulation"
        return from ~ /^guest-tests\// ? "guest-tests guest-tests/lib" : "emulation decoder vmm"
    }

    # The file that a name means; "" if there is none, "?" if there are two.
    function resolve(from, name,    roots, count, i, found) {
        if ((parent(from) "/" name) in file)
            return parent(from) "/" name
        count = split(roots_of(from), roots, " ")
        for (i = 1; i <= count; i++)
            if ((roots[i] "/" name) in file)
                found = found == "" ? roots[i] "/" name : "?"
        return found
    }

    function check(from, line, name,    where, to, target) {
        where = from ":" line ": "
        from_folder = folder_of(from)
        if (from_folder == "")
            return
        if (name ~ /\.\./) {
            report(where "\"" name "\" is not named from a root")
            return
        }
        if (foreign[from_folder])
            sub(/^libvpt\//, "", name)
        to = resolve(from, name)
        if (to == "?")
            report(where "\"" name "\" can mean two files")
        if (to == "" && !foreign[from_folder])
            report(where "\"" name "\" stands nowhere in the tree")
        if (to == "?" || to == "")
            return
        target = folder_of(to)
        if (target != from_folder) {
            if (index(row[from_folder], " " target " ") == 0 && index(row[from_folder], " " to " ") == 0)
                report(where from_folder " may not include \"" name "\" of " target " (" page ")")
            uses["folders", from_folder, target]
        }
        if (library_of(from) != "" && library_of(from) == library_of(to)) {
            sub(/\.[a-zA-Z]+$/, "", from)
            sub(/\.[a-zA-Z]+$/, "", to)
            if (from != to)
                uses["files", from, to]
        }
    }

    # How many stand one upon the other below this one, itself included; reports circles.
    function floors(kind, name,    pair, parts, most, below) {
        if ((kind, name) in height)
            return height[kind, name]
        if ((kind, name) in open) {
            report("circle of " kind ": " path_from(kind, name))
            return 0
        }
        open[kind, name]
        way[++depth] = name
        for (pair in uses) {
            split(pair, parts, SUBSEP)
            if (parts[1] == kind && parts[2] == name) {
                below = floors(kind, parts[3])
                most = below > most ? below : most
            }
        }
        depth--
        delete open[kind, name]
        return height[kind, name] = most + 1
    }

    function path_from(kind, name,    i, text) {
        for (i = depth; way[i] != name; i--)
            text = " -> " way[i] text
        return name text " -> " name
    }

    /^R / { add_row(substr($0, 3)) }
    /^L / { match($0, /[0-9]+ floors/); limit = substr($0, RSTART, RLENGTH) + 0 }
    /^F / { file[$2]; if (folder_of($2) == "") report($2 ": its folder has no row in " page) }
    /^I / { check($2, $3, $4) }

    END {
        if (!limit)
            report(page ": says nothing of at most so many floors")
        for (pair in uses) {
            split(pair, parts, SUBSEP)
            names[parts[1], parts[2]]
        }
        for (pair in names) {
            split(pair, parts, SUBSEP)
            high = floors(parts[1], parts[2])
            is_part = parts[2] ~ /^decoder\// && parts[2] !~ /^decoder\/(tests|fuzz|bench|roundtrip)\//
            if (parts[1] == "files" && is_part && limit && high > limit)
                report(parts[2] ": stands on floor " high " of at most " limit)
        }
        exit failed
    }
' | sort
