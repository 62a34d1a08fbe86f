/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs that somebody wrote to keep a decoder busy, of any size. */
#ifndef VMM_SCALING_INPUT_H
#define VMM_SCALING_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that grow; the program ends where there is no memory. Begins as zeros. */
struct input {
    uint8_t *bytes;
    size_t len, room;
};

void put(struct input *input, const void *bytes, size_t len);
/* Little-endian, of so many bytes. */
void put_number(struct input *input, uint64_t number, unsigned bytes);
void put_text(struct input *input, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes folder/name and frees the bytes. */
bool put_file(struct input *input, const char *folder, const char *name);

/* ---- Packets ---- */

void put_psb(struct input *input); /* and PSBEND */
void put_ip(struct input *input, uint8_t opcode, uint64_t ip);
void put_pip(struct input *input, uint64_t cr3, bool nr);
void put_vmcs(struct input *input, uint64_t pointer);
void put_tsc(struct input *input, uint64_t tsc);

/* With all bits of the IP. */
#define OPCODE_TIP 0xcdu
#define OPCODE_PGE 0xd1u
#define OPCODE_PGD 0x01u /* one byte, no IP */
#define OPCODE_FUP 0xddu

/* ---- Records of a perf.data ---- */

#define PERF_EVENT_TYPE 8u /* of Intel PT */

/* A pipe's header, the event of Intel PT, and what a file says of Intel PT. */
void perf_begin(struct input *file);
/*
 * A record: 'w' 16 bits, 'd' 32 bits, 'q' 64 bits, each a uint64_t; 's' a string; 'i' what stands
 * behind each record: a thread and its process, and a time.
 */
void perf_record(struct input *file, uint32_t type, uint16_t misc, const char *fields, ...);
/* An event of Intel PT with this id, whose samples have packets. */
void perf_attr(struct input *file, uint64_t id);
/* A trace of a CPU or of a thread: -1 for the other. */
void perf_trace(struct input *file, uint32_t buffer, int32_t cpu, int32_t tid,
                const struct input *packets);

/* ---- ELF files ---- */

/* With segments of code of one byte each, going downwards; and symbols at one address. */
void put_elf(struct input *file, uint64_t vaddr, const void *code, size_t code_bytes,
             unsigned segments, unsigned symbols);

#endif
