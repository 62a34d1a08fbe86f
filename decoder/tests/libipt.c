/* SPDX-License-Identifier: BSD-3-Clause */
/* Drives libipt's instruction decoder over a trace. */
#include <fcntl.h>
#include <gelf.h>
#include <intel-pt.h>
#include <stdlib.h>
#include <unistd.h>

#include "libipt.h"

#define CACHE_BYTES (256u << 20) /* libipt crawls over large images without one */

struct witness {
    struct pt_insn_decoder *decoder;
    struct pt_image_section_cache *cache;
    int status; /* of the decoder: pending events, or an error */
    bool synchronised;
};

struct witness *witness_new(uint8_t *bytes, size_t len_bytes, const struct witness_cpu *cpu,
                            const uint32_t ctc[2], uint8_t mtc_freq, uint8_t max_nonturbo_ratio)
{
    struct witness *const witness = calloc(1, sizeof(*witness));
    struct pt_config config;

    if (!witness)
        return NULL;
    pt_config_init(&config);
    config.begin = bytes;
    config.end = bytes + len_bytes;
    config.cpu.vendor = pcv_intel;
    config.cpu.family = (uint16_t)cpu->family;
    config.cpu.model = (uint8_t)cpu->model;
    config.cpu.stepping = (uint8_t)cpu->stepping;
    config.cpuid_0x15_eax = ctc[0];
    config.cpuid_0x15_ebx = ctc[1];
    config.mtc_freq = mtc_freq;
    config.nom_freq = max_nonturbo_ratio;
    (void)pt_cpu_errata(&config.errata, &config.cpu); /* an unknown CPU has none */
    witness->cache = pt_iscache_alloc(NULL);
    witness->decoder = pt_insn_alloc_decoder(&config);
    if (!witness->cache || !witness->decoder ||
        pt_iscache_set_limit(witness->cache, CACHE_BYTES) < 0) {
        witness_free(witness);
        return NULL;
    }
    return witness;
}

void witness_free(struct witness *witness)
{
    if (!witness)
        return;
    pt_insn_free_decoder(witness->decoder);
    pt_iscache_free(witness->cache);
    free(witness);
}

int witness_add_file(struct witness *witness, const char *path, uint64_t offset, uint64_t size,
                     uint64_t vaddr, uint64_t cr3)
{
    struct pt_asid asid;
    const int section = pt_iscache_add_file(witness->cache, path, offset, size, vaddr);

    if (section < 0)
        return section;
    pt_asid_init(&asid);
    asid.cr3 = cr3; /* pt_asid_no_cr3 is all ones too */
    return pt_image_add_cached(pt_insn_get_image(witness->decoder), witness->cache, section, &asid);
}

int witness_add_elf(struct witness *witness, const char *path, uint64_t bias, uint64_t cr3)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t count = 0;
    int status = -1;

    if (fd < 0)
        return -1;
    (void)elf_version(EV_CURRENT);

    Elf *const elf = elf_begin(fd, ELF_C_READ, NULL);

    if (elf && elf_getphdrnum(elf, &count) == 0)
        status = 0;
    for (size_t i = 0; i < count && status >= 0; i++) {
        GElf_Phdr header;

        if (!gelf_getphdr(elf, (int)i, &header))
            status = -1;
        else if (header.p_type == PT_LOAD && header.p_filesz > 0)
            status = witness_add_file(witness, path, header.p_offset, header.p_filesz,
                                      header.p_vaddr + bias, cr3);
    }
    elf_end(elf);
    close(fd);
    return status;
}

static int fail(struct witness *witness, uint64_t *offset)
{
    const int error = witness->status;

    *offset = 0;
    (void)pt_insn_get_offset(witness->decoder, offset);
    witness->synchronised = false;
    return error;
}

int witness_next(struct witness *witness, uint64_t *ip, uint64_t *cr3, uint64_t *offset)
{
    struct pt_event event;
    struct pt_insn insn;
    struct pt_asid asid;

    if (!witness->synchronised) {
        witness->status = pt_insn_sync_forward(witness->decoder);
        if (witness->status == -pte_eos)
            return 0;
        if (witness->status < 0)
            return fail(witness, offset);
        witness->synchronised = true;
    }
    while (witness->status & pts_event_pending) {
        witness->status = pt_insn_event(witness->decoder, &event, sizeof(event));
        if (witness->status < 0)
            return witness->status == -pte_eos ? 0 : fail(witness, offset);
    }
    pt_asid_init(&asid);
    (void)pt_insn_asid(witness->decoder, &asid, sizeof(asid));
    insn.iclass = ptic_error;
    insn.ip = 0;
    witness->status = pt_insn_next(witness->decoder, &insn, sizeof(insn));
    if (witness->status == -pte_eos && insn.iclass == ptic_error)
        return 0;
    if (witness->status < 0 && insn.iclass == ptic_error)
        return fail(witness, offset);
    *ip = insn.ip;
    *cr3 = asid.cr3;
    return 1;
}

const char *witness_strerror(int error)
{
    return pt_errstr(pt_errcode(error));
}
