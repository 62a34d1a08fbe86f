/* SPDX-License-Identifier: BSD-3-Clause */
void add_rtit_flow_suite(void);
void add_rtit_flow_suite(void) {}
