/* SPDX-License-Identifier: BSD-3-Clause */
/* Build ids. A file may hold any number of notes: so many are looked at. */
#include "symbols/elf-id.h"

#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define NOTES_MAX      64u    /* segments or sections of notes */
#define NOTE_BYTES_MAX 65536u /* of each */

/* False: it is not among them. */
static bool find_in_notes(Elf_Data *data, struct elf_id *id)
{
    size_t at = 0, name, desc;
    GElf_Nhdr note;

    while (data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0) {
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || note.n_descsz == 0 ||
            memcmp((const char *)data->d_buf + name, "GNU", 4) != 0)
            continue;
        id->len = note.n_descsz < ELF_ID_BYTES_MAX ? (uint8_t)note.n_descsz : ELF_ID_BYTES_MAX;
        memcpy(id->bytes, (const char *)data->d_buf + desc, id->len);
        return true;
    }
    return false;
}

static bool find_in_segments(Elf *elf, struct elf_id *id)
{
    size_t count;
    unsigned notes = 0;
    bool found = false;

    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; !found && notes < NOTES_MAX && i < count && i < INT_MAX; i++) {
        GElf_Phdr header;

        if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_NOTE ||
            header.p_filesz > NOTE_BYTES_MAX)
            continue;
        notes++;
        found = find_in_notes(elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz,
                                                   header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR),
                              id);
    }
    return found;
}

/* In a file with debug information the program headers may be those of the other file. */
static void find_in_sections(Elf *elf, struct elf_id *id)
{
    Elf_Scn *section = NULL;
    unsigned notes = 0;
    bool found = false;

    while (!found && notes < NOTES_MAX && (section = elf_nextscn(elf, section))) {
        GElf_Shdr header;

        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE ||
            header.sh_size > NOTE_BYTES_MAX || header.sh_flags & SHF_COMPRESSED)
            continue;
        notes++;
        found = find_in_notes(elf_getdata(section, NULL), id);
    }
}

void elf_id_of(Elf *elf, struct elf_id *id)
{
    *id = (struct elf_id){0};
    if (!find_in_segments(elf, id))
        find_in_sections(elf, id);
}

bool elf_id_is_same(const struct elf_id *left, const struct elf_id *right)
{
    return left->len == right->len && memcmp(left->bytes, right->bytes, left->len) == 0;
}

const char *elf_id_text(const struct elf_id *id, char text[ELF_ID_TEXT])
{
    text[0] = 0;
    for (size_t i = 0; i < id->len; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
    return text;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool elf_id_parse(const char *text, struct elf_id *id)
{
    const size_t digits = strnlen(text, ELF_ID_TEXT);

    *id = (struct elf_id){.len = (uint8_t)(digits / 2)};
    if (digits == 0 || digits % 2 != 0 || digits >= ELF_ID_TEXT)
        return false;
    for (size_t i = 0; i < id->len; i++) {
        if (digit(text[2 * i]) < 0 || digit(text[2 * i + 1]) < 0)
            return false;
        id->bytes[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
    }
    return true;
}
