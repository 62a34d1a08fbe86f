/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * First C code of a guest image: takes the boot information apart, sets up memory, interrupts and
 * the APIC, calls guest_main() and ends the machine.
 *
 * Sections: boot information of two protocols, command line, notes to the host, start.
 */
#include "apic.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "exit.h"
#include "memory.h"
#include "string.h"
#include "trap.h"

/* ---- Boot information --------------------------------------------------------------------- */

#define MEMORY_RAM 1u /* in both protocols */

static char command_line[1024];

static void keep_command_line(const char *words)
{
    for (size_t i = 0; i + 1 < sizeof(command_line) && words[i]; i++)
        command_line[i] = words[i];
}

/* The RAM below 4 GiB that is not ours: the largest piece above the image. */
static uint64_t image_end_phys, best_begin, best_end;

static void consider_memory(uint64_t begin, uint64_t size_bytes)
{
    uint64_t end = begin + size_bytes;

    if (begin < image_end_phys)
        begin = image_end_phys;
    if (end > DIRECT_MAP_BYTES)
        end = DIRECT_MAP_BYTES;
    if (begin < end && end - begin > best_end - best_begin) {
        best_begin = begin;
        best_end = end;
    }
}

/* ---- PVH boot protocol, version 1 --------------------------------------------------------- */

#define START_INFO_MAGIC 0x336ec578u

struct start_info {
    uint32_t magic, version, flags, module_count;
    uint64_t modules, command_line, rsdp, memory_map;
    uint32_t memory_map_entries, reserved;
};

struct memory_map_entry {
    uint64_t addr, size_bytes;
    uint32_t type, reserved;
};

static void read_start_info(const struct start_info *info)
{
    const struct memory_map_entry *map = phys_to_virt(info->memory_map);

    if (info->command_line)
        keep_command_line(phys_to_virt(info->command_line));
    for (uint32_t i = 0; i < info->memory_map_entries; i++) {
        if (map[i].type == MEMORY_RAM)
            consider_memory(map[i].addr, map[i].size_bytes);
    }
}

/* ---- Multiboot2 --------------------------------------------------------------------------- */

#define MULTIBOOT2_MAGIC 0x36d76289u /* in EAX */
#define TAG_COMMAND_LINE 1u
#define TAG_MEMORY_MAP   6u

struct multiboot_info {
    uint32_t size_bytes, reserved; /* tags follow, each at a multiple of 8 bytes */
};

struct multiboot_tag {
    uint32_t type, size_bytes;
};

struct multiboot_map {
    struct multiboot_tag tag;
    uint32_t entry_bytes, entry_version; /* entries follow: struct memory_map_entry */
};

static void read_multiboot_map(const struct multiboot_map *map)
{
    const uint64_t end = (uint64_t)map + map->tag.size_bytes;

    for (uint64_t at = (uint64_t)(map + 1);
         map->entry_bytes && at + sizeof(struct memory_map_entry) <= end; at += map->entry_bytes) {
        const struct memory_map_entry *entry = (const void *)at;

        if (entry->type == MEMORY_RAM)
            consider_memory(entry->addr, entry->size_bytes);
    }
}

static void read_multiboot_info(const struct multiboot_info *info)
{
    const uint64_t end = (uint64_t)info + info->size_bytes;
    const struct multiboot_tag *tag;

    for (uint64_t at = (uint64_t)(info + 1); at + sizeof(*tag) <= end;
         at += (tag->size_bytes + 7) & ~7ull) {
        tag = (const void *)at;
        if (tag->size_bytes < sizeof(*tag))
            return;
        if (tag->type == TAG_COMMAND_LINE)
            keep_command_line((const char *)(tag + 1));
        else if (tag->type == TAG_MEMORY_MAP)
            read_multiboot_map((const void *)tag);
    }
}

static void read_boot_info(uint64_t info_phys, uint32_t loader)
{
    const struct start_info *info = phys_to_virt(info_phys);

    if (info->magic == START_INFO_MAGIC && info->version >= 1) {
        read_start_info(info);
    } else if (loader == MULTIBOOT2_MAGIC) {
        read_multiboot_info((const void *)info);
    } else {
        printf("no boot information at 0x%lx\n", info_phys);
        guest_exit(1);
    }
    memory_init(best_begin, best_end);
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

/* Called by start.S; `loader` says something only if the boot information is not that of PVH. */
_Noreturn void kernel_start(uint64_t boot_info_phys, uint32_t loader);

_Noreturn void kernel_start(uint64_t boot_info_phys, uint32_t loader)
{
    trap_init();
    image_end_phys = virt_to_phys(image_end);
    read_boot_info(boot_info_phys, loader);
    if (boot_choice("console", "serial"))
        console_on_serial();
    apic_init();
    guest_exit((uint32_t)guest_main());
}
