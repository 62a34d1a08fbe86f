/* SPDX-License-Identifier: BSD-3-Clause */
#include "input.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put(struct input *input, const void *bytes, size_t len)
{
    if (len > input->room - input->len) {
        input->room = 2 * input->room + len;
        input->bytes = realloc(input->bytes, input->room);
        if (!input->bytes)
            abort();
    }
    if (len)
        memcpy(input->bytes + input->len, bytes, len);
    input->len += len;
}

void put_number(struct input *input, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        put(input, &(uint8_t){(uint8_t)(number >> 8 * i)}, 1);
}

void put_text(struct input *input, const char *format, ...)
{
    char text[512];
    va_list arguments;
    int len;

    va_start(arguments, format);
    len = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    put(input, text, (size_t)len);
}

bool put_file(struct input *input, const char *folder, const char *name)
{
    char path[512];
    FILE *file;
    bool ok;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    ok = file && fwrite(input->bytes, 1, input->len, file) == input->len;
    if (file && fclose(file) != 0)
        ok = false;
    free(input->bytes);
    *input = (struct input){0};
    return ok;
}

/* ---- Packets ---- */

void put_psb(struct input *input)
{
    put(input, "\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x23", 18);
}

void put_ip(struct input *input, uint8_t opcode, uint64_t ip)
{
    put_number(input, opcode, 1);
    put_number(input, ip, 8);
}

void put_pip(struct input *input, uint64_t cr3, bool nr)
{
    put(input, "\2\x43", 2);
    put_number(input, cr3 >> 5 << 1 | nr, 6);
}

void put_vmcs(struct input *input, uint64_t pointer)
{
    put(input, "\2\xc8", 2);
    put_number(input, pointer >> 12, 5);
}

void put_tsc(struct input *input, uint64_t tsc)
{
    put_number(input, 0x19, 1);
    put_number(input, tsc, 7);
}

/* ---- perf.data ---- */

#define SAMPLE_TYPE ((uint64_t)(2 | 4 | 128 | 1 << 16)) /* TID, TIME, CPU, IDENTIFIER */
#define SAMPLE_AUX  (UINT64_C(1) << 20)
#define ID_ALL      (UINT64_C(1) << 18)

static void put_string(struct input *file, const char *text)
{
    const size_t len = strlen(text);

    put(file, text, len);
    put(file, "\0\0\0\0\0\0\0", 8 - len % 8);
}

static void put_who(struct input *file, uint64_t tid, uint64_t time)
{
    put_number(file, tid, 4);
    put_number(file, tid, 4);
    put_number(file, time, 8);
    put_number(file, 1, 8); /* CPU */
    put_number(file, 5, 8); /* id */
}

void perf_record(struct input *file, uint32_t type, uint16_t misc, const char *fields, ...)
{
    const size_t at = file->len;
    va_list arguments;

    put_number(file, type, 4);
    put_number(file, misc, 2);
    put_number(file, 0, 2);
    va_start(arguments, fields);
    for (; *fields; fields++) {
        if (*fields == 's') {
            put_string(file, va_arg(arguments, const char *));
        } else {
            const uint64_t number = va_arg(arguments, uint64_t);

            if (*fields == 'i')
                put_who(file, number, va_arg(arguments, uint64_t));
            else
                put_number(file, number, *fields == 'w' ? 2 : *fields == 'd' ? 4 : 8);
        }
    }
    va_end(arguments);
    file->bytes[at + 6] = (uint8_t)(file->len - at);
    file->bytes[at + 7] = (uint8_t)((file->len - at) >> 8);
}

#define N(number) ((uint64_t)(number))

void perf_attr(struct input *file, uint64_t id)
{
    perf_record(file, 64, 0, "ddqqqqqqqqq", N(PERF_EVENT_TYPE), N(72), N(0x400), N(1),
                SAMPLE_TYPE | SAMPLE_AUX, N(0), ID_ALL, N(0), N(0), N(0), id);
}

void perf_begin(struct input *file)
{
    put(file, "PERFILE2\x10\0\0\0\0\0\0\0", 16);
    perf_attr(file, 5);
    perf_record(file, 70, 0, "ddqqqqqq", N(1), N(0), N(PERF_EVENT_TYPE), N(0), N(1), N(0), N(1),
                N(0x400));
}

void perf_trace(struct input *file, uint32_t buffer, int32_t cpu, int32_t tid,
                const struct input *packets)
{
    perf_record(file, 71, 0, "qqqdddd", N(packets->len), N(0), N(1), N(buffer), N((uint32_t)tid),
                N((uint32_t)cpu), N(0));
    put(file, packets->bytes, packets->len);
}

/* ---- ELF files ---- */

#define NAME_BYTES 12u

static void put_sections(struct input *file, unsigned symbols, size_t at)
{
    const size_t symbols_bytes = symbols * sizeof(Elf64_Sym);
    const Elf64_Shdr sections[] = {
        {0},
        {.sh_type = SHT_SYMTAB,
         .sh_link = 2,
         .sh_offset = at,
         .sh_size = symbols_bytes,
         .sh_entsize = sizeof(Elf64_Sym)},
        {.sh_type = SHT_STRTAB, .sh_offset = at + symbols_bytes, .sh_size = symbols * NAME_BYTES},
    };

    put(file, sections, sizeof(sections));
}

void put_elf(struct input *file, uint64_t vaddr, const void *code, size_t code_bytes,
             unsigned segments, unsigned symbols)
{
    const size_t headers = sizeof(Elf64_Ehdr) + segments * sizeof(Elf64_Phdr);
    const Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(header),
        .e_phoff = sizeof(header),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = (uint16_t)segments,
        .e_shoff = headers,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = 3,
    };
    const size_t behind = headers + 3 * sizeof(Elf64_Shdr);
    const size_t tables = symbols * (sizeof(Elf64_Sym) + NAME_BYTES);

    put(file, &header, sizeof(header));
    for (unsigned i = 0; i < segments; i++)
        put(file,
            &(Elf64_Phdr){.p_type = PT_LOAD,
                          .p_flags = PF_R | PF_X,
                          .p_offset = behind + tables,
                          .p_vaddr = vaddr + (uint64_t)(segments - 1 - i) * 0x1000,
                          .p_filesz = code_bytes,
                          .p_memsz = code_bytes},
            sizeof(Elf64_Phdr));
    put_sections(file, symbols, behind);
    for (unsigned i = 0; i < symbols; i++)
        put(file,
            &(Elf64_Sym){.st_name = i * NAME_BYTES,
                         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                         .st_shndx = 1,
                         .st_value = vaddr},
            sizeof(Elf64_Sym));
    for (unsigned i = symbols; i-- > 0;) { /* each is a better name than the one before */
        char name[NAME_BYTES + 1];

        (void)snprintf(name, sizeof(name), "f%010u", i);
        put(file, name, NAME_BYTES);
    }
    put(file, code, code_bytes);
}
