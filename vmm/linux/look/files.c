/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that are mapped: their names by way of directory entries and mounts, and what they hold by
 * way of the page cache.
 */
#include "linux/look/maps.h"

#include <gelf.h>
#include <string.h>

#define NAMES_MAX   256u /* parts of a path, and mounts on its way */
#define NAME_BYTES  256u /* NAME_MAX, and a zero */
#define LEVELS_MAX  12u  /* of a tree of pages: 64 bits, 6 a level, and one to spare */
#define SLOT_BITS   6u   /* XA_CHUNK_SHIFT */
#define IS_VALUE(n) (((n)&1) != 0)
#define IS_NODE(n)  (((n)&3) == 2 && (n) > 4096)
#define PHDRS_MAX   64u
#define NOTE_BYTES  4096u

/* ---- Names ---- */

/* A path that grows towards its beginning. */
struct path {
    char *text;
    size_t at;
};

static bool put_in_front(struct path *path, const char *name, size_t len)
{
    if (path->at < len + 1)
        return false;
    path->at -= len;
    memcpy(path->text + path->at, name, len);
    path->text[--path->at] = '/';
    return true;
}

static bool put_name(const struct look_kernel *kernel, uint64_t dentry, struct path *path)
{
    const struct look_layout *const layout = &kernel->layout;
    char name[NAME_BYTES];
    uint64_t address;
    uint32_t len;

    if (!look_u64(&kernel->space, dentry + layout->dentry_name, &address) ||
        !look_u32(&kernel->space, dentry + layout->dentry_name_len, &len) || len == 0 ||
        len >= NAME_BYTES || !look_read(&kernel->space, address, name, len))
        return false;
    name[len] = 0;
    return put_in_front(path, name, strlen(name));
}

/* From a directory entry to the one above it, over the edge of a mount. False: this is the top. */
static bool go_up(const struct look_kernel *kernel, uint64_t *dentry, uint64_t *mount, bool *failed)
{
    const struct look_layout *const layout = &kernel->layout;
    const uint64_t outer = *mount - layout->mount_vfs;
    uint64_t root = 0, parent = 0, above = 0;

    *failed = !look_u64(&kernel->space, *mount + layout->vfs_root, &root) ||
              !look_u64(&kernel->space, *dentry + layout->dentry_parent, &parent);
    if (*failed || (*dentry != root && parent == *dentry))
        return false;
    if (*dentry != root)
        return true;
    *failed = !look_u64(&kernel->space, outer + layout->mount_parent, &above) ||
              !look_u64(&kernel->space, outer + layout->mount_point, dentry);
    *mount = above + layout->mount_vfs;
    return !*failed && above != outer;
}

bool look_path(const struct look_kernel *kernel, uint64_t file, char text[LOOK_PATH_BYTES])
{
    const struct look_layout *const layout = &kernel->layout;
    struct path path = {text, LOOK_PATH_BYTES - 1};
    uint64_t dentry, mount, before;
    bool failed = false;

    text[path.at] = 0;
    if (!look_u64(&kernel->space, file + layout->file_dentry, &dentry) ||
        !look_u64(&kernel->space, file + layout->file_mount, &mount))
        return false;
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        uint64_t parent;

        before = mount;
        if (!go_up(kernel, &dentry, &mount, &failed)) {
            /* What is mounted nowhere has a name all the same: memfd, and shared memory. */
            if (!failed && path.at == LOOK_PATH_BYTES - 1)
                failed = !put_name(kernel, dentry, &path);
            memmove(text, text + path.at, LOOK_PATH_BYTES - path.at);
            return !failed;
        }
        if (mount != before)
            continue;
        if (!put_name(kernel, dentry, &path) ||
            !look_u64(&kernel->space, dentry + layout->dentry_parent, &parent))
            return false;
        dentry = parent;
    }
    return false;
}

/* ---- The page cache ---- */

/* Where a page of a file is in memory; its struct page says it by its place in their array. */
static bool find_page(const struct look_kernel *kernel, uint64_t cache, uint64_t index,
                      uint64_t *paddr)
{
    const struct look_layout *const layout = &kernel->layout;
    uint64_t entry, behind = 0;

    if (!look_u64(&kernel->space, cache + layout->mapping_root, &entry))
        return false;
    if (!IS_NODE(entry) && index != 0)
        return false;
    for (unsigned level = 0; IS_NODE(entry); level++) {
        const uint64_t node = entry - 2;
        uint64_t slot;
        uint8_t shift;

        if (level == LEVELS_MAX || !look_u8(&kernel->space, node + layout->xnode_shift, &shift) ||
            shift >= 64 || (level == 0 && shift + SLOT_BITS < 64 && index >> (shift + SLOT_BITS)))
            return false;
        slot = index >> shift & ((1u << SLOT_BITS) - 1);
        if (!look_u64(&kernel->space, node + layout->xnode_slots + 8 * slot, &entry))
            return false;
        /* A large folio: the slots behind its first say which one that is. */
        if ((entry & 3) == 2 && entry <= 4096) {
            const uint64_t first = entry >> 2;

            if (first >= slot ||
                !look_u64(&kernel->space, node + layout->xnode_slots + 8 * first, &entry))
                return false;
            behind = (slot - first) << shift;
        }
        if (!IS_NODE(entry))
            behind += index & ((UINT64_C(1) << shift) - 1);
    }
    if (entry < layout->vmemmap || IS_VALUE(entry) || layout->page_bytes == 0 ||
        (entry - layout->vmemmap) % layout->page_bytes != 0)
        return false;
    *paddr = ((entry - layout->vmemmap) / layout->page_bytes + behind) * LOOK_PAGE_BYTES;
    return true;
}

bool look_cache(const struct look_kernel *kernel, uint64_t file, uint64_t *cache)
{
    const struct look_layout *const layout = &kernel->layout;
    uint64_t inode;

    return look_u64(&kernel->space, file + layout->file_inode, &inode) &&
           look_u64(&kernel->space, inode + layout->inode_mapping, cache);
}

bool look_file(const struct look_kernel *kernel, uint64_t cache, uint64_t offset, void *into,
               size_t len_bytes)
{
    while (len_bytes > 0) {
        const size_t in = (size_t)(offset & (LOOK_PAGE_BYTES - 1));
        const size_t part = len_bytes < LOOK_PAGE_BYTES - in ? len_bytes : LOOK_PAGE_BYTES - in;
        uint64_t paddr;

        if (!find_page(kernel, cache, offset / LOOK_PAGE_BYTES, &paddr) ||
            !look_physical(kernel->space.memory, paddr + in, into, part))
            return false;
        into = (uint8_t *)into + part;
        offset += part;
        len_bytes -= part;
    }
    return true;
}

/* ---- Build ids ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + 3) & ~(size_t)3;
}

/* Notes have a head of three numbers in both classes of ELF. */
static bool id_in_notes(const uint8_t *notes, size_t len_bytes, struct look_build_id *id)
{
    Elf64_Nhdr note;

    while (len_bytes >= sizeof(note)) {
        size_t name, all;

        memcpy(&note, notes, sizeof(note));
        if (note.n_namesz > NOTE_BYTES || note.n_descsz > NOTE_BYTES)
            return false;
        name = aligned(note.n_namesz);
        all = sizeof(note) + name + aligned(note.n_descsz);
        if (all > len_bytes)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + sizeof(note), "GNU", 4) == 0 && note.n_descsz > 0 &&
            note.n_descsz <= LOOK_BUILD_ID_BYTES) {
            memcpy(id->bytes, notes + sizeof(note) + name, note.n_descsz);
            id->count = (uint8_t)note.n_descsz;
            return true;
        }
        notes += all;
        len_bytes -= all;
    }
    return false;
}

static bool id_in_segment(const struct look_kernel *kernel, uint64_t cache, uint64_t offset,
                          uint64_t len_bytes, struct look_build_id *id)
{
    uint8_t notes[NOTE_BYTES];
    const size_t len = len_bytes < sizeof(notes) ? (size_t)len_bytes : sizeof(notes);

    return offset < UINT64_MAX - sizeof(notes) && look_file(kernel, cache, offset, notes, len) &&
           id_in_notes(notes, len, id);
}

/* The table of segments is in the first page, as linkers place it. */
bool look_build_id(const struct look_kernel *kernel, uint64_t cache, struct look_build_id *id)
{
    char head[LOOK_PAGE_BYTES];
    size_t count = 0;
    bool found = false;
    GElf_Phdr segment;
    Elf *elf;

    id->count = 0;
    (void)elf_version(EV_CURRENT);
    if (!look_file(kernel, cache, 0, head, sizeof(head)) || !(elf = elf_memory(head, sizeof(head))))
        return false;
    if (elf_getphdrnum(elf, &count) != 0)
        count = 0;
    for (size_t i = 0; !found && i < count && i < PHDRS_MAX; i++)
        found = gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_NOTE &&
                id_in_segment(kernel, cache, segment.p_offset, segment.p_filesz, id);
    (void)elf_end(elf);
    return found;
}
