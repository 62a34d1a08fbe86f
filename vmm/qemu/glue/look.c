/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's memory, for whoever may talk to the monitor: x-vpt-memory, x-vpt-read, x-vpt-find.
 * Memory alone is looked at, never a device, which a look may change; and the guest is not stopped.
 * Each command has a bound, so that the main lock is held for milliseconds.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-misc-target.h"
#include "exec/address-spaces.h"
#include "hw/boards.h"
#include "hw/misc/vmcoreinfo.h"
#include "qemu/units.h"
#include "standard-headers/linux/qemu_fw_cfg.h"
#include "compat.h"
#include "vpt-i386.h"

#define PAGE_BYTES     4096u
#define READ_BYTES_MAX (1 * MiB)
#define FIND_BYTES_MAX (256 * MiB)
#define FIND_TEXT_MAX  64u
#define FOUND_MAX      64u

static bool is_memory(MemoryRegion *mr)
{
    return memory_region_is_ram(mr) && !memory_region_is_ram_device(mr) &&
           !memory_region_is_rom(mr);
}

/*
 * Where the host has the bytes at an address, of which *len are wanted, and are there; NULL: so
 * many bytes are no memory. Within RCU.
 */
static const uint8_t *memory_at(hwaddr address, hwaddr *len)
{
    hwaddr offset;
    MemoryRegion *mr = address_space_translate(&address_space_memory, address, &offset, len, false,
                                               MEMTXATTRS_UNSPECIFIED);

    return is_memory(mr) ? (const uint8_t *)memory_region_get_ram_ptr(mr) + offset : NULL;
}

/* ---- What there is ---- */

static bool add_ram(Int128 start, Int128 len, const MemoryRegion *mr, hwaddr offset, void *opaque)
{
    VptRamList ***tail = opaque;
    VptRam *ram;

    if (is_memory((MemoryRegion *)mr)) {
        ram = g_new0(VptRam, 1);
        ram->address = int128_get64(start);
        ram->bytes = int128_get64(len);
        QAPI_LIST_APPEND(*tail, ram);
    }
    return false;
}

/* What the guest has said of itself, if it has the device to say it to. */
static VptRam *find_vmcoreinfo(void)
{
    const VMCoreInfoState *device = vmcoreinfo_find();
    VptRam *note;

    if (!device || !device->has_vmcoreinfo ||
        le16_to_cpu(device->vmcoreinfo.guest_format) != FW_CFG_VMCOREINFO_FORMAT_ELF) {
        return NULL;
    }
    note = g_new0(VptRam, 1);
    note->address = le64_to_cpu(device->vmcoreinfo.paddr);
    note->bytes = le32_to_cpu(device->vmcoreinfo.size);
    return note;
}

VptMemory *qmp_x_vpt_memory(Error **errp)
{
    VptMemory *memory = g_new0(VptMemory, 1);
    VptRamList **ram = &memory->ram;
    VptProcessorList **processors = &memory->processors;
    CPUState *cs;

    WITH_RCU_READ_LOCK_GUARD()
    {
        flatview_for_each_range(address_space_to_flatview(&address_space_memory), add_ram, &ram);
    }
    memory->encrypted = current_machine->cgs != NULL;
    memory->vmcoreinfo = find_vmcoreinfo();
    if (memory->vmcoreinfo) {
        X86_VPT_HAS(memory, vmcoreinfo);
    }
    CPU_FOREACH(cs)
    {
        const CPUX86State *env = &X86_CPU(cs)->env;
        VptProcessor *processor = g_new0(VptProcessor, 1);

        cpu_synchronize_state(cs);
        processor->vcpu = cs->cpu_index;
        processor->cr3 = env->cr[3];
        processor->cr4 = env->cr[4];
        processor->efer = env->efer;
        processor->lstar = env->lstar;
        QAPI_LIST_APPEND(processors, processor);
    }
    return memory;
}

/* ---- Reading ---- */

/* Straight from the guest's memory, which the guest may change meanwhile. */
static bool copy(int fd, uint64_t offset, hwaddr address, hwaddr bytes, Error **errp)
{
    RCU_READ_LOCK_GUARD();
    while (bytes > 0) {
        hwaddr len = bytes;
        const uint8_t *host = memory_at(address, &len);
        ssize_t written;

        if (!host) {
            error_setg(errp, "0x%" HWADDR_PRIx " is no memory of the guest", address);
            return false;
        }
        written = pwrite(fd, host, len, offset);
        if (written <= 0) {
            error_setg_errno(errp, written ? errno : EIO, "the file cannot be written");
            return false;
        }
        address += written;
        offset += written;
        bytes -= written;
    }
    return true;
}

void qmp_x_vpt_read(uint64_t address, uint64_t bytes, int64_t fdset, uint64_t offset, Error **errp)
{
    g_autofree char *name = g_strdup_printf("/dev/fdset/%" PRId64, fdset);
    int fd;

    if (bytes > READ_BYTES_MAX || offset > INT64_MAX - READ_BYTES_MAX) {
        error_setg(errp, "no more than %u bytes at once", (unsigned)READ_BYTES_MAX);
        return;
    }
    fd = qemu_open(name, O_RDWR, errp);
    if (fd >= 0) {
        (void)copy(fd, offset, address, bytes, errp);
        qemu_close(fd);
    }
}

/* ---- Finding ---- */

struct search {
    const char *text;
    size_t len, offset; /* where in a page it has to stand */
    VptFound *found;
    uint64List **tail;
    unsigned count;
};

/* The pages of a piece of memory that lies in one place. */
static void search_pages(struct search *search, hwaddr address, const uint8_t *host, hwaddr len)
{
    for (hwaddr at = 0; at + PAGE_BYTES <= len && search->count < FOUND_MAX; at += PAGE_BYTES) {
        if (memcmp(host + at + search->offset, search->text, search->len) == 0) {
            QAPI_LIST_APPEND(search->tail, address + at);
            search->count++;
        }
    }
}

VptFound *qmp_x_vpt_find(uint64_t address, uint64_t bytes, uint64_t offset, const char *text,
                         Error **errp)
{
    struct search search = {.text = text, .len = strlen(text), .offset = offset};
    const uint64_t first = ROUND_UP(address, PAGE_BYTES), end = address + bytes;

    if (bytes > FIND_BYTES_MAX || end < address || first < address) {
        error_setg(errp, "no more than %u bytes at once", (unsigned)FIND_BYTES_MAX);
        return NULL;
    }
    if (search.len == 0 || search.len > FIND_TEXT_MAX || offset > PAGE_BYTES - search.len) {
        error_setg(errp, "a text of at most %u bytes, within a page", FIND_TEXT_MAX);
        return NULL;
    }
    search.found = g_new0(VptFound, 1);
    search.tail = &search.found->addresses;
    RCU_READ_LOCK_GUARD();
    for (hwaddr at = first, len; at < end && end - at >= PAGE_BYTES; at += len) {
        const uint8_t *host;

        len = end - at;
        host = memory_at(at, &len);
        len = MAX(ROUND_DOWN(len, PAGE_BYTES), PAGE_BYTES);
        if (host) {
            search_pages(&search, at, host, len);
        }
    }
    return search.found;
}
