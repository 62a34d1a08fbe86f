/* SPDX-License-Identifier: BSD-3-Clause */
/* The version of vpt, which the build says. */
#ifndef VMM_VERSION_H
#define VMM_VERSION_H

#ifndef VPT_VERSION
#define VPT_VERSION "unknown"
#endif

#endif
