/* SPDX-License-Identifier: BSD-3-Clause */
/* The inventory of 33.2.1 to 33.2.6: what is traced, filtering, enables. */
#include "inventory.h"

static const struct demand cofi[] = {
    {"5.2", "which instruction is of which kind", NONE(OWNER)},
    {0},
};
static const struct demand direct[] = {
    {"1.4", "conditional branches tell only whether they are taken", RULE(flow, cond_bits)},
    {"1.5", "unconditional ones tell nothing", RULE(scenarios, case_5)},
    {"3.1", "a bit for each conditional branch", RULE(flow, cond_bits)},
    {"4.2", "several bits in a packet", RULE(flow, cond_bits)},
    {"6.1", "no output for direct jumps and calls", RULE(scenarios, case_5)},
    {"6.2", "neither TNT nor TIP; TIP.PGD and TIP.PGE where they toggle enables",
     RULE(flow, direct_toggles)},
    {0},
};
static const struct demand indirect[] = {
    {"1.4", "the destination has to be in the trace", RULE(scenarios, case_4)},
    {"1.5", "it is a linear or an effective address", RULE(cpuid, each_lip)},
    {"2.1", "TIP with the target", RULE(scenarios, case_4)},
    {"4.2", "near JMP and CALL: a packet with the target", RULE(scenarios, case_4)},
    {"8.2", "near RET: TIP", RULE(scenarios, case_6)},
    {"10.2", "compressed if it goes behind a CALL that the decoder saw",
     RULE(compression, ret_matches)},
    {"10.3", "a taken bit instead of the TIP", RULE(scenarios, case_7)},
    {"10.4", "only for CALLs behind the last PSB", RULE(compression, ret_barriers)},
    {0},
};
static const struct demand far[] = {
    {"2.1", "TIP with the destination", RULE(flow, far_tip)},
    {"2.2", "FUP before it where the source cannot be inferred", RULE(flow, far_fup)},
    {"2.3", "which IP the FUP has", RULE(packets, fup_interrupt)},
    {0},
};
static const struct demand ptwrite[] = {
    {"1.2", "the instruction runs at CPL 3", NONE(OWNER)},
    {"1.3", "its operand is the payload, if it is enabled and filters are met", RULE(power, ptw_3)},
    {"2.1", "PTWEn enables it", RULE(msrs, ptwen)},
    {"2.2", "FUPonPTW adds a FUP", RULE(msrs, fuponptw)},
    {0},
};
static const struct demand power[] = {
    {"3.1", "a stop for sleep or a change of frequency", RULE(flow, power_stops)},
    {"4.1", "with the IP in context", RULE(flow, power_ip)},
    {"5.1", "the C-state that was asked for, and the one that was resolved", RULE(power, case_4)},
    {"6.1", "that hardware decided", RULE(power, case_6)},
    {"7.1", "last and deepest core C-state", RULE(power, case_7)},
    {"8.1", "the reason of the wake", RULE(flow, power_reasons)},
    {"9.1", "CBR and timing packets come besides", RULE(flow, power_besides)},
    {"10.1", "PwrEvtEn enables it", RULE(msrs, pwrevten)},
    {0},
};
static const struct demand event[] = {
    {"2.1", "interrupts, NMI and SMI, with the vector", RULE(events, intr)},
    {"3.1", "faults and exceptions, with the vector", RULE(events, case_5)},
    {"4.1", "the address of a page fault", RULE(events, case_6)},
    {"5.1", "returns: IRET, RSM", RULE(events, iret)},
    {"6.1", "VM exits and entries", RULE(events, vmentry)},
    {"7.1", "exit reason and qualification", RULE(events, vmexit)},
    {"8.1", "INIT and SIPI", RULE(events, init)},
    {"9.1", "TSX aborts with their status", NONE("no CFE type is defined for them (Table 33-50)")},
    {"10.1", "shutdown", RULE(events, shut_down)},
    {"11.1", "when interrupts are masked", RULE(filtering, if_flag)},
    {"12.1", "EventEn enables it", RULE(msrs, eventen)},
    {"12.2", "it is told by CFE, EVD and MODE.Exec", RULE(filtering, if_flag)},
    {0},
};
static const struct demand cpl[] = {
    {"1.1", "packets at CPL 0 only, above 0 only, or at every CPL", RULE(filtering, cpl_both)},
    {"2.1", "no IP or other state of a filtered CPL is seen", RULE(filtering, cpl_secret)},
    {"2.2", "SYSCALL out of a trace of CPL 3: no target", RULE(filtering, cpl_secret)},
    {"3.1", "CPL in real-address and virtual-8086 mode", NONE(OWNER)},
    {"3.2", "filter so that these modes are traced", NONE(SOFTWARE)},
    {"4.1", "a CPL that is not enabled clears ContextEn", RULE(filtering, cpl_none)},
    {0},
};
static const struct demand cr3[] = {
    {"1.1", "packets are enabled or disabled by CR3", RULE(filtering, cr3_excluded)},
    {"2.1", "write CR3_MATCH and set CR3Filter", NONE(SOFTWARE)},
    {"2.2", "no match: ContextEn is 0, no state is told", RULE(filtering, cr3_excluded)},
    {"2.3", "other packets then", RULE(filtering, cr3_others)},
    {"2.4", "a match, or no filter, does not clear ContextEn", RULE(filtering, cr3_off)},
    {"3.1", "which bits count, with PAE paging and without", RULE(filtering, cr3_bits)},
    {"3.2", "CR0.PG does not count", NONE("the model is told no CR0, so nothing can depend on it")},
    {"4.1", "PIPs with OS = 1", RULE(filtering, cr3_pip)},
    {"4.2", "none with OS = 0", RULE(filtering, cr3_pip)},
    {0},
};
static const struct demand ip[] = {
    {"1.1", "CPUID says whether there is IP filtering", RULE(cpuid, each_ip_filter)},
    {"1.2", "packets only inside of ranges", RULE(filtering, example)},
    {"1.3", "outside, some packets are blocked", RULE(enables, filter_clear)},
    {"2.1", "ADDRn_CFG enables range n", RULE(msrs, addr0)},
    {"2.2", "for the registers ADDRn_A and ADDRn_B", RULE(msrs, addr1)},
    {"2.3", "these are base and limit", RULE(filtering, ip_inclusive)},
    {"2.5", "there can be several ranges", RULE(filtering, ip_several)},
    {"3.1", "no range: FilterEn is 1", RULE(enables, filter_default)},
    {"3.3", "tracing begins with a taken branch or event into a range", RULE(filtering, ip_event)},
    {"4.1", "and ends with one out of it", RULE(filtering, ip_event)},
    {"4.2", "walking in or out may not be noticed at once", RULE(filtering, ip_walk)},
    {"5.1", "base and limit are inclusive", RULE(filtering, ip_inclusive)},
    {"6.1", "linear or effective addresses", RULE(filtering, ip_payload_type)},
    {"6.4", "ask CPUID which", NONE(SOFTWARE)},
    {"7.1", "timing packets do not depend on FilterEn", RULE(filtering, ip_timing)},
    {0},
};
static const struct demand stop[] = {
    {"1.1", "entering a range stops the trace", RULE(filtering, stop_branch)},
    {"2.2", "an encoding of ADDRn_CFG chooses it", RULE(msrs, addr0)},
    {"2.3", "a taken branch or event into the range is noticed", RULE(filtering, stop_event)},
    {"3.1", "TriggerEn before and ContextEn behind the branch", RULE(filtering, stop_context)},
    {"3.2", "Stopped is set, TriggerEn cleared", RULE(filtering, stop_branch)},
    {"3.3", "TIP.PGD with the target", RULE(filtering, stop_event)},
    {"3.4", "a TraceStop packet at last", RULE(filtering, stop_branch)},
    {"4.1", "in an overflow it is put off, not dropped", RULE(filtering, stop_overflow)},
    {"5.1", "it need not flush", NONE(PERMITS)},
    {"5.2", "clear TraceEn to flush", NONE(SOFTWARE)},
    {"6.1", "TraceEn has to be cleared before Stopped", RULE(filtering, stop_resume)},
    {"6.2", "then tracing can be resumed", RULE(filtering, stop_resume)},
    {"7.1", "ToPA's STOP sets Stopped as well", RULE(output, region_stop)},
    {0},
};
static const struct demand overlap[] = {
    {"1.2", "where ranges do not overlap, each is what it is", RULE(filtering, stop_overlap)},
    {"1.3", "where they do, TraceStop counts", RULE(filtering, stop_overlap)},
    {0},
};
static const struct demand controls[] = {
    {"1.2", "most packets need PacketEn", RULE(enables, packet_en)},
    {"1.3", "software cannot see it", RULE(enables, packet_hidden)},
    {0},
};
static const struct demand packet_en[] = {
    {"2.1", "the conjunction of four enables", RULE(enables, packet_en)},
    {"4.2", "1: all packets of the flow", RULE(enables, packet_en)},
    {"4.3", "0: none of them, but others", RULE(enables, packet_others)},
    {"5.1", "no IP filtering: FilterEn counts as 1", RULE(enables, filter_always)},
    {0},
};
static const struct demand trigger[] = {
    {"1.2", "set with TraceEn", RULE(enables, trigger_set)},
    {"2.1", "cleared with TraceEn", RULE(enables, trigger_set)},
    {"3.1", "cleared by TraceStop", RULE(filtering, stop_branch)},
    {"4.1", "cleared by an error", RULE(enables, trigger_set)},
    {"5.1", "STATUS shows it", RULE(msrs, triggeren)},
    {"5.2", "0: no packets", RULE(enables, trigger_clear)},
    {0},
};
static const struct demand context[] = {
    {"1.2", "CPL 0 with OS = 0", RULE(enables, context_formula)},
    {"2.1", "STATUS shows it", RULE(msrs, contexten)},
    {"3.1", "OS, User, enclave, CR3", RULE(enables, context_formula)},
    {"4.1", "TIP.PGD without IP when it clears PacketEn", RULE(enables, context_sets)},
    {"4.2", "TIP.PGE when it sets PacketEn", RULE(enables, context_sets)},
    {"5.1", "0: no packets of the flow, no addresses", RULE(enables, context_clear)},
    {"5.2", "MTC, PSB and others may go on", RULE(enables, context_others)},
    {"6.1", "not updated while TriggerEn is 0", RULE(enables, context_frozen)},
    {"7.1", "toggles only while TriggerEn is 1", RULE(enables, context_frozen)},
    {0},
};
static const struct demand branch[] = {
    {"1.1", "it is RTIT_CTL.BranchEn", RULE(msrs, branchen)},
    {"1.2", "0: packets of branches are suppressed", RULE(enables, branch_clear)},
    {"1.3", "timing packets and PSB are not", RULE(enables, branch_timing)},
    {"1.4", "nor PIP and VMCS", RULE(enables, branch_pip)},
    {0},
};
static const struct demand filter[] = {
    {"1.1", "the IP is in a range that is watched", RULE(filtering, ip_inclusive)},
    {"1.2", "STATUS shows it", RULE(msrs, filteren)},
    {"2.1", "TIP.PGD when it clears PacketEn", RULE(scenarios, pkt_4)},
    {"2.2", "with the target of direct and indirect branches and RETs",
     RULE(enables, filter_targets)},
    {"2.3", "but nothing out of context", RULE(enables, filter_context)},
    {"3.1", "0: no packets of the flow", RULE(enables, filter_clear)},
    {"3.2", "PIP, MTC, PSB may go on", RULE(enables, filter_clear)},
    {"4.1", "1 at all times without a filter range", RULE(enables, filter_default)},
    {"4.2", "toggles only while TraceEn and ContextEn are 1", RULE(enables, filter_frozen)},
    {"n1.1", "no packets in a production enclave", RULE(features, enclave_production)},
    {0},
};

const struct section filtering_sections[] = {
    {"33.2.1", "Change of flow instructions", 1, cofi},
    {"33.2.1.1", "Direct transfers", 6, direct},
    {"33.2.1.2", "Indirect transfers", 8, indirect},
    {"33.2.1.3", "Far transfers", 3, far},
    {"33.2.2", "PTWRITE", 4, ptwrite},
    {"33.2.3", "Power event tracing", 8, power},
    {"33.2.4", "Event tracing", 12, event},
    {"33.2.5.1", "Filtering by CPL", 6, cpl},
    {"33.2.5.2", "Filtering by CR3", 9, cr3},
    {"33.2.5.3", "Filtering by IP", 15, ip},
    {"33.2.5.3 TraceStop", "TraceStop", 13, stop},
    {"33.2.5.3 IP filtering and TraceStop", "Overlaps", 2, overlap},
    {"33.2.6", "Enables", 2, controls},
    {"33.2.6.1", "PacketEn", 4, packet_en},
    {"33.2.6.2", "TriggerEn", 6, trigger},
    {"33.2.6.3", "ContextEn", 9, context},
    {"33.2.6.4", "BranchEn", 4, branch},
    {"33.2.6.5", "FilterEn", 10, filter},
    {0},
};
