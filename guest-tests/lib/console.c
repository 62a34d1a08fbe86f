/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text output and the report of test cases: see console.h.
 */
#include "console.h"
#include "cpu.h"
#include "string.h"

#define CONSOLE_PORT 0xe9

/* ---- Text --------------------------------------------------------------------------------- */

/* COM1 of a PC: a 16550. */
#define SERIAL_PORT       0x3f8
#define SERIAL_INTERRUPTS (SERIAL_PORT + 1) /* DLAB 1: high half of the divisor */
#define SERIAL_FIFOS      (SERIAL_PORT + 2)
#define SERIAL_LINE       (SERIAL_PORT + 3)
#define SERIAL_STATUS     (SERIAL_PORT + 5)
#define SERIAL_DLAB_8N1   0x83
#define SERIAL_8N1        0x03
#define SERIAL_FIFOS_ON   0x07 /* and emptied */
#define SERIAL_MAY_SEND   0x20
#define SERIAL_WAIT_TRIES 1000000

static bool serial;

void console_on_serial(void)
{
    serial = true;
    outb(SERIAL_INTERRUPTS, 0);
    outb(SERIAL_LINE, SERIAL_DLAB_8N1);
    outb(SERIAL_PORT, 1); /* 115,200 baud */
    outb(SERIAL_INTERRUPTS, 0);
    outb(SERIAL_LINE, SERIAL_8N1);
    outb(SERIAL_FIFOS, SERIAL_FIFOS_ON);
}

/* A port without a device reads as all ones, which lets the byte go. */
static void put_serial(char c)
{
    for (unsigned i = 0; i < SERIAL_WAIT_TRIES && !(inb(SERIAL_STATUS) & SERIAL_MAY_SEND); i++)
        continue;
    outb(SERIAL_PORT, (uint8_t)c);
}

static void put(char c)
{
    outb(CONSOLE_PORT, (uint8_t)c);
    if (serial && c == '\n')
        put_serial('\r');
    if (serial)
        put_serial(c);
}

void console_write(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        put(text[i]);
}

static void put_padded(const char *text, size_t len, unsigned width, char pad)
{
    for (size_t i = len; i < width; i++)
        put(pad);
    console_write(text, len);
}

static void put_number(uint64_t value, bool negative, unsigned base, unsigned width, char pad)
{
    char digits[24];
    size_t at = sizeof(digits);

    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    if (negative)
        digits[--at] = '-';
    put_padded(digits + at, sizeof(digits) - at, width, pad);
}

/* One conversion at *p, behind the percent sign; returns where the format goes on. */
static const char *convert(const char *p, va_list *args)
{
    char pad = ' ';
    unsigned width = 0;
    bool is_long = false;
    const char *text;
    int64_t number;

    if (*p == '0')
        pad = '0';
    for (; *p >= '0' && *p <= '9'; p++)
        width = width * 10 + (unsigned)(*p - '0');
    for (; *p == 'l'; p++)
        is_long = true;
    switch (*p) {
    case 'd':
        number = is_long ? va_arg(*args, int64_t) : va_arg(*args, int);
        put_number(number < 0 ? -(uint64_t)number : (uint64_t)number, number < 0, 10, width, pad);
        break;
    case 'u':
    case 'x':
        put_number(is_long ? va_arg(*args, uint64_t) : va_arg(*args, unsigned), false,
                   *p == 'x' ? 16 : 10, width, pad);
        break;
    case 's':
        text = va_arg(*args, const char *);
        put_padded(text, strlen(text), width, ' ');
        break;
    case 'c':
        put((char)va_arg(*args, int));
        break;
    default:
        put(*p);
        break;
    }
    return p + 1;
}

static void vprintf(const char *format, va_list *args)
{
    for (const char *p = format; *p;) {
        if (*p != '%')
            put(*p++);
        else
            p = convert(p + 1, args);
    }
}

void printf(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, &args);
    va_end(args);
}

/* ---- Report ------------------------------------------------------------------------------- */

static unsigned passed, failed, skipped;

static void begin_line(bool pass, const char *format, va_list *args)
{
    if (pass)
        passed++;
    else
        failed++;
    printf(pass ? "PASS: " : "FAIL: ");
    vprintf(format, args);
}

void vreport(bool pass, const char *format, va_list *args)
{
    begin_line(pass, format, args);
    printf("\n");
}

void report(bool pass, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vreport(pass, format, &args);
    va_end(args);
}

void report_value(uint64_t got, uint64_t want, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    begin_line(got == want, format, &args);
    va_end(args);
    if (got != want)
        printf(" (got 0x%lx, want 0x%lx)", got, want);
    printf("\n");
}

static void put_vector(unsigned vector)
{
    if (vector == GP_VECTOR)
        printf("#GP");
    else if (vector)
        printf("exception %u", vector);
    else
        printf("no exception");
}

void report_vector(unsigned got, unsigned want, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    begin_line(got == want, format, &args);
    va_end(args);
    if (got != want) {
        printf(" (got ");
        put_vector(got);
        printf(", want ");
        put_vector(want);
        printf(")");
    }
    printf("\n");
}

void report_skip(const char *reason, const char *format, ...)
{
    va_list args;

    skipped++;
    printf("SKIP: ");
    va_start(args, format);
    vprintf(format, &args);
    va_end(args);
    printf(" (%s)\n", reason);
}

int report_summary(void)
{
    printf("%u passed, %u failed", passed, failed);
    if (skipped)
        printf(", %u skipped", skipped);
    printf("\n");
    return failed ? 1 : 0;
}
