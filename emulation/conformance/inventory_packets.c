/* SPDX-License-Identifier: BSD-3-Clause */
/* The inventory of 33.4: packets. */
#include "inventory.h"

/* ---- 33.4.1 --------------------------------------------------------------------------------- */

static const struct demand relations[] = {
    {"1.3", "how packets are bound", NONE(DECODER)},
    {"2.4", "a compound event begins with FUP, ends with TIP or TIP.PGD",
     RULE(packets, compound_transfer)},
    {"3.2", "timing packets may come between", NONE(PERMITS)},
    {"3.3", "PIP or MODE where CR3 or the mode changes", RULE(packets, compound_transfer)},
    {"3.4", "which hold from the TIP on", NONE(DECODER)},
    {0},
};
static const struct demand blocks[] = {
    {"1.2", "a block begins with BBP, which has the type", RULE(blocks, block_structure)},
    {"1.3", "then items with values", RULE(blocks, block_structure)},
    {"1.4", "BEP or another BBP ends it", RULE(blocks, block_structure)},
    {"2.1", "ID and type name the value", RULE(blocks, items_basic)},
    {"2.2", "BBP has the size of the items", RULE(blocks, block_structure)},
    {"3.1", "up to 32 items", RULE(blocks, items_xmm)},
    {"3.2", "not always all of them", RULE(blocks, block_structure)},
    {"5.2", "no packet of the flow in a block", RULE(packets, no_tip)},
    {"5.4", "others may be there", NONE(PERMITS)},
    {"10.2", "an overflow ends the block", RULE(blocks, block_overflow)},
    {"10.3", "and may take others", RULE(blocks, block_overflow)},
    {0},
};
static const struct demand blocks_decoder[] = {
    {"1.1", "packets in a block are read in another way", NONE(DECODER)},
    {"1.2", "a header of a TNT is one of a BIP", NONE(DECODER)},
    {"2.1", "OVF ends a block", NONE(DECODER)},
    {"2.2", "nothing goes on within a block", RULE(blocks, block_overflow)},
    {0},
};

/* ---- TNT, TIP ------------------------------------------------------------------------------- */

static const struct demand tnt[] = {
    {"33-16 F1", "the order of the bits", RULE(formats, tnt_short)},
    {"33-16 F2", "1 to 6 in a short one", RULE(generation, tnt_full)},
    {"33-16 F3", "up to 47 in a long one", RULE(formats, tnt_long)},
    {"33-16 F4", "the stop bit behind the last one", RULE(formats, tnt_short)},
    {"33-16 F5", "which moves up if there are fewer", RULE(formats, tnt_short)},
    {"33-16 F6", "short ones, long ones or both", NONE(PERMITS)},
    {"33-16 P", "PacketEn, and not DisTNT", RULE(depends, needs_tnt)},
    {"33-16 G1", "a branch or compressed RET that fills it", RULE(generation, tnt_full)},
    {"33-16 G2", "or another packet before", RULE(generation, tnt_partial)},
    {"33-16 D1", "the results of the last branches and compressed RETs", RULE(generation, tnt_ret)},
    {"33-16 D2", "1: taken, or a compressed RET", RULE(generation, tnt_ret)},
    {"33-16 D3", "0: not taken", RULE(flow, cond_bits)},
    {"33-16 D4", "they wait until it is full or another packet comes",
     RULE(generation, tnt_partial)},
    {"33-16 D5", "then it is empty", RULE(generation, tnt_partial)},
    {"33-16 A", "each bit is for the next branch or RET", NONE(DECODER)},
    {0},
};
static const struct demand tip[] = {
    {"33-17 F", "header and payload", RULE(formats, ip_tip)},
    {"33-17 P", "PacketEn", RULE(depends, needs_tip)},
    {"33-17 G", "indirect and far branches, events, enclaves", RULE(generation, tip_far)},
    {"33-17 D1", "the target", RULE(generation, tip_near)},
    {"33-17 A", "what it binds to", NONE(DECODER)},
    {"33-17 n1.1", "enclaves: debug ones only", RULE(features, enclave_debug)},
    {0},
};
static const struct demand ip[] = {
    {"1.1", "the size of the payload varies", RULE(compression, ip_update_16)},
    {"1.2", "compression is the processor's choice", NONE(PERMITS)},
    {"1.3", "compared with the last IP of FUP, TIP, TIP.PGE, TIP.PGD",
     RULE(compression, last_ip_kinds)},
    {"1.4", "the same upper bytes may be left out", RULE(compression, ip_update_32)},
    {"1.5", "keep LastIP as the processor does", NONE(DECODER)},
    {"2.2", "it is 0 at first", RULE(compression, last_ip_psb)},
    {"3.1", "IPBytes says how many bytes there are", RULE(compression, ip_full)},
    {"4.1", "a PSB makes it 0", RULE(compression, last_ip_psb)},
    {"4.2", "the next IP is full, or compressed against 0", RULE(compression, last_ip_psb)},
    {"5.2", "IPBytes 0: no IP", RULE(compression, ip_suppressed)},
    {"5.3", "because it is out of context", RULE(compression, ip_suppressed)},
    {"5.5", "SYSCALL out of a trace of CPL 3", RULE(filtering, cpl_secret)},
    {"5.6", "LastIP stays", RULE(compression, ip_suppressed)},
    {"6.1", "32-bit linear addresses: at most 4 bytes", RULE(compression, ip_32_bits)},
    {0},
};
static const struct demand ret[] = {
    {"1.2", "a RET behind its CALL needs no TIP", RULE(compression, ret_matches)},
    {"2.1", "a taken bit instead", RULE(generation, tnt_ret)},
    {"2.2", "LastIP stays", RULE(compression, ret_last_ip)},
    {"2.3", "uncompressed, or with DisRETC: TIP", RULE(compression, ret_matches)},
    {"4.1", "64 targets", RULE(compression, ret_depth)},
    {"5.1", "CALLs push", RULE(compression, ret_matches)},
    {"5.2", "the oldest of 64 falls off", RULE(compression, ret_depth)},
    {"5.3", "but not those of length 0", RULE(compression, ret_zero_length)},
    {"6.1", "RETs pop", RULE(compression, ret_matches)},
    {"7.1", "a compressed RET goes to what was popped", RULE(compression, ret_matches)},
    {"7.2", "another one has a TIP", RULE(compression, ret_matches)},
    {"8.1", "the decoder has seen the CALL", RULE(compression, ret_barriers)},
    {"8.2", "none across PSB, overflow, PacketEn = 0", RULE(compression, ret_barriers)},
    {"8.3", "so a CALL before it does not count", RULE(compression, ret_barriers)},
    {"9.1", "a stack that software changed: TIP", RULE(compression, ret_matches)},
    {"10.1", "an uncompressed RET is not deferred", RULE(compression, deferred_ret)},
    {"11.4", "a RET in another mode may be compressed", NONE(PERMITS)},
    {0},
};
static const struct demand deferred[] = {
    {"1.1", "TIPs may be deferred", NONE(PERMITS)},
    {"1.2", "while the TNT fills up", RULE(compression, deferred_full)},
    {"1.3", "then TNT, TIPs, and what forced them out", RULE(compression, deferred_forced)},
    {"1.4", "other packets force them out", RULE(compression, deferred_forced)},
    {0},
};

/* ---- TIP.PGE, TIP.PGD, FUP ------------------------------------------------------------------ */

static const struct demand pge[] = {
    {"33-20 F", "header and payload", RULE(formats, ip_pge)},
    {"33-20 P", "PacketEn becomes 1", RULE(depends, needs_pge)},
    {"33-20 G1", "branches and transfers that set it", RULE(generation, pge_branch)},
    {"33-20 G2", "MOV CR3", RULE(generation, pge_cr3)},
    {"33-20 G3", "WRMSR", RULE(generation, pge_wrmsr)},
    {"33-20 D2", "the IP where tracing begins", RULE(generation, pge_transfer)},
    {"33-20 D3", "any enable may be the one that changes", RULE(enables, context_sets)},
    {"33-20 D4", "TriggerEn: Stopped and Error must be clear; next IP of the WRMSR",
     RULE(generation, pge_wrmsr)},
    {"33-20 D5", "FilterEn: the target", RULE(generation, pge_branch)},
    {"33-20 D6", "ContextEn: the target, or what follows MOV CR3", RULE(generation, pge_cr3)},
    {"33-20 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand pgd[] = {
    {"33-21 F", "header and payload", RULE(formats, ip_pgd)},
    {"33-21 P", "PacketEn becomes 0", RULE(depends, needs_pgd)},
    {"33-21 G", "what clears it", RULE(generation, pgd_branch)},
    {"33-21 D2", "the IP where tracing ends, unless out of context or TraceEn is 0",
     RULE(generation, pgd_context)},
    {"33-21 D3", "any enable may be the one that changes", RULE(enables, filter_targets)},
    {"33-21 D4", "TriggerEn: no payload", RULE(generation, pgd_wrmsr)},
    {"33-21 D5", "FilterEn: the target", RULE(generation, pgd_branch)},
    {"33-21 D6", "not of conditional branches", RULE(generation, pgd_conditional)},
    {"33-21 D7", "ContextEn: no payload", RULE(generation, pgd_context)},
    {"33-21 D8", "it replaces a TIP", RULE(generation, pgd_branch)},
    {"33-21 D9", "with the same payload, unless out of context", RULE(enables, filter_context)},
    {"33-21 D10", "and the bit of a conditional branch", RULE(generation, pgd_conditional)},
    {"33-21 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand fup[] = {
    {"33-22 F", "header and payload", RULE(formats, ip_fup)},
    {"33-22 P", "TriggerEn and ContextEn, mostly more", RULE(depends, needs_fup)},
    {"33-22 G", "events, transactions, enclaves, software interrupts, WRMSR",
     RULE(generation, tip_far)},
    {"33-22 D1", "the source of events", RULE(flow, far_fup)},
    {"33-22 D2", "never alone: a TIP, MODE or other packet belongs to it",
     RULE(generation, fup_never)},
    {"33-22 A1", "in transactions MODE.TSX is right before it", RULE(packets, tsx_begin)},
    {"33-22 A2", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand fup_ip[] = {
    {"1.2", "none for branches", RULE(generation, fup_never)},
    {"1.3", "one for asynchronous events", RULE(flow, far_fup)},
    {"3.1", "a fault at a non-canonical address has it", RULE(packets, fup_fault)},
    {"4.1", "faults behind a task switch: where the switch began", NONE(OWNER)},
    {0},
};

/* ---- PIP, MODE ------------------------------------------------------------------------------ */

static const struct demand pip[] = {
    {"33-24 F", "header, NR, CR3", RULE(formats, pip)},
    {"33-24 P", "ContextEn and OS", RULE(depends, needs_pip)},
    {"33-24 G", "what changes CR3, PSB+, VMX", RULE(generation, pip_transfer)},
    {"33-24 D1", "the address part only", RULE(generation, pip_bits)},
    {"33-24 D2", "with bits 11:5 for PAE paging", RULE(generation, pip_bits)},
    {"33-24 D3", "which are 0 otherwise", RULE(generation, pip_bits)},
    {"33-24 D5", "MOV CR3", RULE(scenarios, case_14)},
    {"33-24 D6", "a task switch", RULE(generation, pip_transfer)},
    {"33-24 D7", "INIT and SIPI", RULE(generation, pip_startup)},
    {"33-24 D8", "VM exits that do not conceal", RULE(vmx, exit_0)},
    {"33-24 D9", "VM entries that do not conceal", RULE(vmx, entry_0)},
    {"33-24 D10", "not SMI and RSM", RULE(generation, pip_smm)},
    {"33-24 D12", "not a task switch that leaves CR3", RULE(generation, pip_transfer)},
    {"33-24 D14", "the new value", RULE(scenarios, case_9)},
    {"33-24 D15", "VM entries set NR", RULE(vmx, entry_pip)},
    {"33-24 D16", "so does non-root operation that is not concealed", RULE(vmx, secondary_0)},
    {"33-24 D17", "all others clear it", RULE(vmx, secondary_1)},
    {"33-24 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand mode[] = {
    {"1.2", "a header and a byte", RULE(formats, mode_exec)},
    {"2.1", "the leaf says which bits there are", RULE(formats, mode_tsx)},
    {0},
};
static const struct demand exec[] = {
    {"33-26 F", "leaf 0: IF, CS.D, CS.L", RULE(formats, mode_exec)},
    {"33-26 P", "TriggerEn, ContextEn, FilterEn", RULE(depends, needs_exec)},
    {"33-26 G1", "a change of CS.L, CS.D or LMA with BranchEn", RULE(generation, exec_modes)},
    {"33-26 G2", "a change of RFLAGS.IF with EventEn", RULE(generation, exec_if)},
    {"33-26 G3", "TIP.PGE, if something may have changed", RULE(generation, exec_resumes)},
    {"33-26 D1", "16, 32 or 64 bits", RULE(generation, exec_modes)},
    {"33-26 D3", "RFLAGS.IF with Event Trace", RULE(filtering, if_flag)},
    {"33-26 D4", "at the time of the change, or when tracing resumes",
     RULE(generation, exec_resumes)},
    {"33-26 D5", "a TIP or TIP.PGE follows for branches, a FUP otherwise",
     RULE(generation, exec_if)},
    {"33-26 D6", "what changed outside the filter comes before the TIP.PGE",
     RULE(generation, exec_resumes)},
    {"33-26 D7", "it may be left out if nothing changed", NONE(PERMITS)},
    {"33-26 D8", "changes of the mode only with BranchEn", RULE(enables, branch_clear)},
    {"33-26 D10", "which bits mean which mode", RULE(generation, exec_modes)},
    {"33-26 D11", "changes of RFLAGS.IF only with EventEn", RULE(filtering, if_quiet)},
    {"33-26 A1", "an IP packet always follows it", RULE(events, case_22)},
    {"33-26 A2", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand tsx[] = {
    {"33-27 F", "leaf 1: TXAbort, InTX", RULE(formats, mode_tsx)},
    {"33-27 P", "TriggerEn and ContextEn", RULE(depends, needs_tsx)},
    {"33-27 G", "where InTX changes; aborts; PSB+", RULE(generation, tsx_changes)},
    {"33-27 D1", "begin, commit, abort", RULE(packets, tsx_abort)},
    {"33-27 D3", "what the bits mean", RULE(formats, mode_tsx)},
    {"33-27 A1", "with PacketEn a FUP follows at once", RULE(packets, tsx_begin)},
    {"33-27 A2", "with TXAbort a TIP behind it", RULE(packets, tsx_abort)},
    {"33-27 A3", "without PacketEn it stands alone", RULE(features, tsx_filtered)},
    {"33-27 A4", "what it binds to", NONE(DECODER)},
    {0},
};

/* ---- TraceStop, timing ---------------------------------------------------------------------- */

static const struct demand tracestop[] = {
    {"33-28 F", "two bytes", RULE(formats, tracestop)},
    {"33-28 P", "TriggerEn and ContextEn", RULE(depends, needs_stop)},
    {"33-28 G1", "a taken branch into the range", RULE(generation, stop_branch)},
    {"33-28 G2", "MOV CR3 in the range", RULE(generation, stop_cr3)},
    {"33-28 G3", "WRMSR that sets TraceEn in the range", RULE(generation, stop_wrmsr)},
    {"33-28 D2", "when the IP matches, with ContextEn and TriggerEn",
     RULE(filtering, stop_context)},
    {"33-28 D3", "Stopped is set, TriggerEn cleared, a packet sent", RULE(filtering, stop_branch)},
    {"33-28 D4", "FilterEn becomes 0", RULE(filtering, stop_branch)},
    {"33-28 D5", "it may not flush; clear TraceEn", NONE(SOFTWARE)},
    {"33-28 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand cbr[] = {
    {"33-29 F", "two bytes, ratio, reserved byte", RULE(formats, cbr)},
    {"33-29 P", "TriggerEn", RULE(depends, needs_cbr)},
    {"33-29 G", "frequency changes, wake, PSB+, enabling", RULE(generation_time, cbr_causes)},
    {"33-29 D1", "the ratio of core and bus", RULE(generation_time, cbr_causes)},
    {"33-29 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand tsc[] = {
    {"33-30 F", "a header, 7 bytes", RULE(formats, tsc_tma)},
    {"33-30 P", "TSCEn and TriggerEn", RULE(depends, needs_tsc)},
    {"33-30 G", "when a clock stopped; enabling", RULE(generation_time, tsc_causes)},
    {"33-30 D1", "the lower 7 bytes of the TSC", RULE(generation_time, tsc_causes)},
    {"33-30 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand mtc[] = {
    {"33-31 F", "a header, 8 bits", RULE(formats, mtc)},
    {"33-31 P", "MTCEn and TriggerEn", RULE(depends, needs_mtc)},
    {"33-31 G", "periodic, by the crystal clock", RULE(generation_time, mtc_period)},
    {"33-31 D2", "ART >> N, 8 bits", RULE(generation_time, mtc_period)},
    {"33-31 D4", "MTCFreq is N", RULE(generation_time, mtc_period)},
    {"33-31 D6", "the 8 bits from the one that MTCFreq names", RULE(generation_time, mtc_period)},
    {"33-31 D7", "one whenever they change", RULE(generation_time, mtc_period)},
    {"33-31 D7", "the first one that changes while tracing", RULE(time, mtc_from_enabling)},
    {"33-31 D7", "before what happens behind the change", RULE(time, mtc_precedes)},
    {"33-31 D9", "the bits below are 0 then", RULE(generation_time, mtc_period)},
    {"33-31 D10", "MTCs may be lost", NONE(PERMITS)},
    {"33-31 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand tma[] = {
    {"33-32 F", "CTC, FastCounter, a 0 bit", RULE(formats, tma_ctc)},
    {"33-32 P", "MTCEn, TSCEn, TriggerEn", RULE(depends, needs_tma)},
    {"33-32 G", "with each TSC", RULE(generation_time, tma_follows)},
    {"33-32 D1", "what correlates MTC and TSC", RULE(generation_time, tma_follows)},
    {"33-32 A1", "right behind TSC, of the same time", RULE(generation_time, tma_follows)},
    {0},
};
static const struct demand cyc[] = {
    {"33-33 F", "5 bits, then 7 a byte", RULE(generation_time, cyc_sizes)},
    {"33-33 P", "CYCEn and TriggerEn", RULE(depends, needs_cyc)},
    {"33-33 G", "at most one in a cycle", RULE(generation_time, cyc_once)},
    {"33-33 D2", "below 32: 1 byte", RULE(generation_time, cyc_sizes)},
    {"33-33 D3", "to 4095: 2 bytes", RULE(generation_time, cyc_sizes)},
    {"33-33 D5", "the cycles since the last one", RULE(generation_time, cyc_once)},
    {"33-33 D6", "in every such cycle, or above a threshold", RULE(cycles, threshold)},
    {"33-33 D9", "threshold 0: in each cycle with an eligible packet", RULE(cycles, eligible)},
    {"33-33 D10", "before the others of the cycle", RULE(cycles, once_a_cycle)},
    {"33-33 D11", "stand-alone ones", NONE(PERMITS)},
    {"33-33 D14", "a threshold: not before so many cycles", RULE(packets, cyc_3)},
    {"33-33 D15", "then with the next eligible packet", RULE(packets, cyc_5)},
    {"33-33 A", "what it applies to", NONE(DECODER)},
    {0},
};

/* ---- VMCS to PAD ---------------------------------------------------------------------------- */

static const struct demand vmcs[] = {
    {"33-34 F", "two bytes, bits 51:12", RULE(formats, vmcs)},
    {"33-34 P", "TriggerEn and ContextEn, in VMX operation", RULE(depends, needs_vmcs)},
    {"33-34 G", "VMPTRLD, PSB+, SMM VM exits and returns", RULE(generation_time, vmcs_pointer)},
    {"33-34 D2", "VMPTRLD: the new pointer", RULE(generation_time, vmcs_pointer)},
    {"33-34 D4", "SMM VM exit: the SMM-transfer one, unless concealed", RULE(vmx, exit_0)},
    {"33-34 D7", "return from SMM: that of the field, unless concealed", RULE(vmx, entry_0)},
    {"33-34 D8", "PIP.NR tells root and non-root", RULE(vmx, entry_0)},
    {"33-34 D9", "no pointer: all ones", RULE(generation_time, vmcs_pointer)},
    {"33-34 D10", "none with VMX_MISC[14] = 0", RULE(generation_time, vmcs_misc)},
    {"33-34 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand ovf[] = {
    {"33-35 F", "two bytes", RULE(formats, ovf)},
    {"33-35 P", "TriggerEn", RULE(depends, needs_ovf)},
    {"33-35 G", "when the overflow is resolved", RULE(generation_time, ovf_resolved)},
    {"33-35 D2", "FUP or TIP.PGE follows with BranchEn", RULE(packets, compound_overflow)},
    {"33-35 A1", "go on at the IP that follows", NONE(DECODER)},
    {"33-35 A2", "the cycle counter is reset", RULE(cycles, overflow_cyc)},
    {"33-35 A3", "no RET is compressed across", RULE(compression, ret_barriers)},
    {"33-35 A4", "nor an IP against what was lost", RULE(sync, overflow_uncompressed)},
    {0},
};
static const struct demand psb[] = {
    {"33-36 F", "16 bytes", RULE(formats, psb)},
    {"33-36 P", "TriggerEn", RULE(depends, needs_psb)},
    {"33-36 G1", "by the number of bytes", RULE(generation_time, psb_period)},
    {"33-36 G2", "if PacketByteCnt is 0, and at each threshold", RULE(generation_time, psb_enable)},
    {"33-36 G3", "and at other times", NONE(PERMITS)},
    {"33-36 D1", "no other packets have this pattern", RULE(sync, psb_unique)},
    {"33-36 D3", "PacketByteCnt counts", RULE(msrs, bytecnt)},
    {"33-36 D4", "PSBFreq chooses the period", RULE(generation_time, psb_period)},
    {"33-36 D6", "as soon as possible behind it", RULE(sync, psb_prompt)},
    {"33-36 D8", "it leads PSB+", RULE(sync, psb_state)},
    {"33-36 A", "status only until PSBEND or OVF", NONE(DECODER)},
    {0},
};
static const struct demand psbend[] = {
    {"33-37 F", "two bytes", RULE(formats, psb)},
    {"33-37 P", "TriggerEn", RULE(depends, needs_psbend)},
    {"33-37 G", "behind each PSB and its packets", RULE(sync, psb_between)},
    {"33-37 D1", "it ends PSB+", RULE(formats, psb)},
    {"33-37 A", "status only no more", NONE(DECODER)},
    {0},
};
static const struct demand mnt[] = {
    {"33-38 F", "three bytes, 8 of payload", RULE(formats, mnt)},
    {"33-38 P", "TriggerEn", RULE(depends, needs_mnt)},
    {"33-38 G", "by the implementation", RULE(generation_time, mnt_payload)},
    {"33-38 A", "ignore it", NONE(DECODER)},
    {0},
};
static const struct demand pad[] = {
    {"33-39 F", "a byte 0", RULE(generation_time, pad_aligns)},
    {"33-39 P", "TriggerEn", RULE(depends, needs_pad)},
    {"33-39 G", "by the implementation", RULE(generation_time, pad_aligns)},
    {"33-39 D1", "it says nothing", RULE(depends, pads_change_nothing)},
    {"33-39 D2", "to align packets", RULE(generation_time, pad_aligns)},
    {"33-39 A", "ignore it", NONE(DECODER)},
    {0},
};

/* ---- PTWRITE, power ------------------------------------------------------------------------- */

static const struct demand ptw[] = {
    {"33-40 F1", "two bytes and the payload", RULE(formats, ptw)},
    {"33-40 F2", "PayloadBytes: 4 or 8", RULE(generation_events, ptw_sizes)},
    {"33-40 F3", "the IP bit: a FUP of the PTWRITE follows", RULE(power, ptw_2)},
    {"33-40 P", "ContextEn, FilterEn, PTWEn", RULE(depends, needs_ptw)},
    {"33-40 G", "PTWRITE", RULE(power, ptw_3)},
    {"33-40 D1", "the operand", RULE(generation_events, ptw_sizes)},
    {"33-40 D2", "CYC-eligible", RULE(cycles, eligible)},
    {"33-40 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand exstop[] = {
    {"33-41 F1", "two bytes", RULE(formats, power)},
    {"33-41 F2", "the IP bit: a FUP follows", RULE(depends, needs_exstop)},
    {"33-41 P", "TriggerEn and PwrEvtEn", RULE(depends, needs_exstop)},
    {"33-41 G1", "C-states, and clocks that stop otherwise",
     RULE(generation_events, exstop_causes)},
    {"33-41 D1", "execution has stopped", RULE(flow, power_stops)},
    {"33-41 D3", "in context: the IP bit and a FUP", RULE(flow, power_stops)},
    {"33-41 D4", "of the oldest instruction that is not complete", RULE(power, case_4)},
    {"33-41 D5", "CYC-eligible", RULE(cycles, eligible)},
    {"33-41 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand mwait[] = {
    {"33-42 F", "two bytes, hints, extensions, reserved bytes", RULE(formats, power)},
    {"33-42 P", "TriggerEn, PwrEvtEn, ContextEn", RULE(depends, needs_mwait)},
    {"33-42 G", "MWAIT and its kind, if they complete", RULE(generation_events, mwait_causes)},
    {"33-42 D2", "hints and extensions of software", RULE(power, case_4)},
    {"33-42 D3", "UMWAIT and TPAUSE: EXT is the input register", NONE(OWNER)},
    {"33-42 D4", "none for C0.1", NONE("the owner tells no such sleep")},
    {"33-42 D5", "CYC-eligible", RULE(cycles, eligible)},
    {"33-42 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand pwre[] = {
    {"33-43 F", "two bytes, HW, state", RULE(formats, power)},
    {"33-43 P", "TriggerEn and PwrEvtEn", RULE(depends, needs_pwre)},
    {"33-43 G", "entry to a C-state deeper than C0.0", RULE(generation_events, pwre_deeper)},
    {"33-43 D1", "the state that was resolved", RULE(power, case_4)},
    {"33-43 D2", "until another PWRE, or PWRX", RULE(generation_events, pwre_deeper)},
    {"33-43 D3", "none for C0.1", NONE("the owner tells no such sleep")},
    {"33-43 D6", "not deeper than the core supports", NONE(OWNER)},
    {"33-43 D7", "HW if no software asked", RULE(power, case_6)},
    {"33-43 A1", "EXSTOP follows the first one", RULE(generation_events, pwre_deeper)},
    {"33-43 A2", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand pwrx[] = {
    {"33-44 F", "two bytes, states, reason, reserved bytes", RULE(formats, power)},
    {"33-44 P", "TriggerEn and PwrEvtEn", RULE(depends, needs_pwrx)},
    {"33-44 G", "return to C0", RULE(generation_events, pwrx_reasons)},
    {"33-44 D2", "none for C0.1", NONE("the owner tells no such sleep")},
    {"33-44 D3", "the last core C-state", RULE(flow, power_reasons)},
    {"33-44 D4", "the deepest one", RULE(flow, power_reasons)},
    {"33-44 D6", "not deeper than the core supports", NONE(OWNER)},
    {"33-44 D7", "one bit is the reason", RULE(generation_events, pwrx_reasons)},
    {"33-44 A", "what it binds to", NONE(DECODER)},
    {0},
};

/* ---- Blocks, events ------------------------------------------------------------------------- */

static const struct demand bbp[] = {
    {"33-45 F", "two bytes, SZ, type", RULE(formats, blocks)},
    {"33-45 P", "TriggerEn", RULE(depends, needs_bbp)},
    {"33-45 G", "PEBS with output to Intel PT", RULE(generation_events, block_sizes)},
    {"33-45 D1", "it begins what belongs to one event", RULE(blocks, block_structure)},
    {"33-45 D2", "SZ: items of 8 or 4 bytes", RULE(generation_events, block_sizes)},
    {"33-45 D3", "the types", RULE(blocks, items_registers)},
    {"33-45 A1", "BEP follows, with IP and FUP in context", RULE(depends, needs_bep)},
    {"33-45 A2", "BBP and OVF end a block too", RULE(blocks, block_overflow)},
    {0},
};
static const struct demand bip[] = {
    {"33-46 F", "ID, 4 or 8 bytes", RULE(formats, blocks)},
    {"33-46 P", "TriggerEn", RULE(depends, needs_bip)},
    {"33-46 D1", "the size is that of the BBP", RULE(generation_events, block_sizes)},
    {"33-46 D2", "ID and type name the value", RULE(blocks, items_lbr)},
    {0},
};
static const struct demand bip_values[] = {
    {"1.2", "larger values are several items", RULE(blocks, items_xmm)},
    {"1.3", "items of 4 bytes have the lower half", RULE(blocks, block_structure)},
    {0},
};
static const struct demand bep[] = {
    {"33-48 F", "two bytes, IP", RULE(formats, blocks)},
    {"33-48 P", "TriggerEn", RULE(depends, needs_bep)},
    {"33-48 D1", "it ends a block", RULE(blocks, block_structure)},
    {"33-48 D2", "IP, and a FUP, in context", RULE(blocks, block_structure)},
    {"33-48 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand cfe[] = {
    {"33-49 F1", "two bytes, IP and type, vector", RULE(formats, cfe_evd)},
    {"33-49 F2", "the IP bit: a FUP of its own follows", RULE(generation_events, cfe_shares_fup)},
    {"33-49 P1", "EventEn, TriggerEn, ContextEn", RULE(depends, needs_cfe)},
    {"33-49 P2", "in both directions where ContextEn changes", RULE(depends, cfe_either_way)},
    {"33-49 P3", "VM exits: ContextEn before",
     NONE("Table 33-59 case 15 has the CFE of a VM exit into context; the table is followed")},
    {"33-49 G1", "interrupts and exceptions", RULE(generation_events, cfe_causes)},
    {"33-49 G2", "INIT, SIPI, SMI, RSM, IRET, shutdown", RULE(events, sipi)},
    {"33-49 G3", "VM exits that do not conceal", RULE(vmx, exit_0)},
    {"33-49 G4", "VM entries that do not conceal", RULE(vmx, entry_0)},
    {"33-49 G5", "TSX aborts", NONE("no CFE type is defined for them (Table 33-50)")},
    {"33-49 D2", "the type, and with the IP bit a FUP", RULE(events, intr)},
    {"33-49 D3", "the vector of interrupts and exceptions", RULE(events, intr)},
    {"33-49 D4", "IP only if ContextEn was 1 and BranchEn gives no FUP",
     RULE(generation_events, cfe_shares_fup)},
    {"33-49 D5", "none for SIPI and RSM", RULE(events, rsm)},
    {"33-49 D6", "none for events that are not delivered", NONE(OWNER)},
    {"33-49 A", "what it binds to", NONE(DECODER)},
    {0},
};
static const struct demand cfe_types[] = {
    {"1.1", "each has a type", RULE(events, reserved_e)},
    {"1.2", "some have a vector", RULE(events, iret)},
    {0},
};
static const struct demand evd[] = {
    {"33-51 F", "two bytes, type, 8 of payload", RULE(formats, cfe_evd)},
    {"33-51 P", "EventEn, TriggerEn, ContextEn", RULE(depends, needs_evd)},
    {"33-51 G1", "page faults", RULE(generation_events, evd_types)},
    {"33-51 G2", "VM exits that do not conceal", RULE(vmx, exit_0)},
    {"33-51 D2", "the type says what the payload is", RULE(events, vmexit)},
    {"33-51 D3", "none without a CFE", RULE(events, case_7)},
    {"33-51 A", "what it binds to", NONE(DECODER)},
    {0},
};

const struct section packet_sections[] = {
    {"33.4.1", "Packet relationships", 5, relations},
    {"33.4.1.1", "Packet blocks", 11, blocks},
    {"33.4.1.1 decoder", "Decoder implications", 4, blocks_decoder},
    {"33.4.2.1", "TNT", 15, tnt},
    {"33.4.2.2", "TIP", 6, tip},
    {"33.4.2.2 IP compression", "IP compression", 14, ip},
    {"33.4.2.2 RET", "RET compression", 17, ret},
    {"33.4.2.3", "Deferred TIPs", 4, deferred},
    {"33.4.2.4", "TIP.PGE", 11, pge},
    {"33.4.2.5", "TIP.PGD", 13, pgd},
    {"33.4.2.6", "FUP", 7, fup},
    {"33.4.2.6 payload", "FUP IP payload", 4, fup_ip},
    {"33.4.2.7", "PIP", 18, pip},
    {"33.4.2.8", "MODE", 2, mode},
    {"33.4.2.8 MODE.Exec", "MODE.Exec", 16, exec},
    {"33.4.2.8 MODE.TSX", "MODE.TSX", 9, tsx},
    {"33.4.2.9", "TraceStop", 10, tracestop},
    {"33.4.2.10", "CBR", 5, cbr},
    {"33.4.2.11", "TSC", 5, tsc},
    {"33.4.2.12", "MTC", 12, mtc},
    {"33.4.2.13", "TMA", 5, tma},
    {"33.4.2.14", "CYC", 13, cyc},
    {"33.4.2.15", "VMCS", 10, vmcs},
    {"33.4.2.16", "OVF", 8, ovf},
    {"33.4.2.17", "PSB", 11, psb},
    {"33.4.2.18", "PSBEND", 5, psbend},
    {"33.4.2.19", "MNT", 4, mnt},
    {"33.4.2.20", "PAD", 6, pad},
    {"33.4.2.21", "PTW", 8, ptw},
    {"33.4.2.22", "EXSTOP", 9, exstop},
    {"33.4.2.23", "MWAIT", 8, mwait},
    {"33.4.2.24", "PWRE", 10, pwre},
    {"33.4.2.25", "PWRX", 9, pwrx},
    {"33.4.2.26", "BBP", 8, bbp},
    {"33.4.2.27", "BIP", 4, bip},
    {"33.4.2.27 values", "BIP state values", 2, bip_values},
    {"33.4.2.28", "BEP", 5, bep},
    {"33.4.2.29", "CFE", 16, cfe},
    {"33.4.2.29 types", "CFE types", 2, cfe_types},
    {"33.4.2.30", "EVD", 7, evd},
    {0},
};
