/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debug files. Whoever made an ELF file chose its build id and the name of its debug file: what is
 * opened by them has to be an ELF file with the same build id, or with the check sum.
 */
#include "symbols/debug-file.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_BYTES_MAX (NAME_MAX + 16u)
#define SUMMED_MAX     (UINT64_C(1) << 30) /* bytes of a file whose check sum is computed */

/* What a file says of its debug file. */
struct wanted {
    struct elf_id id;
    char link[NAME_MAX + 1]; /* "": it has no such section */
    uint32_t sum;
};

struct file_name debug_name_of(const struct debug_name *name)
{
    return (struct file_name){.root = name->has_root ? name->root : NULL, .path = name->path};
}

/* ---- What is wanted ---- */

static bool is_file_name(const char *name)
{
    return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The contents: a name, zeros up to a multiple of four bytes, the sum. */
static void read_link(const Elf_Data *data, bool is_little, struct wanted *wanted)
{
    const char *const text = data ? data->d_buf : NULL;
    const uint8_t *sum;
    size_t len, at;

    if (!text || !is_little)
        return;
    len = strnlen(text, data->d_size);
    at = (len + 4) & ~(size_t)3;
    if (len > NAME_MAX || at + 4 > data->d_size)
        return;
    sum = (const uint8_t *)text + at;
    memcpy(wanted->link, text, len + 1);
    if (!is_file_name(wanted->link))
        wanted->link[0] = 0;
    wanted->sum =
        (uint32_t)sum[0] | (uint32_t)sum[1] << 8 | (uint32_t)sum[2] << 16 | (uint32_t)sum[3] << 24;
}

static bool is_little_endian(Elf *elf)
{
    const char *const ident = elf_getident(elf, NULL);

    return ident && ident[EI_DATA] == ELFDATA2LSB;
}

static void find_link(Elf *elf, struct wanted *wanted)
{
    Elf_Scn *section = NULL;
    size_t names;

    if (elf_getshdrstrndx(elf, &names) != 0)
        return;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *const name =
            gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;

        if (name && strcmp(name, ".gnu_debuglink") == 0 && header.sh_type != SHT_NOBITS &&
            header.sh_size <= LINK_BYTES_MAX) {
            read_link(elf_rawdata(section, NULL), is_little_endian(elf), wanted);
            return;
        }
    }
}

/* ---- What was found ---- */

/* The check sum of .gnu_debuglink: CRC-32 as of Ethernet. */
static bool sum_file(int fd, uint32_t *sum)
{
    uint32_t table[256], crc = UINT32_MAX;
    uint8_t buffer[65536];
    uint64_t at = 0;
    ssize_t got;

    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (unsigned bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    while ((got = pread(fd, buffer, sizeof(buffer), (off_t)at)) > 0 && at < SUMMED_MAX) {
        for (ssize_t i = 0; i < got; i++)
            crc = crc >> 8 ^ table[(crc ^ buffer[i]) & 0xff];
        at += (uint64_t)got;
    }
    *sum = ~crc;
    return got == 0;
}

/* Whether there is anything in it that a stripped file has not. */
static bool tells_more(Elf *elf)
{
    Elf_Scn *section = NULL;
    size_t names;

    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *const name =
            gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;

        if (name && header.sh_type != SHT_NOBITS &&
            (header.sh_type == SHT_SYMTAB || strcmp(name, ".debug_info") == 0 ||
             strcmp(name, ".zdebug_info") == 0))
            return true;
    }
    return false;
}

static bool is_it(int fd, const struct wanted *wanted, bool by_link)
{
    Elf *const elf = elf_version(EV_CURRENT) != EV_NONE ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
    struct elf_id id = {0};
    bool is_it = elf && elf_kind(elf) == ELF_K_ELF && tells_more(elf);
    uint32_t sum;

    if (is_it)
        elf_id_of(elf, &id);
    if (elf)
        (void)elf_end(elf);
    if (!is_it)
        return false;
    if (wanted->id.len && (id.len || !by_link))
        return elf_id_is_same(&id, &wanted->id);
    return by_link && sum_file(fd, &sum) && sum == wanted->sum;
}

static bool is_regular(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/* A descriptor, or -ENOENT. */
static int try_open(const struct debug_name *name, const struct wanted *wanted, bool by_link)
{
    const struct file_name file = debug_name_of(name);
    struct reason why;
    const int fd = open_named(&file, &why);

    if (fd < 0)
        return -ENOENT;
    if (is_it(fd, wanted, by_link))
        return fd;
    (void)close(fd);
    return -ENOENT;
}

/* ---- Where it is looked for ---- */

/* False: the name is too long. root may be NULL. */
static bool set_name(struct debug_name *name, const char *root, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool set_name(struct debug_name *name, const char *root, const char *format, ...)
{
    va_list arguments;
    int len;

    name->has_root = root != NULL;
    if (snprintf(name->root, sizeof(name->root), "%s", root ? root : "") >= PATH_MAX)
        return false;
    va_start(arguments, format);
    len = vsnprintf(name->path, sizeof(name->path), format, arguments);
    va_end(arguments);
    return len < PATH_MAX;
}

/* The folder that stands in place of DEBUG_FOLDER, as root and what is in front of a path there. */
struct folder {
    const char *root, *front;
};

/* It is that of the machine which the files are from, unless the user names one. */
static struct folder folder_of(const struct debug_places *places, const char *root)
{
    if (places->folder)
        return (struct folder){places->folder, ""};
    return root ? (struct folder){root, DEBUG_FOLDER} : (struct folder){DEBUG_FOLDER, ""};
}

static int find_by_id(const struct debug_places *places, const char *root,
                      const struct wanted *wanted, struct debug_name *found)
{
    static const char *const copies[] = {"debug", "elf"};
    const struct folder folder = folder_of(places, root);
    char id[ELF_ID_TEXT];
    int fd = -ENOENT;

    if (wanted->id.len < 2)
        return -ENOENT;
    (void)elf_id_text(&wanted->id, id);
    if (set_name(found, folder.root, "%s/.build-id/%.2s/%s.debug", folder.front, id, id + 2))
        fd = try_open(found, wanted, false);
    for (size_t i = 0; fd < 0 && places->cache && i < sizeof(copies) / sizeof(copies[0]); i++) {
        if (set_name(found, places->cache, "/.build-id/%.2s/%s/%s", id, id + 2, copies[i]))
            fd = try_open(found, wanted, false);
    }
    return fd;
}

/* From a server, which may have sent anything. */
static int ask_server(const struct debug_places *places, const struct wanted *wanted,
                      struct debug_name *found)
{
    int fd = -ENOENT;

    if (places->server && wanted->id.len > 0)
        fd = debuginfod_find(places->server, &wanted->id, found->path);
    if (fd == -ENOPKG)
        remark(places->remark, "debuginfod: the program debuginfod-find is not there");
    if (fd < 0)
        return -ENOENT;
    found->has_root = false;
    if (is_regular(fd) && is_it(fd, wanted, false))
        return fd;
    (void)close(fd);
    return -ENOENT;
}

/* Beside the file, in a folder .debug there, and below the folder of debug files. */
static int find_by_link(const struct debug_places *places, const struct file_name *of,
                        const struct wanted *wanted, struct debug_name *found)
{
    const char *const last = strrchr(of->path, '/');
    const int len = last ? (int)(last - of->path) + 1 : 0; /* of the name of its folder */
    const struct folder folder = folder_of(places, of->root);
    int fd = -ENOENT;

    if (!wanted->link[0])
        return -ENOENT;
    if (set_name(found, of->root, "%.*s%s", len, of->path, wanted->link))
        fd = try_open(found, wanted, true);
    if (fd < 0 && set_name(found, of->root, "%.*s.debug/%s", len, of->path, wanted->link))
        fd = try_open(found, wanted, true);
    if (fd < 0 && of->path[0] == '/' &&
        set_name(found, folder.root, "%s%.*s%s", folder.front, len, of->path, wanted->link))
        fd = try_open(found, wanted, true);
    return fd;
}

int debug_file_of(const struct debug_places *places, const struct file_name *of, Elf *elf,
                  struct debug_name *found)
{
    struct wanted wanted = {0};
    int fd;

    elf_id_of(elf, &wanted.id);
    find_link(elf, &wanted);
    fd = find_by_id(places, of->root, &wanted, found);
    if (fd < 0)
        fd = find_by_link(places, of, &wanted, found);
    return fd < 0 ? ask_server(places, &wanted, found) : fd;
}

int debug_file_by_id(const struct debug_places *places, const char *root, const struct elf_id *id,
                     struct debug_name *found)
{
    const struct wanted wanted = {.id = *id};
    const int fd = find_by_id(places, root, &wanted, found);

    return fd < 0 ? ask_server(places, &wanted, found) : fd;
}

int debug_file_beside(const struct debug_places *places, const struct file_name *of,
                      const char *path, const struct elf_id *id)
{
    const struct wanted wanted = {.id = *id};
    const char *const last = strrchr(of->path, '/');
    const int len = last && path[0] != '/' ? (int)(last - of->path) + 1 : 0;
    struct debug_name found;
    int fd = find_by_id(places, of->root, &wanted, &found);

    if (fd < 0 && set_name(&found, of->root, "%.*s%s", len, of->path, path))
        fd = try_open(&found, &wanted, false);
    return fd;
}
