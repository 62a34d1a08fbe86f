/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of VMX TCG implements, as the tcg_features of the feature words. Nothing else is enumerated.
 */
#ifndef I386_VMX_FEATURES_H
#define I386_VMX_FEATURES_H

#if defined(CONFIG_USER_ONLY) || !defined(TARGET_X86_64)
#define TCG_VMX                   0
#define TCG_VMX_BASIC             0
#define TCG_VMX_PIN               0
#define TCG_VMX_PRIMARY           0
#define TCG_VMX_SECONDARY         0
#define TCG_VMX_EXIT              0
#define TCG_VMX_ENTRY             0
#define TCG_VMX_MISC              0
#define TCG_VMX_EPT_VPID          0
#define TCG_VMX_7_0_EDX           0
#define TCG_VMX_ARCH_CAPABILITIES ~0u /* an MSR is nothing to programs */
#else
#define TCG_VMX       CPUID_EXT_VMX
#define TCG_VMX_BASIC (MSR_VMX_BASIC_INS_OUTS | MSR_VMX_BASIC_TRUE_CTLS)
#define TCG_VMX_PIN                                                                                \
    (VMX_PIN_BASED_EXT_INTR_MASK | VMX_PIN_BASED_NMI_EXITING | VMX_PIN_BASED_VIRTUAL_NMIS |        \
     VMX_PIN_BASED_VMX_PREEMPTION_TIMER)
#define TCG_VMX_PRIMARY                                                                            \
    (VMX_CPU_BASED_VIRTUAL_INTR_PENDING | VMX_CPU_BASED_USE_TSC_OFFSETING |                        \
     VMX_CPU_BASED_HLT_EXITING | VMX_CPU_BASED_INVLPG_EXITING | VMX_CPU_BASED_MWAIT_EXITING |      \
     VMX_CPU_BASED_RDPMC_EXITING | VMX_CPU_BASED_RDTSC_EXITING | VMX_CPU_BASED_CR3_LOAD_EXITING |  \
     VMX_CPU_BASED_CR3_STORE_EXITING | VMX_CPU_BASED_CR8_LOAD_EXITING |                            \
     VMX_CPU_BASED_CR8_STORE_EXITING | VMX_CPU_BASED_VIRTUAL_NMI_PENDING |                         \
     VMX_CPU_BASED_MOV_DR_EXITING | VMX_CPU_BASED_UNCOND_IO_EXITING |                              \
     VMX_CPU_BASED_USE_IO_BITMAPS | VMX_CPU_BASED_USE_MSR_BITMAPS |                                \
     VMX_CPU_BASED_MONITOR_EXITING | VMX_CPU_BASED_PAUSE_EXITING |                                 \
     VMX_CPU_BASED_MONITOR_TRAP_FLAG | VMX_CPU_BASED_ACTIVATE_SECONDARY_CONTROLS)
#define TCG_VMX_SECONDARY                                                                          \
    (VMX_SECONDARY_EXEC_ENABLE_EPT | VMX_SECONDARY_EXEC_DESC | VMX_SECONDARY_EXEC_RDTSCP |         \
     VMX_SECONDARY_EXEC_ENABLE_VPID | VMX_SECONDARY_EXEC_WBINVD_EXITING |                          \
     VMX_SECONDARY_EXEC_UNRESTRICTED_GUEST | VMX_SECONDARY_EXEC_TSC_SCALING |                      \
     VMX_SECONDARY_EXEC_RDRAND_EXITING)
#define TCG_VMX_EXIT                                                                               \
    (VMX_VM_EXIT_SAVE_DEBUG_CONTROLS | VMX_VM_EXIT_HOST_ADDR_SPACE_SIZE |                          \
     VMX_VM_EXIT_ACK_INTR_ON_EXIT | VMX_VM_EXIT_SAVE_IA32_PAT | VMX_VM_EXIT_LOAD_IA32_PAT |        \
     VMX_VM_EXIT_SAVE_IA32_EFER | VMX_VM_EXIT_LOAD_IA32_EFER |                                     \
     VMX_VM_EXIT_SAVE_VMX_PREEMPTION_TIMER)
#define TCG_VMX_ENTRY                                                                              \
    (VMX_VM_ENTRY_LOAD_DEBUG_CONTROLS | VMX_VM_ENTRY_IA32E_MODE | VMX_VM_ENTRY_LOAD_IA32_PAT |     \
     VMX_VM_ENTRY_LOAD_IA32_EFER)
#define TCG_VMX_MISC                                                                               \
    (MSR_VMX_MISC_STORE_LMA | MSR_VMX_MISC_ACTIVITY_HLT | MSR_VMX_MISC_VMWRITE_VMEXIT |            \
     MSR_VMX_MISC_ZERO_LEN_INJECT)
#define TCG_VMX_EPT_VPID                                                                           \
    (MSR_VMX_EPT_EXECONLY | MSR_VMX_EPT_PAGE_WALK_LENGTH_4 | MSR_VMX_EPT_UC | MSR_VMX_EPT_WB |     \
     MSR_VMX_EPT_2MB | MSR_VMX_EPT_1GB | MSR_VMX_EPT_INVEPT | MSR_VMX_EPT_AD_BITS |                \
     MSR_VMX_EPT_INVEPT_SINGLE_CONTEXT | MSR_VMX_EPT_INVEPT_ALL_CONTEXT | MSR_VMX_EPT_INVVPID |    \
     MSR_VMX_EPT_INVVPID_SINGLE_ADDR | MSR_VMX_EPT_INVVPID_SINGLE_CONTEXT |                        \
     MSR_VMX_EPT_INVVPID_ALL_CONTEXT | MSR_VMX_EPT_INVVPID_SINGLE_CONTEXT_NOGLOBALS)
#define TCG_VMX_7_0_EDX CPUID_7_0_EDX_ARCH_CAPABILITIES
/*
 * The processor that TCG emulates reads nothing ahead of what a program does, and has no caches.
 * A hypervisor that is not told so guards against what processors of Intel do: it flushes the L1
 * cache and clears buffers at VM entries, has page tables of its own for user mode, and gives its
 * guests no large pages to execute from.
 */
#define TCG_VMX_ARCH_CAPABILITIES                                                                  \
    (MSR_ARCH_CAP_RDCL_NO | MSR_ARCH_CAP_SKIP_L1DFL_VMENTRY | MSR_ARCH_CAP_SSB_NO |                \
     MSR_ARCH_CAP_MDS_NO | MSR_ARCH_CAP_PSCHANGE_MC_NO | MSR_ARCH_CAP_TAA_NO)
#endif

#endif
