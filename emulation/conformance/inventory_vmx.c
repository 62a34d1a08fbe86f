/* SPDX-License-Identifier: BSD-3-Clause */
/* The inventory of 33.5 to 33.8: VMX operation, SMM monitors, scenarios, software considerations.
 */
#include "inventory.h"

static const struct demand vmx[] = {
    {"1.1", "TraceEn can be 1 in VMX operation", RULE(vmx_operation, traceen_in_vmx)},
    {"1.2", "controls decide what is in the packets", RULE(vmx_operation, concealed)},
    {"1.3", "non-root operation only, or both", RULE(vmx_use, by_controls)},
    {"1.4", "the controls of RTIT_CTL and of addresses", RULE(vmx_operation, guest_addresses_need)},
    {"1.4", "EPT translates the addresses of output", RULE(ept, found_ahead)},
    {"1.4", "and nothing of the trace is lost by it", RULE(ept, nothing_lost)},
    {"1.4", "a trace that cannot begin begins later", RULE(ept, begins_again)},
    {"2.1", "MSR-load areas on older processors", RULE(vmx_use, by_areas)},
    {0},
};
static const struct demand packets[] = {
    {"2.1", "VMCS packets tell guests apart", RULE(vmx_use, psb_names_vmcs)},
    {"2.2", "VMPTRLD sends one with its pointer", RULE(generation_time, vmcs_pointer)},
    {"3.1", "NR in every PIP of non-root operation", RULE(vmx_operation, each_pip_nr)},
    {"3.2", "a PIP with each VM entry and VM exit", RULE(vmx_operation, transitions_flip_nr)},
    {"3.3", "NR becomes 1: VM entry; 0: VM exit", RULE(vmx_operation, transitions_flip_nr)},
    {"4.1", "CFE names VM exit and VM entry", RULE(vmx_use, smm_events)},
    {"5.1", "EVD has reason and qualification", RULE(vmx_operation, events_tell)},
    {"6.1", "controls conceal VMX", RULE(vmx_operation, concealed)},
    {"6.2", "one of each type of control", RULE(vmx, secondary_1)},
    {"7.1", "0-settings: everything is shown", RULE(vmx_operation, zero_settings)},
    {"7.2", "without MSR-load areas", RULE(vmx_operation, zero_settings)},
    {"8.1", "VMX_MISC[14] = 0: no 1-settings, VM entry fails", RULE(vmx_operation, unsupported)},
    {0},
};
static const struct demand managing[] = {
    {"1.1", "host and guests: the host manages the MSRs", NONE(SOFTWARE)},
    {"1.2", "transitions leave them alone", RULE(vmx_use, msrs_stay)},
    {"2.1", "one of both: TraceEn is toggled", RULE(vmx_use, root_only)},
    {"2.1", "which the VMM arranges", RULE(vmx_use, host_only_plan)},
    {0},
};
static const struct demand system_wide[] = {
    {"1.1", "the controls may stay 0", RULE(vmx_use, host_wide_plan)},
    {"2.1", "packets of transitions", RULE(vmx, exit_events)},
    {"3.1", "a VMCS packet in all PSB+", RULE(vmx_use, psb_names_vmcs)},
    {"3.2", "and by VMPTRLD", RULE(generation_time, vmcs_pointer)},
    {"4.1", "guests see no Intel PT in CPUID", RULE(vmx_use, hidden)},
    {"5.1", "TSC packets have the guest's offset and scale",
     RULE(vmx_use, tsc_as_the_guest_sees_it)},
    {"5.2", "account for that", NONE(DECODER)},
    {"5.3", "the VMM can say by how much", NONE(SOFTWARE)},
    {0},
};
static const struct demand guest_only[] = {
    {"1.1", "tracing of guests only", RULE(vmx_use, by_controls)},
    {"1.2", "by the VMCS controls", RULE(vmx_use, by_controls)},
    {"1.3", "or by MSR-load areas", RULE(vmx_use, by_areas)},
    {"2.1", "VM entry sets TraceEn", RULE(scenarios, pkt_12)},
    {"2.1", "VM exit clears it", RULE(scenarios, pkt_11)},
    {"2.2", "no sign of non-root operation if all conceal", RULE(vmx_use, no_trace_of_vmx)},
    {"2.2", "which the VMM chooses", RULE(vmx_use, guest_only_plan)},
    {0},
};
static const struct demand emulation[] = {
    {"1.1", "insert or modify packets for emulated state", RULE(vmx_use, missing_pip)},
    {"2.1", "a CR3 write that exits sends no PIP", RULE(vmx_use, missing_pip)},
    {"3.1", "write that PIP into the guest's output", RULE(vmx_use, missing_pip)},
    {"3.1", "but only one that the guest would have had", RULE(vmx_use, no_missing_pip)},
    {"3.2", "CR3_MATCH follows a CR3 that is another", RULE(vmx_use, cr3_match_follows)},
    {"4.1", "TSC packets differ from an emulated TSC", RULE(vmx_use, guest_tsc)},
    {"4.2", "modify them", RULE(vmx_use, tsc_packets_modified)},
    {"4.2", "wherever they stand", RULE(vmx_use, tsc_behind_each)},
    {"4.2", "or use offset and scale instead", NONE(SOFTWARE)},
    {0},
};
static const struct demand scaling[] = {
    {"1.1", "PLATFORM_INFO[15:8] fits the scaled TSC", RULE(vmx_use, ratios_follow)},
    {"1.1", "so does CPUID.15H", RULE(vmx_use, ratios_follow)},
    {"1.2", "then TSC, MTC and CBR fit together", RULE(vmx_use, ratios_fit_packets)},
    {"1.3", "time is lost without it", NONE(DECODER)},
    {0},
};
static const struct demand failed_entry[] = {
    {"1.1", "packets by configuration and kind of failure", RULE(vmx, vmm_late)},
    {"1.2", "which are in a table", RULE(vmx, system_late)},
    {"1.3", "some of which may be left out", NONE(PERMITS)},
    {0},
};
static const struct demand vmx_aborts[] = {
    {"1.1", "the processor shuts down", RULE(vmx_use, abort_packets)},
    {"1.2", "FUP and PIP may come, a TIP may not", RULE(vmx_use, abort_packets)},
    {0},
};
static const struct demand stm[] = {
    {"1.4", "VM entries that return, to a guest or to root operation", RULE(vmx_use, smm_vmcall)},
    {"2.1", "traced as other VMX operation", RULE(vmx_use, smm_pointer)},
    {"2.2", "SMI neither saves nor clears TraceEn", RULE(vmx_use, smm_keeps_traceen)},
    {"2.3", "MSR lists can", RULE(vmx_use, smm_lists)},
    {"3.1", "exits: SMI and VM exit in Event Trace", RULE(vmx_use, smm_events)},
    {"3.2", "returns: RSM and VM entry", RULE(vmx_use, smm_events)},
    {"3.3", "VMCALL: no CFE for the exit", RULE(vmx_use, smm_vmcall)},
    {"3.3", "and CFE.RSM for the return", RULE(vmx_use, smm_vmcall)},
    {0},
};
static const struct demand scenarios[] = {
    {"6.1", "operations while PacketEn is 1", RULE(scenarios, case_2)},
    {"7.1", "operations that change PacketEn", RULE(scenarios, pkt_2)},
    {"7.2", "a PSB+ may come with enabling besides", RULE(scenarios, pkt_12)},
    {"8.1", "sleep and wake with PwrEvtEn", RULE(power, case_4)},
    {"9.1", "PTWRITE with PTWEn", RULE(power, ptw_3)},
    {"10.1", "events with EventEn", RULE(events, case_3)},
    {"10.2", "other sources may add packets", RULE(events, case_4)},
    {0},
};
static const struct demand smm_code[] = {
    {"1.1", "an SMM handler may trace itself", RULE(time, handler_traces)},
    {"1.2", "SMI clears TraceEn, the handler sets it", RULE(time, handler_traces)},
    {"2.1", "save what is changed", NONE(SOFTWARE)},
    {"2.2", "so that it can be restored", RULE(time, configuration_restored)},
    {"3.1", "wait until the CS base is 0", NONE(SOFTWARE)},
    {"4.1", "no output to SMRR, in SMM neither", RULE(time, smrr_refuses)},
    {"5.1", "restore before RSM", RULE(time, configuration_restored)},
    {"5.2", "clear TraceEn first", RULE(time, configuration_restored)},
    {"6.1", "TraceEn must be 0 at RSM", RULE(time, rsm_needs_traceen_0)},
    {"6.2", "the packets of a traced RSM are undefined", NONE(PERMITS)},
    {"7.1", "LBR and BTS stop where RSM sets TraceEn", NONE("a model of Intel PT has no LBRs")},
    {0},
};
static const struct demand agents[] = {
    {"2.1", "principles for agents", NONE(SOFTWARE)},
    {"3.1", "respect an agent that traces", NONE(SOFTWARE)},
    {"4.1", "give the MSRs up by clearing the enables", NONE(SOFTWARE)},
    {0},
};
static const struct demand tracking[] = {
    {"3.1", "the TSC runs at the maximum non-turbo frequency", NONE(OWNER)},
    {"3.2", "which is fixed", NONE(OWNER)},
    {"3.3", "its packet has the lower 7 bytes", RULE(time, tsc_bytes)},
    {"3.4", "and is rare", RULE(time, tsc_after_a_pause)},
    {"3.5", "it goes on in deep C-states", NONE(OWNER)},
    {"5.1", "P by CPUID.15H", RULE(time, leaf_15)},
    {"5.1", "which may be without it", RULE(time, no_ratio)},
    {"5.2", "the crystal is slower than the TSC", RULE(time, leaf_15)},
    {"5.3", "MTC at multiples of the crystal's clock", RULE(generation_time, mtc_period)},
    {"5.4", "more often than TSC", RULE(time, tsc_after_a_pause)},
    {"7.1", "the core clock varies", NONE(OWNER)},
    {"7.2", "CYC counts it from the last CYC", RULE(time, cyc_adds_up)},
    {"8.1", "any of them may be used", NONE(DECODER)},
    {0},
};
static const struct demand relationships[] = {
    {"2.1", "TSC from crystal, cycles and offset", RULE(time, formula)},
    {"3.1", "the ART is the coarse part", RULE(time, formula)},
    {"3.2", "P by CPUID.15H", RULE(time, leaf_15)},
    {"4.1", "the fine part counts from the crystal's edge", RULE(time, formula)},
    {"4.2", "in TSC ticks", RULE(time, formula)},
    {"4.3", "adjusted by the ratio of the clocks", NONE(OWNER)},
    {"5.1", "software's offset is in the TSC", RULE(time, only_tsc_is_adjusted)},
    {0},
};
static const struct demand estimating[] = {
    {"1.1", "estimates for all points of a trace", NONE(DECODER)},
    {"2.1", "a TSC packet is exact when it is made", RULE(generation_time, tsc_causes)},
    {"2.2", "enable CYC or MTC for more", NONE(SOFTWARE)},
    {"3.1", "MTC updates the crystal's count", RULE(time, tma_aligns)},
    {"3.2", "with fixed frequencies", RULE(time, leaf_15)},
    {"3.3", "the difference of two MTCs", RULE(time, tma_aligns)},
    {"5.1", "TMA leads from a TSC to the next MTC", RULE(time, tma_aligns)},
    {"5.2", "CTC and FastCounter", RULE(generation_time, tma_follows)},
    {"6.1", "CTC of the MTC less that of the TMA", RULE(time, tma_aligns)},
    {"8.1", "FastCounter: what of the tick had passed", RULE(time, tma_aligns)},
    {"9.1", "CYC between other timing packets", RULE(time, cyc_adds_up)},
    {"10.1", "before each packet that is eligible, since the last", RULE(time, cyc_precedes)},
    {"10.2", "they add up", RULE(time, cyc_adds_up)},
    {"10.3", "adjust by the frequency", NONE(DECODER)},
    {"10.4", "for which CBR has the ratio", RULE(depends, needs_cbr)},
    {"11.1", "TSC alone when other packets had ceased", RULE(time, tsc_after_a_pause)},
    {"11.2", "re-enabling and wake", RULE(time, tsc_after_a_pause)},
    {"11.3", "correct the estimate then", NONE(DECODER)},
    {"13.1", "CYC without MTC", NONE(DECODER)},
    {0},
};
static const struct demand manipulation[] = {
    {"1.1", "offset and scale in non-root operation", NONE(OWNER)},
    {"2.1", "are in TSC packets", RULE(time, only_tsc_is_adjusted)},
    {"2.1", "MTC, CYC and CBR do not change", RULE(time, only_tsc_is_adjusted)},
    {"2.2", "account for the factor", RULE(vmx_use, ratios_fit_packets)},
    {0},
};
static const struct demand frequency[] = {
    {"1.1", "the core's frequency can be measured", NONE(DECODER)},
    {"1.2", "TSC or MTC for wall-clock time", NONE(DECODER)},
    {"1.3", "CYC between two of them", NONE(DECODER)},
    {0},
};

const struct section vmx_sections[] = {
    {"33.5", "Tracing in VMX operation", 8, vmx},
    {"33.5.1", "VMX-specific packets and controls", 12, packets},
    {"33.5.2", "Managing packet generation across transitions", 4, managing},
    {"33.5.2.1", "System-wide tracing", 8, system_wide},
    {"33.5.2.2", "Guest-only tracing", 7, guest_only},
    {"33.5.2.3", "Emulation of traced state", 9, emulation},
    {"33.5.2.4", "TSC scaling", 4, scaling},
    {"33.5.2.5", "Failed VM entry", 3, failed_entry},
    {"33.5.2.6", "VMX abort", 2, vmx_aborts},
    {"33.6", "SMM transfer monitor", 8, stm},
    {"33.7", "Packet generation scenarios", 7, scenarios},
    {"33.8.1", "Tracing SMM code", 11, smm_code},
    {"33.8.2", "Several agents", 3, agents},
    {"33.8.3", "Tracking time", 13, tracking},
    {"33.8.3.1", "Time domain relationships", 7, relationships},
    {"33.8.3.2", "Estimating TSC", 19, estimating},
    {"33.8.3.3", "VMX TSC manipulation", 4, manipulation},
    {"33.8.3.4", "Calculating frequency", 3, frequency},
    {0},
};
