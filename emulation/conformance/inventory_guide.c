/* SPDX-License-Identifier: BSD-3-Clause */
/* The inventory of 33.3: configuration and programming. */
#include "inventory.h"

#define LBRS    "the model has no LBRs, and its profiles do not restrict them"
#define PRIVATE "the model's cycle counter has 64 bits and never wraps"

static const struct demand detection[] = {
    {"1.1", "CPUID.7.0:EBX[25] says whether Intel PT is there", RULE(vmx_use, hidden)},
    {"1.2", "leaf 14H says what it can do", RULE(cpuid, each_max_subleaf)},
    {"2.1", "EAX of it says which subleaves there are", RULE(cpuid, each_max_subleaf)},
    {0},
};
static const struct demand rip_lip[] = {
    {"1.2", "IP payloads are RIPs or LIPs", RULE(cpuid, each_lip)},
    {"1.3", "a RIP is the offset from the base of CS", RULE(packets, fup_fault)},
    {"1.4", "CPUID says which", RULE(cpuid, each_lip)},
    {"2.1", "no difference where the base is 0", RULE(scenarios, case_4)},
    {"2.2", "a base that is not 0", NONE(DECODER)},
    {"3.1", "ranges are compared in the same way", RULE(filtering, ip_payload_type)},
    {"3.2", "write RIPs or LIPs to ADDRn", NONE(SOFTWARE)},
    {"3.4", "ask CPUID", NONE(SOFTWARE)},
    {0},
};
static const struct demand restrictions[] = {
    {"1.1", "some processors cannot have LBRs and Intel PT", NONE(LBRS)},
    {"1.2", "LBRs pause while TraceEn is 1", NONE(LBRS)},
    {"1.3", "and start again", NONE(LBRS)},
    {"1.4", "their MSRs read 0 meanwhile", NONE(LBRS)},
    {"2.1", "the MSRs it is about", NONE(LBRS)},
    {"6.1", "the processors it is about", NONE(LBRS)},
    {0},
};
static const struct demand configuration[] = {
    {"1.1", "start with CPUID", NONE(SOFTWARE)},
    {"2.1", "then configure the MSRs", NONE(SOFTWARE)},
    {0},
};
static const struct demand enabling[] = {
    {"1.1", "RTIT_CTL last, since the others are #GP while TraceEn is 1",
     RULE(enabling, general_locked)},
    {"1.2", "clear STATUS first", NONE(SOFTWARE)},
    {"1.3", "Stopped persists until it is written", RULE(filtering, stop_resume)},
    {"1.3", "and so does Error", RULE(topa, error_when_reached)},
    {"2.1", "an error may come a while after", NONE(PERMITS)},
    {"3.1", "values may be out of date while tracing", NONE(PERMITS)},
    {"3.2", "they are reliable with TraceEn 0", RULE(enabling, disable_flush)},
    {0},
};
static const struct demand disabling[] = {
    {"1.1", "read STATUS", NONE(SOFTWARE)},
    {"2.1", "Error tells of an operational error", RULE(topa, error_when_reached)},
    {"2.2", "look for its cause", NONE(SOFTWARE)},
    {"2.4", "and clear it", NONE(SOFTWARE)},
    {"3.1", "Stopped tells of TraceStop or STOP", RULE(filtering, stop_branch)},
    {0},
};
static const struct demand flushing[] = {
    {"1.1", "packets are buffered, then written", RULE(generation_time, ovf_resolved)},
    {"1.2", "flush before reading the trace", NONE(SOFTWARE)},
    {"1.3", "clearing TraceEn does", RULE(enabling, disable_flush)},
    {"2.1", "it orders the stores", NONE(HARDWARE)},
    {"2.2", "so that a read sees them", RULE(enabling, disable_flush)},
    {"3.1", "the MSRs tell the end", RULE(enabling, disable_flush)},
    {"3.2", "they may be stale before", NONE(PERMITS)},
    {"3.3", "Trace_ToPA_PMI is set by then", RULE(enabling, disable_pmi)},
    {0},
};
static const struct demand warm[] = {
    {"1.1", "a cold reset clears the MSRs", RULE(enabling, reset_cold)},
    {"1.2", "a warm one clears TraceEn and may keep the rest", RULE(enabling, reset_warm)},
    {0},
};
static const struct demand by_hand[] = {
    {"1.1", "RDMSR and WRMSR save and restore", RULE(enabling, switch_by_hand)},
    {"1.2", "clear TraceEn before reading", NONE(SOFTWARE)},
    {"2.1", "read RTIT_CTL", NONE(SOFTWARE)},
    {"3.1", "clear TraceEn", NONE(SOFTWARE)},
    {"4.1", "read the others", NONE(SOFTWARE)},
    {"5.1", "restore RTIT_CTL last", NONE(SOFTWARE)},
    {"6.1", "restore the others", NONE(SOFTWARE)},
    {"7.1", "then RTIT_CTL", NONE(SOFTWARE)},
    {0},
};
static const struct demand xsaves[] = {
    {"1.1", "XSAVES saves, XRSTORS restores", RULE(enabling, switch_xsaves)},
    {"1.1", "also while TraceEn is 0", RULE(enabling, xsaves_off)},
    {"1.1", "what CPUID says of the component", RULE(enabling, xsave_component)},
    {0},
};
static const struct demand cycles[] = {
    {"2.1", "CYCEn enables it", RULE(msrs, cycen)},
    {"2.2", "set TSCEn as well", NONE(SOFTWARE)},
    {"2.3", "a CYC before each eligible packet, with the cycles since the last",
     RULE(cycles, eligible)},
    {"2.4", "one for all packets of a cycle", RULE(cycles, once_a_cycle)},
    {"3.1", "which packets are eligible", RULE(cycles, ineligible)},
    {"4.1", "TSC where time cannot be rebuilt", RULE(generation_time, tsc_causes)},
    {"4.2", "its CYC counts what ran while tracing", RULE(cycles, counter_stops)},
    {"5.1", "stand-alone CYCs before the counter wraps", NONE(PRIVATE)},
    {"5.2", "at no fixed intervals", NONE(PERMITS)},
    {0},
};
static const struct demand counter[] = {
    {"1.1", "it wraps and does not saturate", NONE(PRIVATE)},
    {"2.1", "reset by TriggerEn = 0 and by a CYC", RULE(cycles, counter_reset)},
    {"2.2", "it counts on without ContextEn or FilterEn", RULE(cycles, counter_goes_on)},
    {"2.3", "not in deep sleep", NONE("the owner's clock says how many cycles there were")},
    {0},
};
static const struct demand semantics[] = {
    {"2.1", "what precedes a CYC came before its time", RULE(cycles, eligible)},
    {"3.1", "what follows came at its time or after", RULE(cycles, eligible)},
    {"4.1", "the next eligible packet came at its time", RULE(cycles, eligible)},
    {"5.4", "of a TNT it is the time of the first branch", RULE(cycles, first_branch)},
    {"5.7", "one for an MTC and a TNT of a cycle", RULE(cycles, first_branch)},
    {"6.2", "CYC, TSC behind a stop of the counter", RULE(cycles, counter_stops)},
    {0},
};
static const struct demand multi[] = {
    {"1.2", "a CYC before each eligible packet of an operation", RULE(cycles, several_in_one)},
    {0},
};
static const struct demand thresholds[] = {
    {"2.1", "so many cycles must pass", RULE(cycles, threshold)},
    {"2.2", "0: none need to", RULE(cycles, threshold)},
    {"2.3", "else the next CYC waits for them", RULE(cycles, threshold)},
    {"3.2", "CPUID says which there are", RULE(cpuid, each_cyc_map)},
    {"4.2", "not more often than that", RULE(packets, cyc_4)},
    {"4.3", "and only with an eligible packet", RULE(cycles, threshold)},
    {0},
};
static const struct demand psb[] = {
    {"1.3", "no packets make its bytes", RULE(sync, psb_unique)},
    {"1.6", "operations end before it, compression does not reach across", RULE(sync, psb_between)},
    {"2.1", "PSBEND follows", RULE(sync, psb_between)},
    {"2.2", "the state of the processor stands between", RULE(sync, psb_state)},
    {"2.3", "which is status only", NONE(DECODER)},
    {"2.5", "at the time of the PSB", RULE(sync, psb_state)},
    {"4.1", "TSC with TSCEn", RULE(sync, psb_timing)},
    {"5.1", "TMA with MTCEn as well", RULE(sync, psb_timing)},
    {"6.1", "PIP with ContextEn and OS", RULE(sync, psb_state)},
    {"6.2", "its NR", RULE(vmx, secondary_0)},
    {"7.1", "VMCS, unless VMX is concealed", RULE(vmx, secondary_1)},
    {"8.1", "CBR", RULE(sync, psb_timing)},
    {"9.1", "MODE.TSX with ContextEn and BranchEn", RULE(sync, psb_tsx)},
    {"10.1", "MODE.Exec with PacketEn", RULE(sync, psb_state)},
    {"11.1", "FUP with PacketEn", RULE(sync, psb_state)},
    {"12.1", "only with TriggerEn", RULE(depends, needs_psb)},
    {"12.2", "in any order", NONE(PERMITS)},
    {"12.3", "timing packets between mean what they always do", NONE(PERMITS)},
    {"13.2", "it may be lost where TriggerEn is cleared", NONE(PERMITS)},
    {"13.3", "with preservation PendPSB is set instead", RULE(sync, psb_preserved)},
    {"13.4", "and a PSB comes at enabling", RULE(sync, psb_preserved)},
    {"14.1", "an overflow may take PSBEND", NONE(PERMITS)},
    {"14.2", "OVF ends PSB+", NONE(DECODER)},
    {"14.3", "it may be lost where TriggerEn is cleared", NONE(PERMITS)},
    {"14.4", "the ways in which TriggerEn is cleared", RULE(sync, psb_preserved)},
    {"14.5", "with preservation PendPSB is set", RULE(sync, psb_preserved)},
    {"14.6", "and a PSB comes when the context is restored", RULE(sync, psb_preserved)},
    {0},
};
static const struct demand overflow[] = {
    {"1.2", "no packets until it is resolved", RULE(sync, overflow_ceases)},
    {"1.3", "then they appear again", RULE(sync, overflow_ceases)},
    {"2.1", "OVF; nothing is compressed against what was lost", RULE(sync, overflow_uncompressed)},
    {"2.1", "also where tracing ends in it", RULE(sync, overflow_ended)},
    {"3.1", "FUP with PacketEn and BranchEn", RULE(sync, overflow_ceases)},
    {"3.2", "none without PacketEn; TIP.PGE later", RULE(sync, overflow_out)},
    {"3.3", "its payload is the next instruction", RULE(sync, overflow_ceases)},
    {"3.4", "only timing packets between OVF and FUP", RULE(sync, overflow_ceases)},
    {"3.5", "others between OVF and TIP.PGE", RULE(sync, overflow_out)},
    {0},
};
static const struct demand overflow_enables[] = {
    {"1.1", "ranges are compared, enables may change", RULE(sync, overflow_filter)},
    {"1.2", "TIP.PGE and TIP.PGD are lost", RULE(sync, overflow_filter)},
    {"1.3", "PacketByteCnt does not count", RULE(sync, overflow_count)},
    {"2.1", "TraceStop sets Stopped and ends tracing", RULE(filtering, stop_overflow)},
    {"2.2", "its packets may be dropped", NONE("33.2.5.3 says that it is not; the model tells it")},
    {0},
};
static const struct demand overflow_timing[] = {
    {"1.1", "timing packets are lost", RULE(sync, overflow_timing)},
    {"1.2", "the next MTC shows how many", RULE(sync, overflow_timing)},
    {"1.3", "more than 255 lost MTCs", NONE(DECODER)},
    {"1.5", "no CYC", RULE(cycles, overflow_cyc)},
    {"2.1", "OVF has a CYC", RULE(cycles, overflow_cyc)},
    {"2.2", "which tells how long it was", RULE(cycles, overflow_cyc)},
    {0},
};
static const struct demand distnt[] = {
    {"1.1", "DisTNT leaves out TNTs", RULE(sync, distnt)},
    {"1.4", "results of branches and compressed RETs are not known", RULE(sync, distnt)},
    {"1.5", "use it where they are not needed", NONE(SOFTWARE)},
    {"2.1", "set DisRETC to have RETs", RULE(sync, distnt)},
    {0},
};
static const struct demand errors[] = {
    {"1.1", "problems of the output's configuration", RULE(topa, single_errors)},
    {"1.3", "only while TraceEn is 1", RULE(sync, errors_only_enabled)},
    {"2.1", "tracing is disabled, the error is logged", RULE(topa, error_when_reached)},
    {"2.2", "Error is set, TriggerEn is 0", RULE(topa, error_when_reached)},
    {"2.3", "no packets", RULE(topa, error_when_reached)},
    {"2.4", "bytes may be lost", NONE(PERMITS)},
    {"3.1", "when it is found may not be predictable", NONE(PERMITS)},
    {"3.2", "it is signalled when it is met", RULE(topa, error_when_reached)},
    {"4.1", "clear TraceEn, mend it, clear Error", NONE(SOFTWARE)},
    {"4.2", "then tracing can be enabled", RULE(topa, error_when_reached)},
    {0},
};

const struct section guide_sections[] = {
    {"33.3.1", "Detection", 3, detection},
    {"33.3.1.1", "RIP and LIP", 8, rip_lip},
    {"33.3.1.2", "Model specific restrictions", 6, restrictions},
    {"33.3.2", "Configuration", 2, configuration},
    {"33.3.2.1", "Enabling", 7, enabling},
    {"33.3.2.2", "Disabling", 5, disabling},
    {"33.3.3", "Flushing", 8, flushing},
    {"33.3.4", "Warm reset", 2, warm},
    {"33.3.5.1", "Context switch by hand", 8, by_hand},
    {"33.3.5.2", "Context switch by XSAVES", 3, xsaves},
    {"33.3.6", "Cycle-accurate mode", 9, cycles},
    {"33.3.6.1", "Cycle counter", 4, counter},
    {"33.3.6.2", "Cycle packet semantics", 6, semantics},
    {"33.3.6.2 several packets", "Multi-packet operations", 1, multi},
    {"33.3.6.3", "Cycle thresholds", 6, thresholds},
    {"33.3.7", "PSB+", 27, psb},
    {"33.3.8", "Internal buffer overflow", 9, overflow},
    {"33.3.8.1", "Overflow and enables", 5, overflow_enables},
    {"33.3.8.2", "Overflow and timing packets", 6, overflow_timing},
    {"33.3.9", "TNT disable", 4, distnt},
    {"33.3.10", "Operational errors", 10, errors},
    {0},
};
