/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single instructions of the processor: CPUID, MSRs, TSC, control registers, descriptor tables,
 * ports, interrupt flag.
 */
#ifndef GUEST_CPU_H
#define GUEST_CPU_H

#include <stdbool.h>
#include <stdint.h>

struct cpuid {
    uint32_t eax, ebx, ecx, edx;
};

static inline struct cpuid cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct cpuid r;

    __asm__ volatile("cpuid"
                     : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
                     : "a"(leaf), "c"(subleaf));
    return r;
}

/* All zeroes if the processor has no such leaf: beyond the maximum, it answers for another one. */
static inline struct cpuid cpuid_checked(uint32_t leaf, uint32_t subleaf)
{
    if (leaf > cpuid(leaf & 0x80000000u, 0).eax)
        return (struct cpuid){0};
    return cpuid(leaf, subleaf);
}

static inline uint64_t rdmsr(uint32_t msr)
{
    uint32_t low, high;

    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
    return (uint64_t)high << 32 | low;
}

static inline void wrmsr(uint32_t msr, uint64_t value)
{
    __asm__ volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value), "d"(value >> 32) : "memory");
}

#define GP_VECTOR 13u

/* The vector of the exception that the access raised (and *value is untouched); 0: none. */
unsigned rdmsr_safe(uint32_t msr, uint64_t *value);
unsigned wrmsr_safe(uint32_t msr, uint64_t value);

static inline uint64_t read_tsc(void)
{
    uint32_t low, high;

    __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

static inline uint64_t read_cr0(void)
{
    uint64_t value;

    __asm__ volatile("mov %%cr0, %0" : "=r"(value));
    return value;
}

static inline uint64_t read_cr2(void)
{
    uint64_t value;

    __asm__ volatile("mov %%cr2, %0" : "=r"(value));
    return value;
}

static inline uint64_t read_cr3(void)
{
    uint64_t value;

    __asm__ volatile("mov %%cr3, %0" : "=r"(value));
    return value;
}

static inline void write_cr3(uint64_t value)
{
    __asm__ volatile("mov %0, %%cr3" : : "r"(value) : "memory");
}

static inline uint64_t read_cr4(void)
{
    uint64_t value;

    __asm__ volatile("mov %%cr4, %0" : "=r"(value));
    return value;
}

/* What LGDT and LIDT load. */
struct __attribute__((packed)) table_pointer {
    uint16_t limit;
    uint64_t base;
};

static inline struct table_pointer read_gdtr(void)
{
    struct table_pointer gdtr;

    __asm__ volatile("sgdt %0" : "=m"(gdtr));
    return gdtr;
}

static inline struct table_pointer read_idtr(void)
{
    struct table_pointer idtr;

    __asm__ volatile("sidt %0" : "=m"(idtr));
    return idtr;
}

static inline void outb(uint16_t port, uint8_t value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint8_t inb(uint16_t port)
{
    uint8_t value;

    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port) : "memory");
    return value;
}

static inline void outl(uint16_t port, uint32_t value)
{
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline uint32_t inl(uint16_t port)
{
    uint32_t value;

    __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

static inline void interrupts_on(void)
{
    __asm__ volatile("sti" : : : "memory");
}

static inline void interrupts_off(void)
{
    __asm__ volatile("cli" : : : "memory");
}

/* What an access to a device or to trace output needs: no reordering by the compiler. */
static inline void barrier(void)
{
    __asm__ volatile("" : : : "memory");
}

#endif
