#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs-test.py [PAGE.md...]: runs the commands of pages, line by line, as their reader would.

They run in a copy of what git knows, in a shell of their own for each page, with an empty home but for
the cache (VPT_CACHE, else ~/.cache/vpt), and as an ordinary user where the caller is root. A block of
code is a list of commands if it names no language or sh. If lines begin with "$ ", these are the
commands, and what stands below each is what it printed. A comment in front of a block says more:

  <!-- docs-test: stable -->          what is printed has to be what the page shows
  <!-- docs-test: but numbers -->     the same, but that a number stands for any other
  <!-- docs-test: in any order -->    the same, but that the lines may have another order
  <!-- docs-test: as FILE -->         the block is a file of that name
  <!-- docs-test: skip WHY -->        it is not run, and counted so

A line of three dots in what is shown stands for any number of lines, but not in any order. Every command
has to succeed; the first three marks may end with ", status 0 or 3" for what else is right.
Ends with 'N passed, N failed, N skipped'.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PAGES = ["docs/trace-a-guest.md", "docs/read-a-trace.md", "docs/libvirt.md", "docs/trace-a-host.md",
         "docs/test-a-hypervisor.md", "docs/libraries.md"]
LIMIT_S = int(os.environ.get("DOCS_TEST_LIMIT_S", "1800"))  # of one command, on a busy machine
SHOWN_LINES = 15
MARK = re.compile(r"<!-- docs-test: (?:(stable|but numbers|in any order)(?:, status ([0-9]+(?: or [0-9]+)*))?|as (\S+)|skip (.+)) -->")


class Block:
    def __init__(self, language, mark, number):
        self.language = language
        self.mark = mark  # the match of MARK, or None
        self.number = number
        self.lines = []

    @property
    def kind(self):
        if not self.mark:
            return ""
        return self.mark.group(1) or ("as" if self.mark.group(3) else "skip")

    @property
    def statuses(self):
        """Those that are right."""
        return [int(one) for one in (self.mark and self.mark.group(2) or "0").split(" or ")]


def blocks(page):
    """The blocks of code of a page, each with the mark in front of it; none of those that a tool wrote."""
    mark = block = None
    written = False
    with open(page, encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            fence = re.match(r"```(\S*)$", line.rstrip())
            if block is not None:
                if fence:
                    yield block
                    block = mark = None
                else:
                    block.lines.append(line)
            elif re.match(r"<!-- .* writes what follows -->", line):
                written = True
            elif line.startswith("<!-- up to here -->"):
                written = False
            elif fence and not written:
                block = Block(fence.group(1), mark, number)
            elif found := MARK.match(line):
                mark = found
            elif line.strip():
                mark = None


def is_complete(text):
    """Whether a shell has something to do with these lines, or waits for more."""
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    return not checked.stderr and not text.rstrip("\n").endswith("\\")


def commands(block):
    """Each command of a block, with its line in the page and what it is shown to print, or None."""
    shows = any(line.startswith("$ ") for line in block.lines)
    text, shown, at = "", None, 0
    for number, line in enumerate(block.lines, block.number + 1):
        if text and not is_complete(text):
            text += line
        elif shows and not line.startswith("$ "):
            if text:
                shown.append(line.rstrip("\n"))
        elif line.strip():
            if text:
                yield at, text, shown
            text, shown, at = line.removeprefix("$ ") if shows else line, [] if shows else None, number
    if text:
        yield at, text, shown


def missing(shown, printed, kind):
    """The first line shown that what was printed has not; None: they match. Three dots are any lines."""
    plain = str.rstrip if kind == "stable" else no_numbers
    if kind == "in any order":
        left = [plain(line) for line in printed.splitlines()]
        for line in shown:
            if plain(line) not in left:
                return line
            left.remove(plain(line))
        return "(nothing more)" if left else None
    text = "".join(plain(line) + "\n" for line in printed.splitlines())
    pattern = ""
    for line in shown:
        pattern += r"(?:.*\n)*?" if line.strip() == "..." else re.escape(plain(line)) + "\n"
        if not re.match(pattern, text):
            return line
    return None if re.fullmatch(pattern, text) else "(nothing more)"


def no_numbers(line):
    """Columns are as wide as their numbers, so that blanks do not count either."""
    return " ".join(re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{6,}\b|[0-9]+(?:[.,][0-9]+)*", "#", line).split())


class Shell:
    """A bash that is given one command after the other."""

    def __init__(self, folder, home, steps):
        self.steps = steps
        self.count = 0
        told, self.said = os.pipe()
        self.told = os.fdopen(told)
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "BUILD", "VPT_CACHE", "XDG_CACHE_HOME", "VPT_PAGER")}
        environment.update(HOME=home, TERM="dumb", PAGER="cat", XDG_RUNTIME_DIR=home + "/run",
                           CCACHE_DIR=os.environ.get("CCACHE_DIR", os.path.expanduser("~/.cache/ccache")))
        as_user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []
        self.bash = subprocess.Popen([*as_user, "bash", "--norc"], cwd=folder, env=environment, text=True,
                                     stdin=subprocess.PIPE, pass_fds=[self.said], start_new_session=True)
        os.close(self.said)  # so that the end of the shell is the end of what it says

    def run(self, command):
        """The status and the output; a status of None: it took too long, or the shell is gone."""
        self.count += 1
        step, out = (os.path.join(self.steps, f"{self.count}.{kind}") for kind in ("sh", "out"))
        with open(step, "w", encoding="utf-8") as text:
            text.write(command)
        signal.signal(signal.SIGALRM, self.late)
        signal.alarm(LIMIT_S)
        try:
            self.bash.stdin.write(f". {step} >{out} 2>{out}.err </dev/null; echo $? >&{self.said}\n")
            self.bash.stdin.flush()
            status = self.told.readline()
        except (TimeoutError, BrokenPipeError):
            status = ""
        signal.alarm(0)
        texts = []
        for name in (out, out + ".err"):
            with open(name, encoding="utf-8", errors="replace") as text:
                texts.append(text.read())
        return (int(status) if status else None), *texts

    @staticmethod
    def late(*_):
        raise TimeoutError

    def end(self):
        """With all that it left running in the background."""
        try:
            os.killpg(self.bash.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.bash.wait()
        self.told.close()


class Counts:
    passed = failed = skipped = 0


def judge(block, command, shown, result):
    """Why a command failed; nothing if it did not."""
    status, printed, errors = result
    if status is None:
        return f"it took more than {LIMIT_S} s, or ended the shell"
    if status not in block.statuses:
        return f"status {status}"
    # What a terminal shows has standard error in it; a page may show either.
    if block.kind and shown and missing(shown, printed, block.kind) is not None:
        line = missing(shown, errors + printed, block.kind)
        return line if line is None else f"it does not print: {line}"
    return None


def run_block(page, block, shell, folder, counts):
    """False: a command failed, and there is no use in those behind it."""
    if block.kind == "as":
        with open(os.path.join(folder, block.mark.group(3)), "w", encoding="utf-8") as file:
            file.writelines(block.lines)
        return True
    if block.language not in ("", "sh"):
        return True
    if block.kind == "skip":
        counts.skipped += 1
        print(f"SKIP: {page}:{block.number}: {block.mark.group(4)}", flush=True)
        return True
    for number, command, shown in commands(block):
        name = f"{page}:{number}: {command.splitlines()[0]}"
        began = time.monotonic()
        result = shell.run(command)
        why = judge(block, command, shown, result)
        if why:
            counts.failed += 1
            print(f"FAIL: {name}: {why}")
            for line in (result[1] + result[2]).splitlines()[-SHOWN_LINES:]:
                print(f"    {line}")
            sys.stdout.flush()
            return False
        counts.passed += 1
        print(f"PASS: {name} ({time.monotonic() - began:.0f} s)", flush=True)
    return True


def run_page(page, folder, home, counts):
    steps = tempfile.mkdtemp(prefix="steps", dir=os.path.dirname(folder))
    shell = Shell(folder, home, steps)
    try:
        for block in blocks(page):
            if not run_block(page, block, shell, folder, counts):
                break
    finally:
        shell.end()


def lay_out(work):
    """A copy of what git knows, and a home that has nothing but the cache."""
    folder, home = os.path.join(work, "vpt"), os.path.join(work, "home")
    os.makedirs(folder)
    os.makedirs(os.path.join(home, ".cache"))
    os.makedirs(os.path.join(home, "run"), mode=0o700)
    cache = os.environ.get("VPT_CACHE") or os.path.expanduser("~/.cache/vpt")
    os.makedirs(cache, exist_ok=True)
    os.symlink(os.path.realpath(cache), os.path.join(home, ".cache", "vpt"))
    known = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], check=True, capture_output=True).stdout
    for name in filter(os.path.isfile, known.decode().split("\0")[:-1]):
        os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
        shutil.copy2(name, os.path.join(folder, name))
    return folder, home


def main(pages):
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    counts = Counts()
    work = tempfile.mkdtemp(prefix="docs-test.")
    try:
        folder, home = lay_out(work)
        for page in pages or PAGES:
            run_page(page, folder, home, counts)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return counts.failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
