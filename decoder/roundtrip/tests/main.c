/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the unit tests for which the model makes a trace and the decoder reads it. */
#include "suites.h"

int main(void)
{
    static void (*const add[])(void) = {
        add_bundle_suite, add_time_suite,   add_guest_suite,  add_newest_suite,
        add_replay_suite, add_resync_suite, add_damage_suite,
    };

    return run_suites(add, sizeof(add) / sizeof(add[0]));
}
