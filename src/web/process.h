/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel knows of this process, as the metrics process_*. */
#pragma once

/* Sets them from /proc/self; what cannot be read keeps its last value. */
void process_look(void);
