/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * First C code of a guest image: takes the boot information apart, sets up memory, interrupts and
 * the APIC, calls guest_main() and ends the machine.
 *
 * Sections: boot information, command line, notes to the host, start.
 */
#include "apic.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "exit.h"
#include "memory.h"
#include "string.h"
#include "trap.h"

/* ---- Boot information (PVH boot protocol, version 1) -------------------------------------- */

#define START_INFO_MAGIC 0x336ec578u
#define MEMORY_RAM       1u

struct start_info {
    uint32_t magic, version, flags, module_count;
    uint64_t modules, command_line, rsdp, memory_map;
    uint32_t memory_map_entries, reserved;
};

struct memory_map_entry {
    uint64_t addr, size_bytes;
    uint32_t type, reserved;
};

static char command_line[1024];

/* The RAM below 4 GiB that is not ours: the largest piece above the image. */
static void find_memory(const struct start_info *info, uint64_t image_end_phys)
{
    const struct memory_map_entry *map = phys_to_virt(info->memory_map);
    uint64_t best_begin = 0, best_end = 0;

    for (uint32_t i = 0; i < info->memory_map_entries; i++) {
        uint64_t begin = map[i].addr, end = map[i].addr + map[i].size_bytes;

        if (map[i].type != MEMORY_RAM)
            continue;
        if (begin < image_end_phys)
            begin = image_end_phys;
        if (end > DIRECT_MAP_BYTES)
            end = DIRECT_MAP_BYTES;
        if (begin < end && end - begin > best_end - best_begin) {
            best_begin = begin;
            best_end = end;
        }
    }
    memory_init(best_begin, best_end);
}

static void read_start_info(uint64_t info_phys, uint64_t image_end_phys)
{
    const struct start_info *info = phys_to_virt(info_phys);
    const char *words;

    if (info->magic != START_INFO_MAGIC || info->version < 1) {
        printf("no boot information at 0x%lx\n", info_phys);
        guest_exit(1);
    }
    if (info->command_line) {
        words = phys_to_virt(info->command_line);
        for (size_t i = 0; i + 1 < sizeof(command_line) && words[i]; i++)
            command_line[i] = words[i];
    }
    find_memory(info, image_end_phys);
}

/* ---- Command line ------------------------------------------------------------------------- */

/* The rest of the first word that begins with prefix; NULL: there is none. */
static const char *find_word(const char *prefix)
{
    size_t len = strlen(prefix);

    for (const char *p = command_line; *p;) {
        while (*p == ' ')
            p++;
        if (strncmp(p, prefix, len) == 0)
            return p + len;
        while (*p && *p != ' ')
            p++;
    }
    return NULL;
}

/* What follows "key=". */
static const char *find_value(const char *key)
{
    const char *rest = find_word(key);

    return rest && *rest == '=' ? rest + 1 : NULL;
}

bool boot_word(const char *word)
{
    const char *rest = find_word(word);

    return rest && (*rest == 0 || *rest == ' ');
}

bool boot_choice(const char *key, const char *text)
{
    const char *value = find_value(key);
    size_t len = strlen(text);

    return value && strncmp(value, text, len) == 0 && (value[len] == 0 || value[len] == ' ');
}

static unsigned digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F')
        return (unsigned)(c - 'A') + 10;
    return 99;
}

bool boot_number(const char *key, uint64_t *value)
{
    const char *p = find_value(key);
    unsigned base = 10;
    uint64_t sum = 0;

    if (!p)
        return false;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
        base = 16;
        p += 2;
    }
    if (digit_value(*p) >= base)
        return false;
    for (; digit_value(*p) < base; p++)
        sum = sum * base + digit_value(*p);
    *value = sum;
    return true;
}

/* ---- Notes to the host -------------------------------------------------------------------- */

#define NOTE_PORT         0x5b0
#define NOTE_PORT_MAGIC   0x30545056u
#define NOTE_TYPE_TRACE   1
#define NOTE_TYPE_PROCESS 2

struct note_trace {
    uint32_t type, size_bytes;
    uint64_t phys, len_bytes;
};

struct note_process {
    uint32_t type, size_bytes;
    uint64_t cr3;
    char name[32], image[32];
};

bool note_port_present(void)
{
    return inl(NOTE_PORT) == NOTE_PORT_MAGIC;
}

void note_trace(uint64_t phys, uint64_t len_bytes)
{
    struct note_trace note = {NOTE_TYPE_TRACE, sizeof(note), phys, len_bytes};

    outl(NOTE_PORT, (uint32_t)virt_to_phys(&note));
}

void note_process(uint64_t cr3, const char *name, const char *image)
{
    struct note_process note = {.type = NOTE_TYPE_PROCESS, .size_bytes = sizeof(note), .cr3 = cr3};

    strcopy(note.name, name, sizeof(note.name));
    strcopy(note.image, image, sizeof(note.image));
    outl(NOTE_PORT, (uint32_t)virt_to_phys(&note));
}

/* ---- Start -------------------------------------------------------------------------------- */

extern char image_end[];

/* Called by start.S. */
_Noreturn void kernel_start(uint64_t start_info_phys);

_Noreturn void kernel_start(uint64_t start_info_phys)
{
    trap_init();
    read_start_info(start_info_phys, virt_to_phys(image_end));
    apic_init();
    guest_exit((uint32_t)guest_main());
}
