#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""declare.py CC SONAME OUT HEADER...: what public headers of libptdec declare, for Python.

Writes a module that knows the types, the functions and the constants of the headers, by cffi. So they
stand in the headers alone. CC preprocesses; OUT is a module that needs neither a compiler nor a parser.
"""
import ast
import operator
import os
import re
import shlex
import subprocess
import sys
import tempfile

import cffi

# What cffi knows of itself; the headers include nothing else.
KNOWN = ("stdbool.h", "stddef.h", "stdint.h")
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}


def preprocess(compiler, *arguments, text=None):
    command = [*compiler, "-E", "-P", "-std=c11", *arguments]
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def declarations(compiler, headers):
    """What the headers say themselves, without what they include."""
    with tempfile.TemporaryDirectory() as folder:
        for name in KNOWN:
            with open(os.path.join(folder, name), "w", encoding="ascii"):
                pass
        source = "".join(f'#include "{os.path.abspath(header)}"\n' for header in headers)
        return preprocess(compiler, "-nostdinc", "-isystem", folder, "-xc", "-", text=source)


def value_of(expression):
    """A constant expression of C, as a number; None: it is something else."""
    plain = re.sub(r"\b(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]+\b", r"\1", expression)
    try:
        return number(ast.parse(plain.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def number(node):
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](number(node.left), number(node.right))
    raise ValueError(ast.dump(node))


def constants(compiler, headers):
    """The macros of the headers that are numbers."""
    names = []
    for header in headers:
        with open(header, encoding="utf-8") as text:
            names += re.findall(r"^#define (PTD_\w+)[ \t]+\S", text.read(), re.MULTILINE)
    source = "".join(f'#include "{os.path.abspath(header)}"\n' for header in headers)
    source += "".join(f"\n@@{i} {name}" for i, name in enumerate(names))
    told = dict(re.findall(r"^@@(\d+) (.*)$", preprocess(compiler, "-xc", "-", text=source), re.MULTILINE))
    for i, name in enumerate(names):
        value = value_of(told[str(i)])
        if value is not None:
            yield name, value


def main(cc, soname, out, *headers):
    compiler = shlex.split(cc)
    ffi = cffi.FFI()
    ffi.cdef(declarations(compiler, headers))
    for name, value in constants(compiler, headers):
        ffi.cdef(f"#define {name} {value}")
    ffi.set_source(os.path.splitext(os.path.basename(out))[0], None)
    ffi.emit_python_code(out + ".new")
    with open(out + ".new", "a", encoding="ascii") as module:
        module.write(f"\n# The library that was built with these headers.\nSONAME = {soname!r}\n")
    os.replace(out + ".new", out)


if __name__ == "__main__":
    main(*sys.argv[1:])
