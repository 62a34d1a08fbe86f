/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes what is read of a Linux guest's memory. The first byte chooses: the memory of a guest that
 * tests made, of which the rest changes numbers, before it is looked at or meanwhile; BTF alone;
 * lines of VMCOREINFO alone.
 */
#include "linux/btf.h"
#include "linux/core.h"
#include "linux/names.h"
#include "tests/made_linux.h"

#include <stdlib.h>
#include <string.h>

#define KINDS        4u
#define CHANGE_EVERY 50u /* reads */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

/* Where a number of 8 bytes goes; the highest bit: a pointer of the kernel is made of it. */
struct change {
    uint32_t where, what;
};

static const struct made_linux *guest_of(unsigned kind)
{
    static struct made_linux made[KINDS];

    if (!made[kind].ram)
        made_linux(&made[kind], (struct made_kind){.has_rb_tree = kind == 1,
                                                   .counts_up = kind == 2,
                                                   .has_five_levels = kind == 3});
    return &made[kind];
}

/* The first number from a place on that is not zero: of those the guest is made. */
static uint64_t number_from(const struct made_linux *made, uint32_t where)
{
    uint64_t at = where % (made->used / 8) * 8;

    while (at + 16 <= made->used && made_get(made, at) == 0)
        at += 8;
    return at;
}

static void apply(struct made_linux *made, struct change change)
{
    made_put(made, number_from(made, change.where & 0x7fffffff),
             change.where >> 31 ? MADE_KERNEL + change.what : change.what);
}

/* A guest that changes while it is looked at. */
struct changing {
    struct guest_source source; /* that it is read from */
    struct made_linux *made;
    const uint8_t *changes;
    size_t count;
    unsigned reads;
};

static bool read_changing(void *owner, uint64_t paddr, void *into, size_t len_bytes)
{
    struct changing *const changing = owner;
    struct change change;

    if (changing->count > 0 && ++changing->reads % CHANGE_EVERY == 0) {
        memcpy(&change, changing->changes, sizeof(change));
        apply(changing->made, change);
        changing->changes += sizeof(change);
        changing->count--;
    }
    return changing->source.memory.read(changing->source.memory.owner, paddr, into, len_bytes);
}

static int find_changing(void *owner, struct source_place *place, uint64_t *paddr,
                         struct reason *why)
{
    struct changing *const changing = owner;

    return changing->source.find(changing->source.memory.owner, place, paddr, why);
}

/* The file that is mapped, as if nobody had it any more. */
static void look_at_file(struct guest_names *names, const struct linux_guest *guest,
                         const struct made_linux *made)
{
    struct names_mapped mapped = {.path = "/gone", .start = 0x1000, .end = 0x2000};
    struct look_build_id id = {.count = 0};
    struct reason why = {0};

    if (!guest_has(guest, LAYOUT_PAGES) ||
        !look_cache(&guest->kernel, MADE_KERNEL + made->file, &mapped.cache) ||
        !look_build_id(&guest->kernel, mapped.cache, &id))
        return;
    mapped.build_id = id.bytes;
    mapped.build_id_bytes = id.count;
    if (names_look_file(names, guest, &mapped, &why) != 0)
        abort();
}

static void write_names(struct made_linux *made, const uint8_t *changes, size_t count)
{
    static const struct names_files files = {"core", "kallsyms", "vdso", "symbols"};
    struct output outputs[4] = {0};
    const struct names_outputs to = {&outputs[0], &outputs[1], &outputs[2], &outputs[3]};
    struct guest_names names = {0};
    struct changing changing = {.made = made, .changes = changes, .count = count};
    const struct guest_source source = {.memory = {&changing, read_changing},
                                        .find = find_changing};
    struct linux_guest guest = {0};
    struct reason why = {0};
    struct core core;
    int error;

    made_core(made, &core);
    changing.source = core_source(&core);
    for (unsigned i = 0; i < 4; i++)
        if (output_open(&outputs[i], "/dev/null", &why) != 0)
            abort();
    error = guest_open(&guest, &source, &why);
    if (error && !why.text[0])
        abort();
    for (unsigned looks = 0; !error && looks < 2; looks++)
        if (names_look(&names, &guest, NULL, &why) != 0)
            abort();
    if (!error)
        look_at_file(&names, &guest, made);
    if (!error && names_write(&names, &guest, &files, &to, &why) != 0)
        abort();
    for (unsigned i = 0; i < 4; i++)
        output_drop(&outputs[i]);
    guest_names_free(&names);
    guest_close(&guest);
    core_close(&core);
}

static void fuzz_memory(unsigned kind, bool meanwhile, const uint8_t *bytes, size_t len_bytes)
{
    static uint8_t ram[MADE_BYTES];
    struct made_linux made = *guest_of(kind);
    struct change change;

    memcpy(ram, made.ram, MADE_BYTES);
    made.ram = ram;
    if (meanwhile) {
        write_names(&made, bytes, len_bytes / sizeof(change));
        return;
    }
    for (; len_bytes >= sizeof(change); bytes += sizeof(change), len_bytes -= sizeof(change)) {
        memcpy(&change, bytes, sizeof(change));
        apply(&made, change);
    }
    write_names(&made, NULL, 0);
}

static void fuzz_btf(const uint8_t *bytes, size_t len_bytes)
{
    static const char *const paths[] = {"a", "a.b", "next", "context.vdso"};
    struct reason why = {0};
    struct btf_member member;
    struct btf btf;

    if (btf_open(&btf, bytes, len_bytes, &why) == 0)
        for (uint32_t type = 0; type < btf.count && type < 64; type++)
            for (unsigned i = 0; i < 4; i++)
                (void)btf_member(&btf, type, paths[i], &member);
    else if (!why.text[0])
        abort();
    (void)btf_struct(&btf, "mm_struct", 0);
    btf_close(&btf);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct vmcoreinfo info;

    if (len_bytes == 0)
        return 0;
    if (bytes[0] < 2 * KINDS)
        fuzz_memory(bytes[0] % KINDS, bytes[0] >= KINDS, bytes + 1, len_bytes - 1);
    else if (bytes[0] & 1)
        fuzz_btf(bytes + 1, len_bytes - 1);
    else if (vmcoreinfo_parse(&info, (const char *)bytes + 1, len_bytes - 1) &&
             memchr(info.release, 0, sizeof(info.release)) == NULL)
        abort();
    return 0;
}
