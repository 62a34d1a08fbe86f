#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Defects of the model, one at a time: does the case of packet-tests that is about it fail?

Each defect changes one place of emulation/ in a copy of the tree. vpt is built from it and runs packet-tests;
a case whose text holds the given words has to fail. What else fails is counted: few, if the cases are
about one rule each. The freedoms behind them are no defects: with these, nothing may fail.

usage: guest-tests/defects.py [--list] [NAME...]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IMAGE = os.path.join(ROOT, "guest-tests/build/packet-tests.elf")
LIMIT_S = 120

# name: (profile, group of cases, file, text, the text in its place, words of the case that must fail)
DEFECTS = {
    # Near branches
    "TNT bit inverted": (
        "max", "branch", "vpt.h", "cpu->tnt = cpu->tnt << 1 | taken;", "cpu->tnt = cpu->tnt << 1 | !taken;",
        "TNT: the results of 128 Jcc"),
    "TNT in the wrong order": (
        "plain", "branch", "packets.c", "(uint8_t)(cpu->tnt << PT_TNT8_SHR)",
        "(uint8_t)((cpu->tnt ^ (cpu->tnt > 7 ? 2 : 0)) << PT_TNT8_SHR)", "TNT: 4 Jcc"),
    "TIP before the TNT": (
        "max", "branch", "packets.c", "    before_packet(cpu, opcode != PT_FUP);\n",
        "    if (opcode != PT_TIP)\n        before_packet(cpu, opcode != PT_FUP);\n",
        "TNT and TIP in the order of the branches"),
    "no TIP for an indirect CALL": (
        "max", "branch", "vpt.h", "empties the stack */\n        vpt_tip_of_fast(cpu, target);\n", "empties the stack */\n",
        "targets of indirect JMP and CALL"),
    "LastIP survives a PSB": (
        "max", "psb", "packets.c", "    cpu->ip_full = true;\n    if (cpu->ctl", "    if (cpu->ctl",
        "PSB+: its FUP is not compressed"),
    "IPBytes 4 for bits 31:0 and 6 bytes sent": (
        "max", "branch", "packets.c", "        return PT_IPB_UPD32;\n    return long_ip_bytes",
        "        return PT_IPB_SEXT48;\n    return long_ip_bytes", "bits 63:32 are the last IP's"),
    "IPBytes 1 where bits 31:16 differ": (
        "max", "branch", "packets.c", "if (!full && changed >> 16 == 0)", "if (!full && changed >> 20 == 0)",
        "IPs rebuilt from what came before"),
    "RETs are never compressed": (
        "max", "branch", "vpt.h", "return cpu->ret_stack[vpt_ret_youngest(cpu)", "return false && cpu->ret_stack[vpt_ret_youngest(cpu)",
        "RET: a taken bit where the CALL is known"),
    "DisRETC is ignored": (
        "max", "branch", "msr.c", "cpu->ret_kept = !(ctl & VPT_CTL_DISRETC);", "cpu->ret_kept = true;",
        "DisRETC = 1: a TIP for each RET"),
    "RETs compressed without a look at the target": (
        "max", "branch", "vpt.h", "] == target;", "] != VPT_RET_NONE;",
        "RET: a TIP where it does not return to its CALL"),
    "zero-length CALLs count": (
        "max", "branch", "vpt.h", "VPT_PATH_FAST && target != next_ip)", "VPT_PATH_FAST)",
        "a CALL to the next instruction does not count"),
    "the RET stack survives a PSB": (
        "max", "psb", "packets.c", "cpu->mode_sent = VPT_MODE_UNSENT;\n    vpt_ret_clear(cpu);", "cpu->mode_sent = VPT_MODE_UNSENT;",
        "PSB: a RET whose CALL came before it"),
    "the RET stack survives PacketEn = 0": (
        "max", "filter", "enables.c", "vpt_ret_clear(cpu); /* no RET is compressed across PacketEn = 0 */", ";",
        "a RET whose CALL came before PacketEn was 0"),
    "DisTNT is ignored": (
        "max", "branch", "packets.c", "cpu->branch_told = !(cpu->ctl & VPT_CTL_DISTNT);", "cpu->branch_told = true;",
        "DisTNT = 1: no results of Jcc"),
    "BranchEn is ignored": (
        "max", "branch", "enables.c", "(cpu->ctl & VPT_CTL_BRANCHEN) != 0;", "true;",
        "BranchEn = 0: no TNT"),
    # PSB+
    "no PSB at the beginning": (
        "broadwell", "psb", "msr.c", "        vpt_emit_psb(cpu, next_ip, true);", "        vpt_emit_cbr(cpu);",
        "PSB: the first packet of a trace"),
    "no PSBEND": (
        "max", "psb", "packets.c", "    put_ext(cpu, PT_EXT_PSBEND);", "", "PSB+: ends with PSBEND"),
    "no CBR in PSB+": (
        "max", "psb", "packets.c", "    case VPT_PSB_CBR:\n        vpt_emit_cbr(cpu);\n", "    case VPT_PSB_CBR:\n",
        "OS BranchEn: CBR"),
    "no TMA": (
        "max", "psb", "packets.c", "    put(cpu, tma, sizeof(tma));", "", "TMA if TSCEn and MTCEn"),
    "PIP without OS": (
        "max", "psb", "packets.c", "if (!cpu->context_en || !(cpu->ctl & VPT_CTL_OS))\n        return;\n    before",
        "if (!(cpu->ctl & (VPT_CTL_OS | VPT_CTL_USER)))\n        return;\n    before", "User BranchEn at CPL 0: PIP"),
    "PIP shifted": (
        "max", "psb", "packets.c", ">> PT_PIP_CR3_SHR << PT_PIP_SHL", ">> PT_PIP_CR3_SHR", "PIP holds CR3"),
    "NR set": (
        "max", "psb", "packets.c", "    if (nr)\n", "    if (!nr)\n", "PIP.NR is 0"),
    "no FUP in PSB+": (
        "max", "psb", "packets.c", "        if (packet_en)\n            vpt_emit_ip(cpu, PT_FUP, ip);", "        (void)ip;",
        "FUP with the current IP"),
    "no MODE.Exec in PSB+": (
        "max", "psb", "packets.c", "        if (packet_en)\n            vpt_emit_mode_exec(cpu);\n        break;", "        break;",
        "PSB+ while PacketEn = 1: MODE.Exec"),
    "PSBs twice as rare and more": (
        "max", "psb", "packets.c", "cpu->bytes_since_psb >= cpu->psb_period_bytes && sending",
        "cpu->bytes_since_psb >= 3 * cpu->psb_period_bytes && sending", "PSBFreq = 0"),
    "MODE.Exec says 32-bit": (
        "max", "branch", "packets.c", "payload |= PT_MODE_EXEC_CSL;", "payload |= PT_MODE_EXEC_CSD;", "MODE.Exec: 64-bit mode"),
    "no MODE.Exec before TIP.PGE": (
        "max", "branch", "msr.c", "        vpt_emit_mode_exec(cpu);\n", "", "MODE.Exec: right before the first TIP.PGE"),
    # Events
    "no FUP at exceptions": (
        "max", "event", "events.c", "if (was && has_fup(transfer->type))",
        "if (was && has_fup(transfer->type) && transfer->type != VPT_FAULT)",
        "#UD: TNT, FUP with its own address"),
    "no FUP at interrupts": (
        "max", "event", "events.c", "if (was && has_fup(transfer->type))",
        "if (was && has_fup(transfer->type) && transfer->type != VPT_INTERRUPT)",
        "interrupt: FUP with the next address"),
    "a FUP at IRET": (
        "max", "user", "events.c", "    case VPT_IRET:\n    case VPT_UIRET:\n    case VPT_SIPI:\n", "    case VPT_UIRET:\n    case VPT_SIPI:\n",
        "OS = User = 1: IRET and SYSCALL"),
    "no FUP when TraceEn is cleared": (
        "max", "branch", "msr.c", "vpt_emit_ip(cpu, PT_FUP, ip);", ";", "FUP and TIP.PGD at the one that clears it"),
    "CFE.IRET without IP": (
        "max", "event", "events.c", "const bool own_fup = context && !fup_follows;", "const bool own_fup = false && context && !fup_follows;",
        "CFE.IRET has its own"),
    "no EVD": (
        "max", "event", "events.c", "    if (page_fault)\n        vpt_emit_evd(cpu, PT_EVD_PFA, transfer->cr2);\n", "",
        "EVD with CR2 before the CFE"),
    "no MODE.Exec where IF changes": (
        "max", "event", "events.c", "    vpt_emit_mode_exec(cpu);\n    vpt_emit_ip(cpu, PT_FUP, ip);\n", "",
        "where STI, CLI and POPF change IF"),
    # Context
    "the IP of a TIP.PGD out of context": (
        "max", "user", "events.c", "if (cpu->context_en && (end == VPT_END_TIP", "if ((end == VPT_END_TIP",
        "TIP.PGD without IP at SYSCALL"),
    "OS and User exchanged": (
        "max", "user", "enables.c", "ctx->cpl == 0 ? VPT_CTL_OS : VPT_CTL_USER", "ctx->cpl != 0 ? VPT_CTL_OS : VPT_CTL_USER",
        "User only: TIP.PGE at IRET"),
    "CR3Filter is ignored": (
        "max", "user", "enables.c", "!(cpu->ctl & VPT_CTL_CR3FILTER) || cr3_matches", "true || cr3_matches",
        "CR3Filter: leaving the CR3"),
    "no PIP at MOV CR3": (
        "max", "user", "events.c", "    vpt_emit_pip(cpu);\n    vpt_settle(cpu, was, stop, next_ip", "    vpt_settle(cpu, was, stop, next_ip",
        "PIP: MOV CR3"),
    # IP filters
    "the limit is exclusive": (
        "max", "filter", "enables.c", "ip <= cpu->addr[n][1]", "ip < cpu->addr[n][1]", "base = limit is one byte"),
    "the base is exclusive": (
        "max", "filter", "enables.c", "ip >= cpu->addr[n][0]", "ip > cpu->addr[n][0]", "TIP.PGE into it"),
    "TIP.PGD by Jcc has an IP": (
        "max", "filter", "events.c", "end == VPT_END_TIP || end == VPT_END_DIRECT)", "end != VPT_END_NONE)",
        "TraceStop: Jcc: TIP.PGD without IP"),
    "no TraceStop packet": (
        "max", "filter", "events.c", "    vpt_emit_tracestop(cpu);\n", "", "TraceStop: JMP into it"),
    "TraceStop does not stop": (
        "max", "filter", "events.c", "    cpu->status |= VPT_STATUS_STOPPED;\n    vpt_clear_trigger(cpu);", "",
        "TraceStop: STATUS.Stopped"),
    "TraceStop not looked for at the WRMSR": (
        "max", "filter", "msr.c", "    if (stop)\n", "    if (0 && stop)\n", "WRMSR sets TraceEn inside of it"),
    # Time
    "TSC an hour ahead": (
        "max", "time", "packets.c", "le(tsc + 1, cpu->now.tsc, 7);", "le(tsc + 1, cpu->now.tsc + (1ull << 43), 7);",
        "TSC: what RDTSC says"),
    "TMA holds nothing": (
        "max", "time", "packets.c", "le(tma + 2, cpu->now.art, 2);", "le(tma + 2, cpu->now.art ^ 0x8000, 2);",
        "MTC: the first one goes on from TMA.CTC"),
    "MTC at every look": (
        "max", "time", "packets.c", "    if (passed == 0)\n        return;\n", "", "and only then"),
    "MTC one bit too low": (
        "max", "time", "packets.c", "(uint8_t)count}", "(uint8_t)(count * 2)}", "MTC: no more time in them"),
    "MTC needs ContextEn": (
        "max", "time", "packets.c", "if (cpu->ctl & VPT_CTL_MTCEN && cpu->trigger_en)", "if (cpu->ctl & VPT_CTL_MTCEN && cpu->context_en)",
        "MTC: sent with ContextEn = 0 too"),
    "CYC: a byte too many": (
        "max", "time", "packets.c", "        value >>= 7;\n        if (value)", "        value >>= 7;\n        if (value || len == 2)",
        "CYC: as many bytes as"),
    "no CYC before a TIP": (
        "max", "time", "packets.c", "    before_packet(cpu, opcode != PT_FUP);", "    before_packet(cpu, opcode == PT_FUP);",
        "CYC: before each TIP"),
    # Output
    "a gap at each new entry": (
        "max", "output", "topa.c", "    vpt_set_output_offset(cpu, 0);\n    vpt_topa_load(cpu);",
        "    vpt_set_output_offset(cpu, 1);\n    vpt_topa_load(cpu);", "next entry's region without a gap"),
    "END leads back to the first table": (
        "max", "output", "topa.c", "        cpu->output_base = entry & ~0xfffull;\n", "", "END leads to the next table"),
    "STOP is ignored": (
        "max", "output", "topa.c", "cpu->region_stop = (entry & VPT_TOPA_STOP) != 0;", "cpu->region_stop = false;",
        "ToPA STOP: STATUS.Stopped"),
    "INT is ignored": (
        "max", "output", "topa.c", "cpu->region_int = (entry & VPT_TOPA_INT) != 0;", "cpu->region_int = false;",
        "ToPA INT: the PMI arrives"),
    "the single range does not wrap where it ends": (
        "max", "output", "output.c", "(offset + done) & mask);", "(offset + done) & (mask >> 1));", "single range"),
    "an exception leaves the filter unseen": (
        "max", "filter", "events.c", "    const bool stop = vpt_update_enables(cpu, transfer->target);",
        "    const bool stop = vpt_update_enables(cpu, transfer->type == VPT_FAULT ? transfer->ip : transfer->target);",
        "an exception out of it"),
    # Among PADs
    "a PAD that is a TNT": (
        "skylake", "psb", "layout.c", "    memset(at, PT_OPC_PAD, count);",
        "    memset(at, PT_OPC_PAD, count);\n    if (count > 1)\n        at[1] = 6;", "TIP: one for each of"),
    "a TIP is lost among PADs": (
        "skylake", "output", "packets.c", "    put(cpu, bytes, 1 + ip_payload_bytes(bytes + 1, payload, kind));",
        "    if (opcode != PT_TIP || cpu->bytes_since_psb < 512 || cpu->bytes_since_psb >= 528)\n"
        "        put(cpu, bytes, 1 + ip_payload_bytes(bytes + 1, payload, kind));", "in the next entry's region without a gap"),
    "some IPs that are not compressed have 8 bytes": (
        "skylake", "branch", "packets.c", "    if (cpu->caps.choices.ip_full_64)",
        "    if (cpu->caps.choices.ip_full_64 || !(ip >> 46 & 1))", "TIP: bytes of payload"),
    # Instructions
    "PTWEn is ignored": (
        "max", "insn", "events.c", "if (!(cpu->ctl & VPT_CTL_PTWEN) || !cpu->trigger_en", "if (!cpu->trigger_en",
        "PTWEn = 0: no PTW"),
    "FUPonPTW is ignored": (
        "max", "insn", "events.c", "const bool fup = (cpu->ctl & VPT_CTL_FUPONPTW) != 0;", "const bool fup = false;",
        "FUPonPTW: a FUP"),
    "PTW of 8 bytes cut to 4": (
        "max", "insn", "events.c", "size_bytes == 8 ? 8 : 4, fup", "4, fup", "PTWRITE of registers and memory"),
    "PTW without FilterEn": (
        "max", "insn", "events.c", "|| !cpu->context_en || !cpu->filter_en)\n        return;\n    vpt_begin_event(cpu);\n    vpt_emit_ptw",
        "|| !cpu->context_en)\n        return;\n    vpt_begin_event(cpu);\n    vpt_emit_ptw", "PTWRITE with FilterEn = 0"),
    "EXSTOP without FUP": (
        "max", "insn", "power.c", "    if (cpu->context_en)\n        vpt_emit_ip(cpu, PT_FUP, ip);\n", "", "EXSTOP's FUP"),
}

# What the specification leaves to the processor: nothing may fail.
FREEDOMS = {
    "TIPs are deferred (33.4.2.3)": (
        "max", "branch", "profiles.c", ".long_tnt = true,", ".long_tnt = true, .deferred_tips = true,",
        ""),
    "MODE.Exec before each TIP.PGE (33.4.2.8)": (
        "max", "user filter", "events.c", "    } else if (cpu->packet_en) {\n", "    } else if (cpu->packet_en) {\n        cpu->mode_sent = VPT_MODE_UNSENT;\n",
        ""),
    "short TNT packets only (33.4.2.1)": (
        "max", "branch", "profiles.c", ".long_tnt = true,", "",
        ""),
}
ALL = {**DEFECTS, **FREEDOMS}


def build(tree, log):
    return subprocess.run(["make", "-s", "-C", tree, "build/vpt", "WERROR="], stdout=log,
                          stderr=log).returncode == 0


def run(tree, profile, group):
    """The texts of the cases that failed; None: the run did not come to its end."""
    command = [os.path.join(tree, "build/vpt"), "run", "--profile", profile, "--append", group, IMAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    if not re.search(r"^\d+ passed, \d+ failed", done.stdout, re.M):
        return None
    return re.findall(r"^FAIL: (.*)$", done.stdout, re.M)


def try_defect(tree, name, log):
    """What is wrong with the tests, or nothing; and what the run said."""
    profile, group, file, old, new, words = ALL[name]
    path = os.path.join(tree, "emulation", file)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if text.count(old) != 1:
        return f"the text stands {text.count(old)} times in {file}", ""
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    try:
        failed = run(tree, profile, group) if build(tree, log) else "does not build"
    finally:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    if failed is None:
        return "the run did not come to its end", ""
    if failed == "does not build":
        return failed, ""
    if not words:
        return (f"{len(failed)} cases failed, first {failed[0]}", "") if failed else ("", "nothing fails")
    found = [each for each in failed if words in each]
    if not found:
        return f"no case with '{words}' failed, but {len(failed)} others", ""
    return "", f"{found[0]} ({len(failed)} cases failed)"


def main():
    names = sys.argv[1:]
    if names == ["--list"]:
        print("\n".join(ALL))
        return 0
    for name in names:
        if name not in ALL:
            sys.exit(f"defects.py: no defect '{name}' (--list)")
    if not os.path.exists(IMAGE):
        sys.exit("defects.py: packet-tests.elf is not built (make)")
    wrong = done = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = os.path.join(scratch, "tree")
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", ".git", "corpus"))
        with open(os.path.join(scratch, "log"), "w", encoding="utf-8") as log:
            if not build(tree, log) or run(tree, "max", "") != []:
                sys.exit("defects.py: packet-tests do not pass without a defect")
            for name in names or ALL:
                complaint, said = try_defect(tree, name, log)
                print(f"{'FAIL' if complaint else 'PASS'}: {name}: {complaint or said}", flush=True)
                wrong += bool(complaint)
                done += 1
    print(f"{done - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
