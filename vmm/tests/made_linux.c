/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the memory of a small Linux guest. Structures have members at places of their own, so that
 * whoever reads them has to take the places from BTF.
 */
#include "made_linux.h"
#include "made_btf.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRESENT    1u
#define LARGE      0x80u
#define VMEMMAP    UINT64_C(0xffffea0000000000)
#define PAGE       4096u
#define EARLY_ROOT 0x1000u

/* Members. */
enum {
    TASK_TASKS = 0x10,
    TASK_PID = 0x30,
    TASK_TGID = 0x34,
    TASK_COMM = 0x40,
    TASK_MM = 0x58,
    TASK_SIGNAL = 0x60,
    TASK_NODE = 0x70,
    TASK_BYTES = 0x80,
    SIGNAL_HEAD = 8,
    SIGNAL_BYTES = 0x20,
    MM_MAPS = 8,
    MM_PGD = 0x20,
    MM_CONTEXT = 0x30,
    MM_BYTES = 0x48,
    MAPLE_ROOT = 8,
    MAP_START = 0,
    MAP_END = 8,
    MAP_FLAGS = 0x20,
    MAP_PAGE = 0x28,
    MAP_FILE = 0x30,
    MAP_RB = 0x38,
    MAP_BYTES = 0x50,
    FILE_PATH = 0x10,
    FILE_INODE = 0x20,
    FILE_BYTES = 0x30,
    DENTRY_PARENT = 8,
    DENTRY_NAME = 0x10,
    DENTRY_BYTES = 0x20,
    MOUNT_PARENT = 0x10,
    MOUNT_POINT = 0x18,
    MOUNT_VFS = 0x20,
    MOUNT_BYTES = 0x30,
    INODE_MAPPING = 0x30,
    MAPPING_PAGES = 8,
    XARRAY_HEAD = 8,
    XNODE_SLOTS = 0x28,
    MODULE_LIST = 8,
    MODULE_NAME = 0x18,
    MODULE_TABLES = 0x60,
    MODULE_BYTES = 0x70,
    BPF_NAME = 0x10,
    BPF_NODE = 0x210,
    BPF_BYTES = 0x220,
    FTRACE_LIST = 0x10,
    FTRACE_TRAMPOLINE = 0x20,
    FTRACE_BYTES = 0x30,
    PAGE_STRUCT_BYTES = 64,
};

uint64_t made_get(const struct made_linux *made, uint64_t paddr)
{
    uint64_t value;

    memcpy(&value, made->ram + paddr, sizeof(value));
    return value;
}

void made_put(struct made_linux *made, uint64_t paddr, uint64_t value)
{
    memcpy(made->ram + paddr, &value, sizeof(value));
}

static void put32(struct made_linux *made, uint64_t paddr, uint32_t value)
{
    memcpy(made->ram + paddr, &value, sizeof(value));
}

/* Zeros; an end of memory is a mistake of this file. */
static uint64_t room(struct made_linux *made, size_t bytes, size_t alignment)
{
    const size_t at = (made->used + alignment - 1) / alignment * alignment;

    if (at + bytes > MADE_BYTES)
        abort();
    made->used = at + bytes;
    return at;
}

static uint64_t bytes(struct made_linux *made, const void *data, size_t len)
{
    const uint64_t at = room(made, len, 8);

    memcpy(made->ram + at, data, len);
    return at;
}

static uint64_t kernel(uint64_t paddr)
{
    return MADE_KERNEL + paddr;
}

static uint64_t text(struct made_linux *made, const char *words)
{
    return kernel(bytes(made, words, strlen(words) + 1));
}

/* ---- Page tables ---- */

static uint64_t index_of(uint64_t vaddr, unsigned level)
{
    return vaddr >> (12 + 9 * (level - 1)) & 0x1ff;
}

/* Memory as one large page at vaddr. */
static void map_memory(struct made_linux *made, uint64_t root, unsigned levels, uint64_t vaddr)
{
    uint64_t table = root;

    for (unsigned level = levels; level > 2; level--) {
        const uint64_t entry = table + 8 * index_of(vaddr, level);

        if (!(made_get(made, entry) & PRESENT))
            made_put(made, entry, room(made, PAGE, PAGE) | PRESENT);
        table = made_get(made, entry) & ~UINT64_C(0xfff);
    }
    made_put(made, table + 8 * index_of(vaddr, 2), PRESENT | LARGE);
}

/* The kernel's tables, and behind them those of user code: with the same user half. */
static void make_tables(struct made_linux *made, unsigned levels)
{
    made->root = room(made, 2 * PAGE, 2 * PAGE);
    made->user_root = made->root + PAGE;
    map_memory(made, made->root, levels, MADE_KERNEL);
    map_memory(made, made->root, levels, MADE_DIRECT);
    made_put(made, made->root, room(made, PAGE, PAGE) | PRESENT | UINT64_C(1) << 63);
    made_put(made, made->user_root, made_get(made, made->root) & ~(UINT64_C(1) << 63));
}

/* ---- BTF ---- */

static void describe_tasks(struct made_btf *btf, const struct made_kind *kind)
{
    const uint32_t context = made_btf_struct(
        btf, "", 16, (struct made_member[]){{"vdso_image", 0, 1}, {"vdso", 8, 1}}, 2);
    const uint32_t name = made_btf_wrap(btf, "mm_context_t", MADE_TYPEDEF, context);
    const uint32_t maps =
        made_btf_struct(btf, kind->has_rb_tree ? "rb_root" : "maple_tree", 16,
                        (struct made_member[]){{kind->has_rb_tree ? "rb_node" : "ma_root",
                                                kind->has_rb_tree ? 0 : MAPLE_ROOT, 1}},
                        1);
    const uint32_t inner = made_btf_struct(
        btf, "", MM_BYTES,
        (struct made_member[]){{kind->has_rb_tree ? "mm_rb" : "mm_mt", MM_MAPS, maps},
                               {"pgd", MM_PGD, 1},
                               {"context", MM_CONTEXT, name}},
        3);

    made_btf_struct(btf, "mm_struct", MM_BYTES, (struct made_member[]){{"", 0, inner}}, 1);
    made_btf_struct(btf, "list_head", 16, (struct made_member[]){{"next", 0, 1}, {"prev", 8, 1}},
                    2);
    made_btf_struct(btf, "signal_struct", SIGNAL_BYTES,
                    (struct made_member[]){{"thread_head", SIGNAL_HEAD, 1}}, 1);
    made_btf_struct(btf, "task_struct", TASK_BYTES,
                    (struct made_member[]){{"tasks", TASK_TASKS, 1},
                                           {"pid", TASK_PID, 1},
                                           {"tgid", TASK_TGID, 1},
                                           {"comm", TASK_COMM, 1},
                                           {"mm", TASK_MM, 1},
                                           {"signal", TASK_SIGNAL, 1},
                                           {"thread_node", TASK_NODE, 1}},
                    7);
    made_btf_struct(btf, "vdso_image", 16, (struct made_member[]){{"data", 0, 1}, {"size", 8, 1}},
                    2);
}

static void describe_maps(struct made_btf *btf)
{
    const uint32_t of_15 = made_btf_array(btf, 1, 15), of_16 = made_btf_array(btf, 1, 16);
    const uint32_t of_9 = made_btf_array(btf, 1, 9), of_10 = made_btf_array(btf, 1, 10);
    const uint32_t slots =
        made_btf_struct(btf, "", 128, (struct made_member[]){{"slot", 0, of_16}}, 1);
    const uint32_t ends = made_btf_struct(
        btf, "", 16, (struct made_member[]){{"vm_start", MAP_START, 1}, {"vm_end", MAP_END, 1}}, 2);

    made_btf_struct(btf, "maple_range_64", 256,
                    (struct made_member[]){{"pivot", 8, of_15}, {"", 128, slots}}, 2);
    made_btf_struct(btf, "maple_arange_64", 256,
                    (struct made_member[]){{"pivot", 8, of_9}, {"slot", 80, of_10}}, 2);
    made_btf_struct(btf, "rb_node", 24,
                    (struct made_member[]){{"rb_right", 8, 1}, {"rb_left", 16, 1}}, 2);
    made_btf_struct(btf, "vm_area_struct", MAP_BYTES,
                    (struct made_member[]){{"", 0, ends},
                                           {"vm_flags", MAP_FLAGS, 1},
                                           {"vm_pgoff", MAP_PAGE, 1},
                                           {"vm_file", MAP_FILE, 1},
                                           {"vm_rb", MAP_RB, 1}},
                    5);
}

static void describe_files(struct made_btf *btf)
{
    const uint32_t path = made_btf_struct(
        btf, "path", 16, (struct made_member[]){{"mnt", 0, 1}, {"dentry", 8, 1}}, 2);
    const uint32_t hash =
        made_btf_struct(btf, "", 8, (struct made_member[]){{"hash", 0, 1}, {"len", 4, 1}}, 2);
    const uint32_t qstr =
        made_btf_struct(btf, "qstr", 16, (struct made_member[]){{"", 0, hash}, {"name", 8, 1}}, 2);
    const uint32_t xarray =
        made_btf_struct(btf, "xarray", 16, (struct made_member[]){{"xa_head", XARRAY_HEAD, 1}}, 1);

    made_btf_struct(btf, "file", FILE_BYTES,
                    (struct made_member[]){{"f_path", FILE_PATH, path}, {"f_inode", FILE_INODE, 1}},
                    2);
    made_btf_struct(
        btf, "dentry", DENTRY_BYTES,
        (struct made_member[]){{"d_parent", DENTRY_PARENT, 1}, {"d_name", DENTRY_NAME, qstr}}, 2);
    made_btf_struct(btf, "mount", MOUNT_BYTES,
                    (struct made_member[]){{"mnt_parent", MOUNT_PARENT, 1},
                                           {"mnt_mountpoint", MOUNT_POINT, 1},
                                           {"mnt", MOUNT_VFS, 1}},
                    3);
    made_btf_struct(btf, "vfsmount", 8, (struct made_member[]){{"mnt_root", 0, 1}}, 1);
    made_btf_struct(btf, "inode", 0x40, (struct made_member[]){{"i_mapping", INODE_MAPPING, 1}}, 1);
    made_btf_struct(btf, "address_space", 0x20,
                    (struct made_member[]){{"i_pages", MAPPING_PAGES, xarray}}, 1);
    made_btf_struct(btf, "xa_node", 0x228,
                    (struct made_member[]){{"shift", 0, 1}, {"slots", XNODE_SLOTS, 1}}, 2);
    made_btf_struct(btf, "page", PAGE_STRUCT_BYTES, (struct made_member[]){{"flags", 0, 1}}, 1);
}

static void describe_modules(struct made_btf *btf)
{
    made_btf_struct(btf, "module", MODULE_BYTES,
                    (struct made_member[]){{"state", 0, 1},
                                           {"list", MODULE_LIST, 1},
                                           {"name", MODULE_NAME, 1},
                                           {"kallsyms", MODULE_TABLES, 1}},
                    4);
    made_btf_struct(
        btf, "mod_kallsyms", 32,
        (struct made_member[]){
            {"symtab", 0, 1}, {"num_symtab", 8, 1}, {"strtab", 16, 1}, {"typetab", 24, 1}},
        4);
    made_btf_struct(
        btf, "bpf_ksym", BPF_BYTES,
        (struct made_member[]){{"start", 0, 1}, {"name", BPF_NAME, 1}, {"lnode", BPF_NODE, 1}}, 3);
    made_btf_struct(
        btf, "ftrace_ops", FTRACE_BYTES,
        (struct made_member[]){{"list", FTRACE_LIST, 1}, {"trampoline", FTRACE_TRAMPOLINE, 1}}, 2);
}

static void make_btf(struct made_linux *made, const struct made_kind *kind)
{
    static struct made_btf btf;

    made_btf_begin(&btf);
    describe_tasks(&btf, kind);
    describe_maps(&btf);
    describe_files(&btf);
    describe_modules(&btf);
    made->btf_bytes = made_btf_end(&btf);
    made->btf = bytes(made, btf.all, made->btf_bytes);
}

/* ---- kallsyms ---- */

struct symbol {
    uint64_t address;
    char letter;
    const char *name;
};

#define SYMBOLS_MAX 16u

/* What the kernel's variables are called, and the tables of kallsyms. */
struct names {
    struct symbol list[SYMBOLS_MAX];
    size_t count;
    uint64_t names, count_at, tokens, index, offsets, base;
};

static void name(struct names *names, uint64_t address, char letter, const char *what)
{
    if (names->count == SYMBOLS_MAX)
        abort();
    names->list[names->count++] = (struct symbol){address, letter, what};
}

/* Letters stand for themselves; number 1 is a piece of text. */
#define PIECE "__st"

static void put_token_table(struct made_linux *made, struct names *names)
{
    char table[1024];
    uint16_t index[256];
    size_t at = 0;

    for (unsigned i = 0; i < 256; i++) {
        const char letter[2] = {i >= 32 && i < 127 ? (char)i : '?', 0};
        const char *const token = i == 1 ? PIECE : letter;

        index[i] = (uint16_t)at;
        memcpy(table + at, token, strlen(token) + 1);
        at += strlen(token) + 1;
    }
    names->tokens = kernel(bytes(made, table, at));
    names->index = kernel(bytes(made, index, sizeof(index)));
}

/* A name as the kernel keeps it, behind what is there already. */
static size_t compress(const struct symbol *symbol, uint8_t *to)
{
    const bool has_piece = strncmp(symbol->name, PIECE, strlen(PIECE)) == 0;
    const char *rest = symbol->name + (has_piece ? strlen(PIECE) : 0);
    const size_t length = 1 + has_piece + strlen(rest);
    size_t at = 0;

    to[at++] = (uint8_t)(length < 128 ? length : (length & 0x7f) | 0x80);
    if (length >= 128)
        to[at++] = (uint8_t)(length >> 7);
    to[at++] = (uint8_t)symbol->letter;
    if (has_piece)
        to[at++] = 1;
    while (*rest)
        to[at++] = (uint8_t)*rest++;
    return at;
}

static void make_kallsyms(struct made_linux *made, struct names *names, bool counts_up)
{
    const uint64_t base = MADE_KERNEL;
    uint8_t packed[2048];
    uint32_t offsets[SYMBOLS_MAX];
    size_t at = 0;

    for (size_t i = 0; i < names->count; i++) {
        const uint64_t address = names->list[i].address;

        at += compress(&names->list[i], packed + at);
        offsets[i] = counts_up           ? (uint32_t)(address - base)
                     : address < 1 << 20 ? (uint32_t)address
                                         : (uint32_t)(base - 1 - address);
    }
    names->names = kernel(bytes(made, packed, at));
    names->offsets = kernel(bytes(made, offsets, 4 * names->count));
    names->count_at = kernel(bytes(made, &names->count, 4));
    names->base = kernel(bytes(made, &base, 8));
    put_token_table(made, names);
}

static void make_vmcoreinfo(struct made_linux *made, const struct names *names, bool five_levels)
{
    const Elf64_Nhdr note = {.n_namesz = 11, .n_descsz = 2048};
    char *const page = (char *)made->ram + (made->vmcoreinfo = room(made, PAGE, PAGE));

    memcpy(page, &note, sizeof(note));
    memcpy(page + sizeof(note), "VMCOREINFO", 11);
    (void)snprintf(page + sizeof(note) + 12, PAGE - sizeof(note) - 12,
                   "OSRELEASE=6.1.0-made\nPAGESIZE=4096\n"
                   "SYMBOL(swapper_pg_dir)=%" PRIx64 "\nSYMBOL(_stext)=%" PRIx64
                   "\nNUMBER(phys_base)=0\nNUMBER(pgtable_l5_enabled)=%d\n"
                   "SYMBOL(kallsyms_names)=%" PRIx64 "\nSYMBOL(kallsyms_num_syms)=%" PRIx64
                   "\nSYMBOL(kallsyms_token_table)=%" PRIx64
                   "\nSYMBOL(kallsyms_token_index)=%" PRIx64 "\nSYMBOL(kallsyms_offsets)=%" PRIx64
                   "\nSYMBOL(kallsyms_relative_base)=%" PRIx64 "\n",
                   kernel(made->root), MADE_TEXT, five_levels, names->names, names->count_at,
                   names->tokens, names->index, names->offsets, names->base);
}

/* ---- Lists ---- */

static void begin_list(struct made_linux *made, uint64_t head)
{
    made_put(made, head, kernel(head));
    made_put(made, head + 8, kernel(head));
}

/* At its end. */
static void add_to_list(struct made_linux *made, uint64_t head, uint64_t element)
{
    const uint64_t last = made_get(made, head + 8) - MADE_KERNEL;

    made_put(made, element, kernel(head));
    made_put(made, element + 8, kernel(last));
    made_put(made, last, kernel(element));
    made_put(made, head + 8, kernel(element));
}

/* ---- Files ---- */

static uint64_t make_dentry(struct made_linux *made, const char *called, uint64_t parent)
{
    const uint64_t dentry = room(made, DENTRY_BYTES, 8);

    made_put(made, dentry + DENTRY_PARENT, kernel(parent ? parent : dentry));
    put32(made, dentry + DENTRY_NAME + 4, (uint32_t)strlen(called));
    made_put(made, dentry + DENTRY_NAME + 8, text(made, called));
    return dentry;
}

/* parent 0: it is mounted on itself, as the highest one is. */
static uint64_t make_mount(struct made_linux *made, uint64_t root, uint64_t parent, uint64_t point)
{
    const uint64_t mount = room(made, MOUNT_BYTES, 8);

    made_put(made, mount + MOUNT_PARENT, kernel(parent ? parent : mount));
    made_put(made, mount + MOUNT_POINT, kernel(point ? point : root));
    made_put(made, mount + MOUNT_VFS, kernel(root));
    return mount;
}

/* What the dynamic linker finds a function by, and its name: malloc at 2010H, of 20H bytes. */
static void put_dynamic(uint8_t *page)
{
    const Elf64_Dyn entries[] = {{DT_SYMTAB, {0x400}}, {DT_STRTAB, {0x500}},   {DT_STRSZ, {16}},
                                 {DT_HASH, {0}},       {DT_GNU_HASH, {0x580}}, {DT_NULL, {0}}};
    const Elf64_Sym symbols[] = {
        {0},
        {.st_name = 8, .st_info = STT_OBJECT, .st_shndx = 1, .st_value = 0x2020},
        {.st_name = 1, .st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x2010, .st_size = 0x20}};
    /* One bucket; symbols from 1 on; one word of the filter; the chain ends with the second. */
    const uint32_t hash[] = {1, 1, 1, 0, 0, 0, 1, 0x10, 0x11};

    memcpy(page + 0x300, entries, sizeof(entries));
    memcpy(page + 0x400, symbols, sizeof(symbols));
    memcpy(page + 0x501, "malloc\0data", 12);
    memcpy(page + 0x580, hash, sizeof(hash));
}

/* The first page of an ELF file with a build id of 01 02 .. 14; more of it may be elsewhere. */
static uint64_t make_elf(struct made_linux *made, uint64_t file_bytes)
{
    const uint64_t page = room(made, PAGE, PAGE);
    Elf64_Ehdr head = {.e_type = ET_DYN,
                       .e_machine = EM_X86_64,
                       .e_version = EV_CURRENT,
                       .e_phoff = sizeof(head),
                       .e_ehsize = sizeof(head),
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 3};
    const Elf64_Phdr segments[3] = {
        {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = file_bytes, .p_memsz = file_bytes},
        {.p_type = PT_NOTE, .p_offset = 0x200, .p_filesz = 0x44},
        {.p_type = PT_DYNAMIC, .p_offset = 0x300, .p_vaddr = 0x300, .p_filesz = 0x60}};
    const Elf64_Nhdr other = {4, 8, 5}, id = {4, 20, NT_GNU_BUILD_ID};
    uint8_t *const notes = made->ram + page + 0x200;

    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = EV_CURRENT;
    memcpy(made->ram + page, &head, sizeof(head));
    memcpy(made->ram + page + sizeof(head), segments, sizeof(segments));
    memcpy(notes, &other, sizeof(other));
    memcpy(notes + 12, "GNU", 4);
    memcpy(notes + 24, &id, sizeof(id));
    memcpy(notes + 36, "GNU", 4);
    for (unsigned i = 0; i < 20; i++)
        notes[40 + i] = (uint8_t)(i + 1);
    put_dynamic(made->ram + page);
    return page;
}

/* A page cache of two levels, whose first page is there. */
static uint64_t make_inode(struct made_linux *made, uint64_t page)
{
    const uint64_t inode = room(made, 0x40, 8), mapping = room(made, 0x20, 8);
    const uint64_t high = room(made, 0x228, 8), low = room(made, 0x228, 8);

    made_put(made, inode + INODE_MAPPING, kernel(mapping));
    made_put(made, mapping + MAPPING_PAGES + XARRAY_HEAD, kernel(high) | 2);
    made->ram[high] = 6;
    made_put(made, high + XNODE_SLOTS, kernel(low) | 2);
    made_put(made, low + XNODE_SLOTS, VMEMMAP + page / PAGE * PAGE_STRUCT_BYTES);
    return inode;
}

static uint64_t make_file(struct made_linux *made, uint64_t dentry, uint64_t mount, uint64_t inode)
{
    const uint64_t file = room(made, FILE_BYTES, 8);

    made_put(made, file + FILE_PATH, kernel(mount + MOUNT_VFS));
    made_put(made, file + FILE_PATH + 8, kernel(dentry));
    made_put(made, file + FILE_INODE, kernel(inode));
    return file;
}

/* ---- Mappings ---- */

static uint64_t make_map(struct made_linux *made, uint64_t start, uint64_t end, bool executable,
                         uint64_t file)
{
    const uint64_t map = room(made, MAP_BYTES, 8);

    made_put(made, map + MAP_START, start);
    made_put(made, map + MAP_END, end);
    made_put(made, map + MAP_FLAGS, executable ? 5 : 1);
    made_put(made, map + MAP_PAGE, file ? 2 : 0);
    made_put(made, map + MAP_FILE, file ? kernel(file) : 0);
    return map;
}

/* Two levels: a root of kind arange, and a leaf with the mappings and what is empty between. */
static void make_maple(struct made_linux *made)
{
    const uint64_t ends[] = {0x400000 - 1, 0x402000 - 1, 0x7f0000000000 - 1, 0x7f0000010000 - 1,
                             0x7f0000020000 - 1};
    const uint64_t slots[] = {0, kernel(made->maps[0]), 0, kernel(made->maps[1]),
                              kernel(made->maps[2])};

    made->tree_root = room(made, 256, 256);
    made->tree_leaf = room(made, 256, 256);
    made_put(made, made->mm + MM_MAPS + MAPLE_ROOT, kernel(made->tree_root) | 3 << 3 | 2);
    made_put(made, made->tree_root + 8, 0x7f0000020000 - 1);
    made_put(made, made->tree_root + 80, kernel(made->tree_leaf) | 1 << 3 | 4);
    for (unsigned i = 0; i < 5; i++) {
        made_put(made, made->tree_leaf + 8 + 8 * i, ends[i]);
        made_put(made, made->tree_leaf + 128 + 8 * i, slots[i]);
    }
}

/* The second is the root, with the others to its left and its right. */
static void make_rb(struct made_linux *made)
{
    made_put(made, made->mm + MM_MAPS, kernel(made->maps[1] + MAP_RB));
    made_put(made, made->maps[1] + MAP_RB + 16, kernel(made->maps[0] + MAP_RB));
    made_put(made, made->maps[1] + MAP_RB + 8, kernel(made->maps[2] + MAP_RB));
}

static void make_maps(struct made_linux *made, bool has_rb_tree)
{
    const uint64_t top = make_dentry(made, "/", 0), usr = make_dentry(made, "usr", top);
    const uint64_t outer = make_mount(made, top, 0, 0), root = make_dentry(made, "/", 0);
    const uint64_t mount = make_mount(made, root, outer, usr);
    const uint64_t lib = make_dentry(made, "lib", root), cc = make_dentry(made, "cc", top);
    const uint64_t program = make_file(made, cc, outer, make_inode(made, room(made, PAGE, PAGE)));

    made->dentry = make_dentry(made, "libc.so", lib);
    made->file = make_file(made, made->dentry, mount, make_inode(made, make_elf(made, 4 * PAGE)));
    made->maps[0] = make_map(made, 0x400000, 0x402000, true, program);
    made->maps[1] = make_map(made, 0x7f0000000000, 0x7f0000010000, true, made->file);
    made->maps[2] = make_map(made, 0x7f0000010000, 0x7f0000020000, false, made->file);
    if (has_rb_tree)
        make_rb(made);
    else
        make_maple(made);
}

/* ---- Tasks and modules ---- */

static uint64_t make_task(struct made_linux *made, const char *comm, uint32_t pid, uint32_t tgid,
                          uint64_t mm, uint64_t signal)
{
    const uint64_t task = room(made, TASK_BYTES, 8);

    put32(made, task + TASK_PID, pid);
    put32(made, task + TASK_TGID, tgid);
    memcpy(made->ram + task + TASK_COMM, comm, strlen(comm));
    made_put(made, task + TASK_MM, mm ? kernel(mm) : 0);
    made_put(made, task + TASK_SIGNAL, kernel(signal));
    add_to_list(made, signal + SIGNAL_HEAD, task + TASK_NODE);
    return task;
}

static uint64_t make_signal(struct made_linux *made)
{
    const uint64_t signal = room(made, SIGNAL_BYTES, 8);

    begin_list(made, signal + SIGNAL_HEAD);
    return signal;
}

static uint64_t make_mm(struct made_linux *made, uint64_t root, uint64_t vdso)
{
    const uint64_t mm = room(made, MM_BYTES, 8);

    made_put(made, mm + MM_PGD, MADE_DIRECT + root);
    made_put(made, mm + MM_CONTEXT, kernel(vdso));
    made_put(made, mm + MM_CONTEXT + 8, 0x7ffd00000000);
    return mm;
}

static uint64_t make_vdso(struct made_linux *made)
{
    const uint64_t image = room(made, 16, 8), page = make_elf(made, PAGE);

    made_put(made, image, kernel(page));
    made_put(made, image + 8, PAGE);
    return image;
}

static void make_tasks(struct made_linux *made, const struct made_kind *kind)
{
    const uint64_t signal = make_signal(made), of_cc = make_signal(made), vdso = make_vdso(made);

    made->mm = make_mm(made, made->root, vdso);
    make_maps(made, kind->has_rb_tree);
    made->tasks[0] = make_task(made, "swapper/0", 0, 0, 0, signal);
    made->tasks[1] = make_task(made, "init", 1, 1, make_mm(made, room(made, PAGE, 2 * PAGE), vdso),
                               make_signal(made));
    made->tasks[2] = make_task(made, "cc", 41, 41, made->mm, of_cc);
    made->thread = make_task(made, "cc\x1b[2J", 42, 41, made->mm, of_cc);
    begin_list(made, made->tasks[0] + TASK_TASKS);
    add_to_list(made, made->tasks[0] + TASK_TASKS, made->tasks[1] + TASK_TASKS);
    add_to_list(made, made->tasks[0] + TASK_TASKS, made->tasks[2] + TASK_TASKS);
}

static uint64_t make_module(struct made_linux *made)
{
    const Elf64_Sym symbols[3] = {{0},
                                  {.st_name = 1, .st_value = MADE_KERNEL + 0x40000000},
                                  {.st_name = 10, .st_value = MADE_KERNEL + 0x40000100}};
    const uint64_t head = room(made, 16, 8);

    made->module = room(made, MODULE_BYTES, 8);
    made->module_tables = room(made, 32, 8);
    begin_list(made, head);
    add_to_list(made, head, made->module + MODULE_LIST);
    memcpy(made->ram + made->module + MODULE_NAME, "virtio", 7);
    made_put(made, made->module + MODULE_TABLES, kernel(made->module_tables));
    made_put(made, made->module_tables, kernel(bytes(made, symbols, sizeof(symbols))));
    put32(made, made->module_tables + 8, 3);
    made_put(made, made->module_tables + 16, kernel(bytes(made, "\0add_disk\0bad name", 19)));
    made_put(made, made->module_tables + 24, text(made, "?tT"));
    return head;
}

static uint64_t make_bpf(struct made_linux *made)
{
    const uint64_t head = room(made, 16, 8);

    made->bpf = room(made, BPF_BYTES, 8);
    begin_list(made, head);
    add_to_list(made, head, made->bpf + BPF_NODE);
    made_put(made, made->bpf, MADE_KERNEL + 0x50000000);
    memcpy(made->ram + made->bpf + BPF_NAME, "bpf_prog_1_x", 13);
    return head;
}

static uint64_t make_ftrace(struct made_linux *made)
{
    const uint64_t head = room(made, 16, 8), ops = room(made, FTRACE_BYTES, 8);

    begin_list(made, head);
    add_to_list(made, head, ops + FTRACE_LIST);
    made_put(made, ops + FTRACE_TRAMPOLINE, MADE_KERNEL + 0x60000000);
    return head;
}

void made_linux(struct made_linux *made, struct made_kind kind)
{
    static char long_name[MADE_LONG_NAME + 1];
    struct names names = {0};
    const uint64_t vmemmap = VMEMMAP;

    memset(long_name, 'x', MADE_LONG_NAME);
    *made = (struct made_linux){.ram = calloc(1, MADE_BYTES), .used = PAGE};
    if (!made->ram)
        abort();
    make_tables(made, kind.has_five_levels ? 5 : 4);
    make_btf(made, &kind);
    make_tasks(made, &kind);
    if (!kind.counts_up)
        name(&names, 0x1000, 'A', "of_each_cpu");
    name(&names, kind.counts_up ? MADE_TEXT - 8 : MADE_CURRENT, kind.counts_up ? 'D' : 'A',
         "current_task");
    name(&names, MADE_TEXT, 'T', "_stext");
    name(&names, MADE_ENTRY, 'T', "entry_SYSCALL_64");
    name(&names, MADE_TEXT + 0x40, 't', long_name);
    name(&names, kernel(EARLY_ROOT), 'D', "early_top_pgt");
    name(&names, kernel(made->btf), 'R', "__start_BTF");
    name(&names, kernel(made->btf + made->btf_bytes), 'R', "__stop_BTF");
    name(&names, kernel(made->tasks[0]), 'D', "init_task");
    name(&names, kernel(make_module(made)), 'd', "modules");
    name(&names, kernel(make_bpf(made)), 'd', "bpf_kallsyms");
    name(&names, kernel(make_ftrace(made)), 'd', "ftrace_ops_trampoline_list");
    name(&names, kernel(bytes(made, &vmemmap, 8)), 'D', "vmemmap_base");
    make_kallsyms(made, &names, kind.counts_up);
    make_vmcoreinfo(made, &names, kind.has_five_levels);
}

void made_linux_free(struct made_linux *made)
{
    free(made->ram);
    made->ram = NULL;
}

void made_core(const struct made_linux *made, struct core *core)
{
    *core = (struct core){.memory = ptd_memory_new(), .ranges = calloc(1, sizeof(*core->ranges))};
    if (!core->memory || !core->ranges ||
        ptd_memory_add(core->memory, 0, made->ram, MADE_BYTES) != PTD_OK)
        abort();
    core->ranges[0] = (struct core_range){0, MADE_BYTES};
    core->range_count = 1;
}
