# SPDX-License-Identifier: BSD-3-Clause
"""The module ptdec: against traces that are written here byte by byte, and against the C compiler.

Ends with 'N passed, N failed'. It is run by test.sh, which says where module and library are.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import unittest

import ptdec

CR3 = 0x5000
CODE = 0x401000
# main: CALL work; JNZ main; RET. work: NOP; RET. (Instructions of SDM volume 2.)
PROGRAM = bytes.fromhex("e803000000" "75f9" "c3" "90" "c3")
OUTSIDE = 0x700000
MAIN, WORK = CODE, CODE + 8
PSB = bytes.fromhex("0282") * 8
PSBEND = bytes.fromhex("0223")
MODE_64 = bytes.fromhex("9901")


def tsc(value):
    """TSC (33.4.2.11): 56 bits."""
    return b"\x19" + value.to_bytes(7, "little")


def ip_packet(opcode, ip):
    """TIP and its like with a full IP (33.4.2.2, IPBytes 110B)."""
    return bytes([6 << 5 | opcode]) + ip.to_bytes(8, "little")


def tnt(*taken):
    """A short TNT: a stop bit above the results, the oldest first (33.4.2.1)."""
    bits = 1
    for one in taken:
        bits = bits << 1 | one
    return bytes([bits << 1])


# The loop runs twice. RETs of work are compressed, so each is a taken branch; the JNZ is taken once. Tracing
# ends where the RET of main leads to.
TRACE = (PSB + tsc(1000) + MODE_64 + PSBEND + ip_packet(0x11, MAIN) + tnt(1, 1) + tsc(1500) + tnt(1, 0) +
         tsc(2000) + ip_packet(0x01, OUTSIDE))


def image():
    made = ptdec.Image()
    made.add_bytes(MAIN, PROGRAM[:8], "main")
    made.add_bytes(WORK, PROGRAM[8:], "work")
    return made


class Items(unittest.TestCase):
    def setUp(self):
        self.trace = ptdec.Trace(TRACE, image())

    def test_instructions_by_function(self):
        counts = {}
        for item in self.trace:
            if item.insns:
                counts[item.function] = counts.get(item.function, 0) + item.insns
        self.assertEqual(counts, {"main": 5, "work": 4})

    def test_no_errors(self):
        self.assertEqual([item.error for item in self.trace if item.type == "ERROR"], [])

    def test_begin_and_end(self):
        about = {item.type: item for item in self.trace}
        self.assertEqual(about["ENABLED"].to_ip, MAIN)
        self.assertEqual(about["DISABLED"].to_ip, OUTSIDE)
        self.assertIsNone(about["DISABLED"].from_ip)
        self.assertEqual(about["ENABLED"].function, "main")
        self.assertIsNone(about["DISABLED"].function)

    def test_times(self):
        times = [item.time for item in self.trace if item.type == "BLOCK"]
        self.assertEqual(times, sorted(times))
        self.assertEqual((times[0], times[-1]), (1000, 2000))
        for item in self.trace:
            earliest, latest = item.interval
            self.assertTrue(earliest <= item.time and (latest is None or item.time <= latest))

    def test_calls(self):
        calls = [item.function for item in self.trace if item.last_class == "CALL_DIRECT"]
        self.assertEqual(calls, ["main", "main"])

    def test_instructions_of_a_block(self):
        block = next(item for item in self.trace if item.ip == WORK)
        self.assertEqual(list(self.trace.image.instructions(block)), [(WORK, "nop"), (WORK + 1, "ret")])
        self.assertEqual(block.end, WORK + 2)

    def test_twice_the_same(self):
        self.assertEqual(list(map(repr, self.trace)), list(map(repr, self.trace)))

    def test_items_outlive_the_iteration(self):
        items = list(self.trace)
        self.assertEqual(items[0].type, "PSB")
        self.assertGreater(len({item.offset for item in items}), 3)

    def test_missing_code(self):
        errors = [item for item in ptdec.Trace(TRACE, ptdec.Image()) if item.type == "ERROR"]
        self.assertEqual(len(errors), 1)
        self.assertEqual(errors[0].error, "no code known at this address")
        self.assertEqual(errors[0].from_ip, MAIN)
        self.assertIsNone(errors[0].function)

    def test_another_address_space(self):
        known = ptdec.Image()
        known.add_bytes(MAIN, PROGRAM, "here", CR3)
        decode = ptdec.Trace(TRACE, known, {"cr3": CR3})
        self.assertEqual({item.function for item in decode if item.insns}, {"here"})
        self.assertIsNone(known.symbol(MAIN, CR3 + 0x1000))
        self.assertEqual(known.symbol(WORK, CR3), ("here", 8))


class Packets(unittest.TestCase):
    def test_names_and_places(self):
        packets = list(ptdec.Trace(TRACE, image()).packets())
        self.assertEqual([packet.name for packet in packets],
                         ["PSB", "TSC", "MODE.Exec", "PSBEND", "TIP.PGE", "TNT", "TSC", "TNT", "TSC", "TIP.PGD"])
        self.assertEqual(packets[1].offset, 16)
        self.assertIn(hex(MAIN), packets[4].text)

    def test_rubbish(self):
        packets = list(ptdec.Trace(b"\xff" * 100 + TRACE, image()).packets())
        self.assertEqual(packets[0].offset, 100)
        self.assertEqual(list(ptdec.Trace(b"\xff" * 100, image()).packets()), [])


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "t.pt")
        self.elf = os.path.join(folder.name, "program.elf")
        self.write(self.path, TRACE)
        source = (".globl main, work\n.type main,@function\n.type work,@function\nmain: call work\njnz main\nret\n"
                  ".size main, .-main\nwork: nop\nret\n.size work, .-work\n")
        subprocess.run([*shlex.split(os.environ.get("CC", "gcc")), "-nostdlib", "-static", "-no-pie", "-xassembler", "-",
                        f"-Wl,-Ttext={CODE:#x},-emain,--build-id=none", "-o", self.elf],
                       input=source.encode(), check=True)

    def write(self, path, content):
        with open(path, "wb") as file:
            file.write(content)

    def sidecar(self, **members):
        self.write(self.path + ".json", json.dumps(members).encode())

    def functions(self, **arguments):
        return {item.function for item in ptdec.open(self.path, **arguments) if item.insns}

    def test_image_by_hand(self):
        self.assertEqual(self.functions(images=[self.elf]), {"main", "work"})

    def test_image_of_the_sidecar(self):
        self.sidecar(images=[{"path": "program.elf", "bias": 0, "cr3": None}], tsc_ctc=[2, 168], mtc_freq=3)
        self.assertEqual(self.functions(), {"main", "work"})
        self.assertEqual(ptdec.open(self.path).time["tsc_num"], 168)

    def test_bias(self):
        self.assertEqual(self.functions(images=[(self.elf, 1 << 32)]), set())

    def test_examples(self):
        examples = os.path.join(os.environ["EXAMPLES"], "")
        counted = subprocess.run([sys.executable, examples + "count-instructions", self.path, self.elf],
                                 check=True, capture_output=True, text=True).stdout
        self.assertEqual(counted.split()[-4:], ["9", "instructions,", "0", "errors"])
        self.assertIn("5  main", counted)
        calls = subprocess.run([sys.executable, examples + "print-calls", self.path, self.elf],
                               check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(len(calls), 4)
        self.assertEqual(calls[0].split()[1:], ["work()"])
        self.assertTrue(calls[1].endswith("back from work, 0 ticks"), calls[1])

    def refused(self, error):
        with self.assertRaises(error):
            list(ptdec.open(self.path))

    def test_wrong_sidecars(self):
        for members in ({"mode": 17}, {"mode": [64]}, {"tsc_ctc": 3}, {"tsc_ctc": [1, "x"]}, {"mtc_freq": 16},
                        {"mtc_freq": True}, {"cpu": 3}, {"cpu": {"family": -1}}, {"images": 3}, {"images": [3]},
                        {"images": [{}]}, {"images": [{"path": "program.elf", "bias": 2**64}]}, {"code": 3},
                        {"code": "a\0b"}, {"rtit": {}}):
            with self.subTest(members):
                self.sidecar(**members)
                self.refused(ValueError)
        for text in (b"", b"{", b"[]", b"\xff", b"[" * 100000):
            with self.subTest(text[:5]):
                self.write(self.path + ".json", text)
                self.refused((ValueError, RecursionError))

    def test_what_is_no_file(self):
        fifo = self.path + ".fifo"
        os.mkfifo(fifo)
        for members in ({"images": [{"path": fifo}]}, {"code": fifo}, {"images": [{"path": "/dev/zero"}]}):
            with self.subTest(members):
                self.sidecar(**members)
                self.refused(OSError)

    def test_what_is_no_program(self):
        self.sidecar(images=[{"path": self.path}])
        self.refused(ptdec.Error)
        self.sidecar(code="t.pt")
        self.refused(ptdec.Error)


class Declarations(unittest.TestCase):
    """The module knows the header by cffi; what the compiler makes of it must be the same."""

    def test_layouts_and_numbers(self):
        structs = [name for name in ptdec.ffi.list_types()[1] if self.complete(name)]
        self.assertGreater(len(structs), 30)
        constants = [name for name in dir(ptdec.lib) if name.startswith("PTD_")]
        self.assertIn("PTD_ITEM_ERROR", constants)
        self.assertIn("PTD_LOOK_AHEAD_MAX", constants)
        want = "".join(f"{name} {ptdec.ffi.sizeof('struct ' + name)}\n" +
                       "".join(f"{name}.{field} {offset}\n" for field, offset in self.fields(name))
                       for name in structs)
        want += "".join(f"{name} {getattr(ptdec.lib, name) % 2**64}\n" for name in constants)
        lines = "".join(f'    say("{name}", sizeof(struct {name}));\n' +
                        "".join(f'    say("{name}.{field}", offsetof(struct {name}, {field}));\n'
                                for field, _ in self.fields(name)) for name in structs)
        lines += "".join(f'    say("{name}", (uint64_t){name});\n' for name in constants)
        includes = "".join(f'#include "{header}"\n' for header in os.environ["HEADERS"].split())
        program = (includes + "#include <inttypes.h>\n#include <stdio.h>\n"
                   'static void say(const char *name, uint64_t value) { printf("%s %" PRIu64 "\\n", name, value); }\n'
                   "int main(void)\n{\n" + lines + "    return 0;\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "say")
            subprocess.run([*shlex.split(os.environ.get("CC", "gcc")), "-xc", "-", "-o", out],
                           input=program.encode(), check=True)
            self.assertEqual(subprocess.run([out], check=True, capture_output=True, text=True).stdout, want)

    @staticmethod
    def complete(name):
        """What is only declared has no size."""
        try:
            return ptdec.ffi.sizeof("struct " + name) > 0
        except (ptdec.ffi.error, ValueError):
            return False

    @classmethod
    def fields(cls, name):
        return list(cls.members(ptdec.ffi.typeof("struct " + name), 0))

    @classmethod
    def members(cls, kind, base):
        """Members and offsets, those of unions without a name among them."""
        for field, about in kind.fields:
            if field:
                yield field, base + about.offset
            else:
                yield from cls.members(about.type, base + about.offset)


class Threads(unittest.TestCase):
    def test_each_its_own(self):
        """Objects are independent of each other."""
        results = [None] * 4

        def decode(index):
            results[index] = sum(item.insns for _ in range(50) for item in ptdec.Trace(TRACE, image()))

        threads = [threading.Thread(target=decode, args=(index,)) for index in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [450] * 4)


class Counted(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        self.stream.writeln(f"PASS: {test.id().partition('.')[2]}")


if __name__ == "__main__":
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=0, resultclass=Counted)
    result = unittest.main(testRunner=runner, exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - len({str(test) for test, _ in result.failures + result.errors})} passed, {failed} failed")
    sys.exit(failed != 0)
