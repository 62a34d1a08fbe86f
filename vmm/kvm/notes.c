/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notes that a guest hands over through the vpt port (docs/guests.md). A guest may write anything:
 * what is not a note that can be understood is ignored.
 */
#include "kvm/notes.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "run/run.h"

#include <errno.h>
#include <string.h>

#define NOTE_TRACE   1u
#define NOTE_PROCESS 2u

#define MAX_HANDED_BYTES (1ull << 30)

struct note_trace {
    uint32_t type, size_bytes;
    uint64_t gpa, len_bytes;
} __attribute__((packed));

struct note_process {
    uint32_t type, size_bytes;
    uint64_t cr3;
    char name[NOTE_NAME], image[NOTE_NAME];
} __attribute__((packed));

static void trace_note(struct vcpu *cpu, const struct note_trace *note)
{
    struct bytes *handed = &cpu->record->handed;
    const void *data = vmm_ram(cpu->vmm, note->gpa, note->len_bytes);

    if (data && handed->len + note->len_bytes <= MAX_HANDED_BYTES &&
        !bytes_add(handed, data, note->len_bytes))
        cpu->vmm->error = vmm_fail(cpu->vmm, -ENOMEM, "no memory for what the guest hands over");
}

/* A name from the guest: printable, and no path out of the image's folder. */
static void copy_name(char *to, const char *from)
{
    memcpy(to, from, NOTE_NAME);
    to[NOTE_NAME] = 0;
    for (char *c = to; *c; c++) {
        if (*c < ' ' || *c > '~' || *c == '/')
            *c = '_';
    }
}

static void process_note(struct vcpu *cpu, const struct note_process *note)
{
    struct run_result *result = cpu->vmm->result;
    struct process *process;

    if (result->process_count == MAX_PROCESSES)
        return;
    process = &result->processes[result->process_count++];
    process->cr3 = note->cr3;
    copy_name(process->name, note->name);
    copy_name(process->image, note->image);
}

void note_received(struct vcpu *cpu, uint32_t gpa)
{
    struct note_trace trace;
    struct note_process process;
    uint32_t head[2];
    const void *ram = vmm_ram(cpu->vmm, gpa, sizeof(head));

    if (!ram)
        return;
    memcpy(head, ram, sizeof(head));
    ram = vmm_ram(cpu->vmm, gpa, head[1]);
    if (!ram)
        return;
    if (head[0] == NOTE_TRACE && head[1] == sizeof(trace)) {
        memcpy(&trace, ram, sizeof(trace));
        trace_note(cpu, &trace);
    } else if (head[0] == NOTE_PROCESS && head[1] == sizeof(process)) {
        memcpy(&process, ram, sizeof(process));
        process_note(cpu, &process);
    }
}
