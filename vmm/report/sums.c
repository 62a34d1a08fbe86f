/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of functions. A block is looked up by its function and address space once, which makes a
 * cell; whose address space that is, may change with time, and then cells find other rows. A block
 * that runs on into the next function without a branch is cut into pieces, as their list says.
 */
#include "report/sums.h"
#include "common/hash.h"
#include "common/list.h"

#include <stdlib.h>

#define IS_ENTRY  1u                  /* of a block's number; the rest is a cell */
#define IN_PIECES (1u << 31)          /* or it is this, and the first of several pieces */
#define IN_KERNEL (UINT64_C(1) << 32) /* of a function, in keys */
#define OTHERS    "(others)"
/* What a cell counts for: a row, and above it who ran. Of those who are not wanted, there is no
 * row. */
#define NO_ROW    UINT32_MAX
#define NO_MEMORY UINT64_MAX
/* Of a block that is more than one function's; the last piece has the rest. */
#define PIECES_MAX      16u
#define INSNS_LOOKED_AT 256u
#define SEEN_BITS       15u
#define SEEN_ROOM       (1u << SEEN_BITS)
/* Of CR3, the address; what stands below it here is a processor. */
#define CR3_ADDRESS (~UINT64_C(0xfff))

void sums_begin(struct sums *sums, const struct out_thread *thread)
{
    table_free(&sums->spaces);
    table_free(&sums->cells);
    table_free(&sums->pieces);
    sums->thread = thread;
    sums->generation++;
    sums->of_kernel++;
    sums->of_user++;
    sums->names_at = thread->names_until ? thread->start : OUT_LAST;
}

void sums_rename(struct sums *sums, uint64_t time)
{
    sums->generation++;
    sums->names_at = time;
}

void sums_rename_functions(struct sums *sums)
{
    sums->of_user++;
}

void sums_free(struct sums *sums)
{
    names_free(&sums->names);
    table_free(&sums->who_ids);
    table_free(&sums->row_ids);
    table_free(&sums->spaces);
    table_free(&sums->cells);
    table_free(&sums->pieces);
    free(sums->who);
    free(sums->who_rows);
    free(sums->rows);
    free(sums->seen);
}

/* ---- Who ---- */

/* Nobody told names: address spaces are all that is known. */
static void name_space(uint64_t space, struct out_who *who)
{
    *who = (struct out_who){.comm = ptd_space_vm(space) ? "guest" : "host",
                            .cr3 = ptd_space_cr3(space)};
}

static void ask(const struct sums *sums, uint64_t space, struct out_who *who)
{
    if (sums->thread->who || sums->thread->comm_at)
        *who = out_who(sums->thread, space, sums->names_at);
    else
        name_space(space, who);
}

/* The number of one of them, made if need be. UINT32_MAX: no memory. */
uint32_t sums_number_of(struct sums *sums, const struct sums_who *one)
{
    struct sum *const sum = table_at(
        &sums->who_ids, (uint64_t)one->vm << 32 | one->name, (uint64_t)one->pid << 32 | one->tid,
        (one->cr3 & CR3_ADDRESS) | ((uint32_t)(one->cpu + 1) & ~CR3_ADDRESS));
    struct sums_who *who;
    struct sums_row *rows;

    if (!sum)
        return UINT32_MAX;
    if (sum->count > 0)
        return (uint32_t)sum->count - 1;
    who = list_grow(sums->who, sums->who_count, &sums->who_room, sizeof(*who));
    if (!who)
        return UINT32_MAX;
    sums->who = who;
    rows = list_grow(sums->who_rows, sums->who_count, &sums->who_rows_room, sizeof(*rows));
    if (!rows)
        return UINT32_MAX;
    sums->who_rows = rows;
    sums->who_rows[sums->who_count] = (struct sums_row){
        .function = UINT32_MAX, .file = UINT32_MAX, .who = (uint32_t)sums->who_count};
    sums->who[sums->who_count++] = *one;
    sum->count = sums->who_count;
    return (uint32_t)sum->count - 1;
}

/* What there is no more room for. */
static uint32_t number_of_others(struct sums *sums)
{
    const struct sums_who others = {
        .vm = UINT32_MAX, .name = names_add(&sums->names, OTHERS), .cpu = -1};

    sums->is_cut_off = true;
    return others.name == UINT32_MAX ? UINT32_MAX : sums_number_of(sums, &others);
}

/* Who runs in an address space, as the trace's names say now. */
static uint32_t look_up(struct sums *sums, uint64_t space)
{
    struct sums_who one = {.vm = UINT32_MAX, .cpu = sums->thread->cpu};
    struct out_who who;

    if (sums->who_count >= SUMS_WHO_MAX)
        return number_of_others(sums);
    ask(sums, space, &who);
    one.name = names_add(&sums->names, who.comm);
    if (who.vm)
        one.vm = names_add(&sums->names, who.vm);
    if (one.name == UINT32_MAX || (who.vm && one.vm == UINT32_MAX))
        return UINT32_MAX;
    one.pid = who.pid;
    one.tid = who.tid;
    one.has_cr3 = who.pid == 0 && who.tid == 0 && who.cr3 != 0;
    one.cr3 = one.has_cr3 ? who.cr3 : 0;
    return sums_number_of(sums, &one);
}

uint32_t sums_who(struct sums *sums, uint64_t space)
{
    struct sum *sum;

    if (sums->spaces.count >= SUMS_ROWS_MAX && !table_find(&sums->spaces, space, 0, 0))
        return number_of_others(sums);
    sum = table_at(&sums->spaces, space, 0, 0);
    if (!sum)
        return UINT32_MAX;
    if (sum->cost != sums->generation) {
        sum->count = look_up(sums, space);
        sum->cost = sums->generation;
    }
    return (uint32_t)sum->count;
}

/* ---- Functions ---- */

uint32_t sums_function(struct sums *sums, uint64_t space, uint64_t ip, bool *is_entry)
{
    uint64_t offset = 1;
    const char *const name =
        shown_name(sums->thread->shown, ptd_image_symbol(sums->thread->image, space, ip, &offset));

    *is_entry = name && offset == 0;
    return names_add(&sums->names, name ? name : "?");
}

/* The number of a row, made if need be. UINT32_MAX: no memory. */
static uint32_t row_of(struct sums *sums, uint64_t function, uint32_t file, uint32_t who)
{
    struct sum *sum;

    if (sums->row_count >= SUMS_ROWS_MAX && !table_find(&sums->row_ids, function, who, file)) {
        function = names_add(&sums->names, OTHERS);
        file = UINT32_MAX;
        who = number_of_others(sums);
    }
    sum = table_at(&sums->row_ids, function, who, file);
    if (!sum)
        return UINT32_MAX;
    if (sum->count == 0) {
        struct sums_row *const grown =
            list_grow(sums->rows, sums->row_count, &sums->row_room, sizeof(*grown));

        if (!grown)
            return UINT32_MAX;
        sums->rows = grown;
        sums->rows[sums->row_count++] = (struct sums_row){.function = (uint32_t)function,
                                                          .file = file,
                                                          .who = who,
                                                          .in_kernel = (function & IN_KERNEL) != 0};
        sum->count = sums->row_count;
    }
    return (uint32_t)sum->count - 1;
}

/* The number of what has a function in an address space; UINT32_MAX: no memory. */
static uint32_t cell_of(struct sums *sums, uint64_t function, uint32_t file, uint64_t space)
{
    const struct sum *sum;

    if (sums->cells.count >= SUMS_ROWS_MAX && !table_find(&sums->cells, function, space, file)) {
        sums->is_cut_off = true;
        function = names_add(&sums->names, OTHERS);
        file = UINT32_MAX;
        space = PTD_ANY_CR3;
    }
    sum = table_at(&sums->cells, function, space, file);
    return sum ? (uint32_t)(sum - sums->cells.sums) : UINT32_MAX;
}

/* The half of addresses that is the kernel's, whatever a map may say of it. */
static bool is_kernel(uint64_t ip)
{
    return ip >> 63;
}

/* The file that code is in, as a name; UINT32_MAX: not known. False: no memory. */
static bool find_file(struct sums *sums, uint64_t space, uint64_t ip, uint32_t *file)
{
    const struct out_thread *const thread = sums->thread;
    const char *const name =
        thread->file_at ? thread->file_at(thread->files, thread->image, space, ip) : NULL;

    *file = name ? names_add(&sums->names, name) : UINT32_MAX;
    return !name || *file != UINT32_MAX;
}

/* The number of what begins at an address; UINT32_MAX: no memory. */
static uint32_t see_at(struct sums *sums, uint64_t space, uint64_t ip)
{
    bool is_entry;
    const uint32_t function = sums_function(sums, space, ip, &is_entry);
    uint32_t file = UINT32_MAX, cell;

    if (function == UINT32_MAX || !find_file(sums, space, ip, &file))
        return UINT32_MAX;
    cell = cell_of(sums, function | (is_kernel(ip) ? IN_KERNEL : 0), file, space);
    return cell == UINT32_MAX ? cell : cell << 1 | (is_entry ? IS_ENTRY : 0);
}

/* ---- Blocks that run on into another function ---- */

struct piece {
    uint64_t ip; /* of its first instruction */
    uint32_t insns;
};

/* Where the function at an address begins; 0: nothing names it. */
static uint64_t function_start(const struct sums *sums, uint64_t space, uint64_t ip)
{
    uint64_t offset;

    return ptd_image_symbol(sums->thread->image, space, ip, &offset) ? ip - offset : 0;
}

/* How many pieces there are; the last one has what was not looked at. */
static size_t cut(const struct sums *sums, const struct ptd_item *block, struct piece *pieces)
{
    uint64_t ip = block->ip, start = 0;
    uint32_t left = block->insns;
    struct ptd_insn insn;
    size_t count = 0;

    for (unsigned i = 0; i < INSNS_LOOKED_AT && left > 0; i++) {
        if (ptd_block_insn(sums->thread->image, block, &ip, &insn) != PTD_OK)
            break;
        if (count == 0 || function_start(sums, block->cr3, insn.ip) != start) {
            if (count == PIECES_MAX)
                break;
            start = function_start(sums, block->cr3, insn.ip);
            pieces[count++] = (struct piece){.ip = insn.ip};
        }
        pieces[count - 1].insns++;
        left--;
    }
    if (count > 0)
        pieces[count - 1].insns += left;
    return count;
}

/* The pieces as a list, each made once; its number, or UINT32_MAX: no memory. */
static uint32_t see_pieces(struct sums *sums, const struct ptd_item *block)
{
    struct piece pieces[PIECES_MAX];
    uint64_t next = 0; /* the number of the piece behind, plus 1 */

    for (size_t i = cut(sums, block, pieces); i-- > 0;) {
        const uint32_t id = see_at(sums, block->cr3, pieces[i].ip);
        const struct sum *const sum =
            id == UINT32_MAX ? NULL : table_at(&sums->pieces, id, pieces[i].insns, next);

        if (!sum)
            return UINT32_MAX;
        next = (uint64_t)(sum - sums->pieces.sums) + 1;
    }
    return next ? IN_PIECES | (uint32_t)(next - 1) : see_at(sums, block->cr3, block->ip);
}

/* ---- Blocks that were seen lately: item by item, a block is seen each time that it runs ---- */

struct sums_seen {
    uint64_t space, ip, last_ip;
    uint32_t generation; /* of the names that it has */
    uint32_t id;
};

static uint32_t generation_of(const struct sums *sums, uint64_t ip)
{
    return is_kernel(ip) ? sums->of_kernel : sums->of_user;
}

/* Where a block may stand. NULL: no memory. */
static struct sums_seen *seen_at(struct sums *sums, const struct ptd_item *block)
{
    const uint64_t hash = (block->ip ^ block->cr3 >> 12) * UINT64_C(0x9e3779b97f4a7c15);

    if (!sums->seen)
        sums->seen = calloc(SEEN_ROOM, sizeof(*sums->seen));
    return sums->seen ? &sums->seen[hash >> (64 - SEEN_BITS)] : NULL;
}

static bool is_of(const struct sums_seen *seen, const struct sums *sums,
                  const struct ptd_item *block)
{
    return seen->generation == generation_of(sums, block->ip) && seen->ip == block->ip &&
           seen->last_ip == block->last_ip && seen->space == block->cr3;
}

static bool is_one_function(const struct sums *sums, const struct ptd_item *block)
{
    return block->insns == 1 || function_start(sums, block->cr3, block->ip) ==
                                    function_start(sums, block->cr3, block->last_ip);
}

static uint32_t see(void *owner, const struct ptd_item *block)
{
    struct sums *const sums = owner;
    struct sums_seen *const seen = seen_at(sums, block);

    if (!seen)
        return UINT32_MAX;
    if (is_of(seen, sums, block))
        return seen->id;
    /* Where pieces begin depends on the code, which may change: they are not kept. */
    if (sums->pieces.count < SUMS_ROWS_MAX && !is_one_function(sums, block))
        return see_pieces(sums, block);
    *seen = (struct sums_seen){block->cr3, block->ip, block->last_ip,
                               generation_of(sums, block->ip), see_at(sums, block->cr3, block->ip)};
    return seen->id;
}

/* ---- Adding ---- */

bool sums_takes(const struct sums *sums, const struct filter *filter, uint32_t who)
{
    const struct sums_who *const one = &sums->who[who];
    const struct out_who named = {.pid = one->pid,
                                  .comm = sums->names.list[one->name],
                                  .vm = one->vm == UINT32_MAX ? NULL : sums->names.list[one->vm]};

    return filter_takes_who(filter, &named, one->cpu);
}

/* What a cell counts for now; NO_MEMORY: there is none. */
static uint64_t place_of(struct sums *sums, const struct sum *cell)
{
    const uint32_t who = sums_who(sums, cell->key[1]);
    uint32_t row;

    if (who == UINT32_MAX)
        return NO_MEMORY;
    if (sums->filter && (!sums_takes(sums, sums->filter, who) ||
                         !filter_takes_half(sums->filter, cell->key[0] & IN_KERNEL)))
        return (uint64_t)who << 32 | NO_ROW;
    row = row_of(sums, cell->key[0], (uint32_t)cell->key[2], sums->is_of_all ? 0 : who);
    return row == UINT32_MAX ? NO_MEMORY : (uint64_t)who << 32 | row;
}

static void add_to(struct sums_row *row, uint64_t insns, uint64_t calls, uint64_t time)
{
    row->insns += insns;
    row->calls += calls;
    row->fraction += (uint32_t)(time & ((1u << TALLY_FRACTION) - 1));
    row->ticks += (time >> TALLY_FRACTION) + (row->fraction >> TALLY_FRACTION);
    row->fraction &= (1u << TALLY_FRACTION) - 1;
}

static bool add_piece(struct sums *sums, uint32_t id, uint64_t insns, uint64_t calls, uint64_t time)
{
    struct sum *const cell = &sums->cells.sums[id >> 1];

    if (cell->cost != sums->generation) {
        cell->count = place_of(sums, cell);
        cell->cost = sums->generation;
    }
    if (cell->count == NO_MEMORY)
        return false;
    if ((uint32_t)cell->count == NO_ROW)
        return true;
    add_to(&sums->rows[(uint32_t)cell->count], insns, id & IS_ENTRY ? calls : 0, time);
    if (sums->is_of_all)
        add_to(&sums->who_rows[cell->count >> 32], insns, id & IS_ENTRY ? calls : 0, time);
    return true;
}

/* The block itself counts where it begins. */
static void add_blocks(struct sums *sums, uint32_t id, uint64_t count)
{
    const uint64_t place = sums->cells.sums[id >> 1].count;

    if ((uint32_t)place == NO_ROW)
        return;
    sums->rows[(uint32_t)place].blocks += count;
    if (sums->is_of_all)
        sums->who_rows[place >> 32].blocks += count;
}

static bool add_pieces(struct sums *sums, const struct tally_block *block, uint64_t count,
                       uint64_t time)
{
    const struct sum *piece = &sums->pieces.sums[block->id & ~IN_PIECES];
    const uint32_t first = (uint32_t)piece->key[0];
    const uint64_t rate = count > 0 ? time / block->insns : 0; /* else it is the last one's */

    for (;; piece = &sums->pieces.sums[piece->key[2] - 1]) {
        const bool is_last = piece->key[2] == 0;
        const uint64_t part = is_last ? time : rate * piece->key[1];

        if (!add_piece(sums, (uint32_t)piece->key[0], count * piece->key[1], count, part))
            return false;
        time -= part;
        if (is_last)
            break;
    }
    add_blocks(sums, first, count);
    return true;
}

static bool add(void *owner, const struct tally_block *block, bool taken, uint64_t count,
                uint64_t time)
{
    struct sums *const sums = owner;

    (void)taken;
    if (sums->is_muted)
        return true;
    if (block->id & IN_PIECES)
        return add_pieces(sums, block, count, time);
    if (!add_piece(sums, block->id, count * block->insns, count, time))
        return false;
    add_blocks(sums, block->id, count);
    return true;
}

/* ---- Sums of others ---- */

static uint64_t fingerprint_of_cell(const struct sums *sums, uint32_t id)
{
    const struct sum *const cell = &sums->cells.sums[id >> 1];
    const uint32_t file = (uint32_t)cell->key[2];
    const uint64_t hash = hash_more(cell->key[1], (cell->key[0] & IN_KERNEL) | (id & IS_ENTRY));

    return hash_text(hash_text(hash, sums->names.list[(uint32_t)cell->key[0]]),
                     file == UINT32_MAX ? NULL : sums->names.list[file]);
}

static uint64_t fingerprint(const void *owner, uint32_t id)
{
    const struct sums *const sums = owner;
    const struct sum *piece;
    uint64_t hash = 0;

    if (!(id & IN_PIECES))
        return fingerprint_of_cell(sums, id);
    for (piece = &sums->pieces.sums[id & ~IN_PIECES];;
         piece = &sums->pieces.sums[piece->key[2] - 1]) {
        hash = hash_more(hash, fingerprint_of_cell(sums, (uint32_t)piece->key[0]));
        hash = hash_more(hash, piece->key[1]);
        if (piece->key[2] == 0)
            return hash;
    }
}

uint64_t sums_fingerprint_of_who(const struct sums *sums, uint32_t who)
{
    const struct sums_who *const one = &sums->who[who];
    const uint64_t hash = hash_more(hash_more((uint64_t)one->pid << 32 | one->tid, one->cr3),
                                    (uint64_t)(unsigned)one->cpu << 1 | one->has_cr3);

    return hash_text(hash_text(hash, sums->names.list[one->name]),
                     one->vm == UINT32_MAX ? NULL : sums->names.list[one->vm]);
}

uint32_t sums_row_at(struct sums *sums, const struct sums_row *like)
{
    return row_of(sums, like->function | (like->in_kernel ? IN_KERNEL : 0), like->file, like->who);
}

void sums_add_row(struct sums_row *row, const struct sums_row *more)
{
    add_to(row, more->insns, more->calls, more->fraction);
    row->ticks += more->ticks;
    row->blocks += more->blocks;
}

const struct tally_sink sums_sink = {.see = see, .add = add, .fingerprint = fingerprint};
