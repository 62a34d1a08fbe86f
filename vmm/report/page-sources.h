/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Source lines of the functions in which most ran, for the page. Their text is read from files that
 * debug information names, which is anybody's: only beneath the folder that the user gave.
 */
#ifndef VMM_REPORT_PAGE_SOURCES_H
#define VMM_REPORT_PAGE_SOURCES_H

#include "report/page.h"

#include <json-c/json.h>

#define PAGE_SOURCES_MAX     200u       /* functions, those with the most instructions */
#define PAGE_LINES_MAX       2000u      /* of one function in one file */
#define PAGE_AROUND          4u         /* lines that are shown around one that ran */
#define PAGE_SOURCE_FILE_MAX (4u << 20) /* bytes; a larger file is not read */
#define PAGE_TEXT_MAX        (4u << 20) /* bytes of text in the page */

/*
 * [{"function": NAME, "file": PATH, "insns": N, "lines": [[line, instructions, text]...]}...], an
 * entry for each function and file; text is left out where the file was not read. NULL: no memory.
 */
json_object *page_sources_to_json(const struct page *page);

#endif
