/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the table of flags for docs/reference/flags.md (test/lint/flags.sh). */
#include "flags/flags.h"

int main(void)
{
	flags_print_markdown(stdout);
	return 0;
}
