/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend in the lab, where a full KVM runs under an emulated processor.
 */
#ifndef VMM_LAB_H
#define VMM_LAB_H

#include "run/run.h"

/* Runs the image in the lab. */
void lab_run(const struct run_options *options, struct run_result *result);

#endif
