/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics process_*, from the kernel's data about this process. */
#pragma once

/* Sets the metrics from /proc/self. Those that cannot be read keep their last value. */
void process_look(void);
