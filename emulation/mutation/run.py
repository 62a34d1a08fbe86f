#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Mutants of emulation/*.c: are the tests good enough to notice them?

Each mutant changes one operator, constant or statement of one line. It is built, and the
conformance suite runs on it, then the unit tests of the model, each at last under
AddressSanitizer; a mutant that passes all has survived. docs/mutants.md says how to read the
result.

usage: emulation/mutation/run.py [--count N] [--seed N...] [--jobs N] [--file NAME]
                                 [--only conformance|tests] [--list]
"""
import argparse
import concurrent.futures
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CC = os.environ.get("CC", "gcc").split()
FLAGS = ["-O1", "-std=c11", "-D_GNU_SOURCE", "-Iemulation", "-w"]
ASAN = ["-fsanitize=address"]
# Of the mutated file alone: what is undefined ends the program.
TRAP = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
LEAST_LIMIT_S = 10  # processor time of one test program on a mutant
ENVIRONMENT = {
    "VPT_FAIL_FAST": "1",
    "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16",
}

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
    lines, in_comment = [], False
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


def draw(mutants, seed, count):
    """Mutants by a hash of what they are: a change of one line leaves the others drawn as before."""
    seen = {}
    keys = []
    for mutant in mutants:
        name, _, changed = mutant
        seen[name, changed] = seen.get((name, changed), 0) + 1
        text = f"{seed} {name} {seen[name, changed]} {changed.strip()}"
        keys.append((hashlib.sha256(text.encode()).digest(), mutant))
    return [mutant for _, mutant in sorted(keys)[:count]]


def sh(command, limit=None):
    """Its exit status; -SIGXCPU if it used more than limit seconds of processor time."""
    if limit:
        command = ["sh", "-c", f'ulimit -S -t {limit}; exec "$@"', "sh", *command]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, **ENVIRONMENT}).returncode


def compile_to(obj, source, flags):
    return sh([*CC, *FLAGS, *flags, "-c", "-o", obj, source]) == 0


def sources_of(folder):
    return [f"{folder}/{f}" for f in sorted(os.listdir(folder)) if f.endswith(".c")]


def suites(only):
    """{name: sources}; the conformance suite first: what survives it is counted by itself."""
    helpers = [f"emulation/tests/{f}.c" for f in ("harness", "reader", "rtit_harness")]
    sources = {
        "conformance": sources_of("emulation/conformance") + helpers,
        "tests": sources_of("emulation/tests"),
    }
    return {name: files for name, files in sources.items() if only in (None, name)}


class Build:
    """The model and its tests, with some compiler flags."""

    def __init__(self, work, flags, extra, only, pool):
        self.flags = flags
        self.extra = extra  # flags of the mutated file alone
        self.work = work
        self.library = self.compile(sources_of("emulation"), pool)
        self.suites = {name: self.join(name, self.compile(files, pool))
                       for name, files in suites(only).items()}
        self.limit = None

    def compile(self, sources, pool):
        """{source: object}"""
        objects = {s: os.path.join(self.work, s.replace("/", "_") + ".o") for s in sources}
        for source, good in zip(sources, pool.map(
                lambda s: os.path.exists(objects[s]) or compile_to(objects[s], s, self.flags),
                sources)):
            if not good:
                sys.exit(f"{source} does not compile")
        return objects

    def join(self, name, objects):
        """One object of many: it is linked to each mutant."""
        joined = os.path.join(self.work, name + ".o")
        if sh([*CC, "-r", "-o", joined, *objects.values()]) != 0:
            sys.exit(f"{name} cannot be linked")
        return joined

    def run(self, suite, folder, name=None, mutant=None):
        """A suite on the model, in which the object of the source `name` may be another one."""
        library = [mutant if s == name else o for s, o in self.library.items()]
        path = os.path.join(folder, suite)
        if sh([*CC, *self.flags, "-o", path, self.suites[suite], *library, "-lcunit",
               "-lipt"]) != 0:
            return "stillborn"
        status = sh([path], self.limit)
        if status == -signal.SIGXCPU:
            return "timeout"
        return "killed" if status != 0 else "survived"

    def baseline(self):
        """The model as it is must pass; its processor time says what is too long."""
        folder = os.path.join(self.work, "baseline")
        os.mkdir(folder)
        before = os.times()
        for suite in self.suites:
            if self.run(suite, folder) != "survived":
                sys.exit(f"{suite}: it fails without any mutant")
        after = os.times()
        used = (after.children_user - before.children_user +
                after.children_system - before.children_system)
        self.limit = max(LEAST_LIMIT_S, int(3 * used))


class Bench:
    """A directory for one worker."""

    def __init__(self, work, builds):
        self.work = work
        self.builds = builds

    def compile(self, build, mutant):
        """Its object, or None."""
        name, number, changed = mutant
        text = open(os.path.join(ROOT, name)).read().split("\n")
        text[number] = changed
        source = os.path.join(self.work, "mutant.c")
        obj = os.path.join(build.work, os.path.basename(self.work) + ".mutant.o")
        with open(source, "w") as out:
            out.write("\n".join(text))
        return obj if compile_to(obj, source, build.flags + build.extra) else None

    def run(self, mutant):
        """What became of it, and the suite that killed it. The faster build comes first."""
        objects = {}
        for suite in self.builds[0].suites:
            for build in self.builds:
                if build not in objects:
                    objects[build] = self.compile(build, mutant)
                if not objects[build]:
                    return "stillborn", None
                result = build.run(suite, self.work, mutant[0], objects[build])
                if result != "survived":
                    return result, suite
        return "survived", None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=240, help="how many mutants (240)")
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="one or more (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--file", help="only mutants of this file")
    parser.add_argument("--only", choices=["conformance", "tests"],
                        help="run this suite alone, not the other one")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    options = parser.parse_args()

    os.chdir(ROOT)
    chosen = [options.file] if options.file else sources_of("emulation")
    mutants = [m for s in chosen for m in mutants_of(s)]
    draws = {seed: draw(mutants, seed, options.count) for seed in options.seed}
    if options.list:
        for name, number, changed in [m for drawn in draws.values() for m in drawn]:
            print(f"{name}:{number + 1}: {changed.strip()}")
        return 0

    work = tempfile.mkdtemp(prefix="vpt-mutants-")
    try:
        builds = []
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for folder, flags, extra in (("plain", [], TRAP), ("asan", ASAN, [])):
                path = os.path.join(work, folder)
                os.mkdir(path)
                builds.append(Build(path, flags, extra, options.only, pool))
        for build in builds:
            build.baseline()
        benches = []
        for job in range(options.jobs):
            path = os.path.join(work, str(job))
            os.mkdir(path)
            benches.append(Bench(path, builds))
        for seed, drawn in draws.items():
            print(f"{len(drawn)} of {len(mutants)} possible mutants, seed {seed}", flush=True)
            run_all(benches, drawn)
        return 0
    finally:
        shutil.rmtree(work)


def run_all(benches, mutants):
    results = {"killed": 0, "timeout": 0, "survived": 0, "stillborn": 0}
    killers = {suite: 0 for suite in benches[0].builds[0].suites}
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
            mutant, (result, killer) = future.result()
            results[result] += 1
            if killer:
                killers[killer] += 1
            if killer == "tests" and "conformance" in killers:
                result = "survived conformance"
            if result.startswith("survived"):
                print(f"\r{result} {mutant[0]}:{mutant[1] + 1}: {mutant[2].strip()}", flush=True)
            print(f"\r{done} of {len(mutants)}", end="", flush=True)
    print()
    killed = results["killed"] + results["timeout"]
    counted = killed + results["survived"]
    share = 100.0 * killed / counted if counted else 0.0
    print(f"{results['stillborn']} did not compile; {share:.1f} % killed, "
          f"{results['timeout']} of them by the time limit")
    if len(killers) > 1:
        alone = killers["conformance"]
        print(f"{alone} killed by conformance alone, "
              f"{100.0 * alone / counted if counted else 0.0:.1f} %")
    print(f"{killed} killed, {results['survived']} survived", flush=True)


if __name__ == "__main__":
    sys.exit(main())
