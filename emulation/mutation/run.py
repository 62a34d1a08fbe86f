#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Mutants of emulation/*.c: are the tests good enough to notice them?

Each mutant changes one operator, constant or statement of one line. It is built and the unit tests
of the model (and the conformance suite) run on it; a mutant that they all pass has survived.

usage: emulation/mutation/run.py [--count N] [--seed N] [--jobs N] [--file NAME] [--list]
"""
import argparse
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CC = os.environ.get("CC", "gcc")
FLAGS = ["-O1", "-std=c11", "-D_GNU_SOURCE", "-Iemulation", "-w"]
LIMIT_S = 60  # of one test program on a mutant

# (pattern, replacements): one match is changed at a time.
OPERATORS = [
    (r"==", ["!="]),
    (r"!=", ["=="]),
    (r"(?<![<>=-])<=", ["<", ">"]),
    (r"(?<![<>=-])>=", [">", "<"]),
    (r"(?<= )<(?= )", ["<=", ">="]),
    (r"(?<= )>(?= )", [">=", "<="]),
    (r"&&", ["||"]),
    (r"\|\|", ["&&"]),
    (r"(?<= )\+(?= )", ["-"]),
    (r"(?<= )-(?= )", ["+"]),
    (r"(?<= )<<(?= )", [">>"]),
    (r"(?<= )>>(?= )", ["<<"]),
    (r"(?<= )&(?= )", ["|"]),
    (r"(?<= )\|(?= )", ["&"]),
    (r"(?<=[(\s])!(?=[\w(])", [""]),
    (r"\btrue\b", ["false"]),
    (r"\bfalse\b", ["true"]),
    (r"\bif \((?!!)", ["if (!"]),  # completed below: the condition is wrapped
]
STATEMENT = re.compile(r"^(\s+)(?!return\b|break;|case\b|default|goto\b|const\b|struct\b|uint|bool |"
                       r"unsigned |enum |static |size_t )[\w>.\[\]\-]+(\(.*\)| [|&+\-]?= .*|\+\+|--);\s*(/\*.*\*/)?$")
NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")


def code_lines(text):
    """Line numbers that hold code of functions: no comments, preprocessor, tables of data."""
    lines, in_comment, depth = [], False, 0
    in_function = False
    for number, line in enumerate(text.split("\n")):
        stripped = line.strip()
        if in_comment:
            in_comment = "*/" not in line
            continue
        if stripped.startswith("/*"):
            in_comment = "*/" not in line
            continue
        if line == "{":
            in_function = True
        elif line.startswith("}"):
            in_function = False
        elif in_function and stripped and not stripped.startswith("#"):
            lines.append(number)
    return lines


def wrap_condition(line):
    """if (X) -> if (!(X)), when the parentheses close on this line."""
    start = line.index("if (") + 4
    depth = 1
    for i in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[i], 0)
        if depth == 0:
            return line[:start] + "!(" + line[start:i] + ")" + line[i:]
    return None


def code_of(line):
    """The line without what no test can notice: comments, texts, sizes of local arrays."""
    line = re.sub(r'"[^"]*"', lambda m: '"' + "_" * (len(m.group(0)) - 2) + '"', line.split("/*")[0])
    return re.sub(r"(\b(?:uint8_t|char) \w+)\[[^\]]*\]", lambda m: m.group(1) + "[" + "_" * (
        len(m.group(0)) - len(m.group(1)) - 2) + "]", line)


def mutants_of(name):
    text = open(os.path.join(ROOT, name)).read()
    lines = text.split("\n")
    found = []
    for number in code_lines(text):
        line = lines[number]
        code = code_of(line)
        if "_Static_assert" in code or code.strip().startswith("case "):
            continue
        for pattern, replacements in OPERATORS:
            for match in re.finditer(pattern, code):
                if pattern.startswith(r"\bif"):
                    changed = wrap_condition(line)
                    if changed:
                        found.append((name, number, changed))
                    continue
                for replacement in replacements:
                    changed = line[:match.start()] + replacement + line[match.end():]
                    found.append((name, number, changed))
        for match in NUMBER.finditer(code):
            value = int(match.group(1)) + 1
            found.append((name, number, line[:match.start()] + str(value) + line[match.end():]))
        if STATEMENT.match(line):
            found.append((name, number, re.match(r"\s*", line).group(0) + ";"))
    return found


def sh(command, cwd, limit=LIMIT_S):
    try:
        return subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=limit,
                              env={**os.environ, "VPT_FAIL_FAST": "1"}).returncode
    except subprocess.TimeoutExpired:
        return 124


class Bench:
    """A directory with the objects of everything, for one worker."""

    def __init__(self, work, sources, programs):
        self.work = work
        self.programs = programs
        self.objects = {s: os.path.join(work, s.replace("/", "_") + ".o") for s in sources}

    def run(self, mutant):
        name, number, changed = mutant
        text = open(os.path.join(ROOT, name)).read().split("\n")
        text[number] = changed
        source = os.path.join(self.work, "mutant.c")
        with open(source, "w") as out:
            out.write("\n".join(text))
        mutated = os.path.join(self.work, "mutant.o")
        if sh([CC, *FLAGS, "-c", "-o", mutated, source], ROOT) != 0:
            return "stillborn"
        library = [mutated if s == name else o for s, o in self.objects.items()]
        for program, extra, libraries in self.programs:
            path = os.path.join(self.work, program)
            if sh([CC, "-o", path, *extra, *library, *libraries], ROOT) != 0:
                return "stillborn"
            status = sh([path], ROOT)
            if status != 0:
                return "killed"
        return "survived"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=240, help="how many mutants (240)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--file", help="only mutants of this file")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    options = parser.parse_args()

    os.chdir(ROOT)
    sources = sorted(s for s in os.listdir("emulation") if s.endswith(".c"))
    sources = ["emulation/" + s for s in sources]
    chosen = [options.file] if options.file else sources
    mutants = [m for s in chosen for m in mutants_of(s)]
    random.Random(options.seed).shuffle(mutants)
    mutants = mutants[:options.count]
    if options.list:
        for name, number, changed in mutants:
            print(f"{name}:{number + 1}: {changed.strip()}")
        return 0

    work = tempfile.mkdtemp(prefix="vpt-mutants-")
    try:
        programs = build_tests(work)
        benches = []
        for job in range(options.jobs):
            path = os.path.join(work, str(job))
            os.mkdir(path)
            bench = Bench(path, sources, programs)
            for source, obj in bench.objects.items():
                if sh([CC, *FLAGS, "-c", "-o", obj, source], ROOT) != 0:
                    sys.exit(f"{source} does not compile")
            benches.append(bench)
        return run_all(benches, mutants)
    finally:
        shutil.rmtree(work)


def build_tests(work):
    """Test programs as (name, objects, libraries)."""
    programs = []
    for name, folder, libraries in (("tests", "emulation/tests", ["-lcunit", "-lipt"]),
                                    ("conformance", "emulation/conformance", [])):
        if not os.path.isdir(folder):
            continue
        objects = []
        extra = [f"emulation/tests/{f}.c" for f in ("harness", "reader", "rtit_harness")]
        files = [f"{folder}/{f}" for f in sorted(os.listdir(folder)) if f.endswith(".c")]
        if name == "conformance":
            files += extra
            libraries = ["-lcunit"]
        for source in files:
            obj = os.path.join(work, name + "_" + source.replace("/", "_") + ".o")
            if sh([CC, *FLAGS, "-c", "-o", obj, source], ROOT) != 0:
                sys.exit(f"{source} does not compile")
            objects.append(obj)
        programs.append((name, objects, libraries))
    return programs


def run_all(benches, mutants):
    results = {"killed": 0, "survived": 0, "stillborn": 0}
    survivors = []
    free = list(benches)
    with concurrent.futures.ThreadPoolExecutor(len(benches)) as pool:
        def one(mutant):
            bench = free.pop()
            try:
                return mutant, bench.run(mutant)
            finally:
                free.append(bench)
        for done, future in enumerate(
                concurrent.futures.as_completed([pool.submit(one, m) for m in mutants]), 1):
            mutant, result = future.result()
            results[result] += 1
            if result == "survived":
                survivors.append(mutant)
                print(f"\rsurvived {mutant[0]}:{mutant[1] + 1}: {mutant[2].strip()}", flush=True)
            print(f"\r{done} of {len(mutants)}", end="", flush=True)
    print()
    counted = results["killed"] + results["survived"]
    share = 100.0 * results["killed"] / counted if counted else 0.0
    print(f"{results['stillborn']} did not compile; {share:.1f} % killed")
    print(f"{results['killed']} killed, {results['survived']} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
