/* SPDX-License-Identifier: Apache-2.0 */
/* See host_tree.h. sysfs trees have no events, so a wait polls every millisecond. */
#include "test/sim/test/host_tree.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/deadline.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"

char host_tree_base[] = "/var/tmp/snap-sim-test-XXXXXX";
char state[64];

int host_tree_make(int argc, char **argv)
{
	(void)argc, (void)argv;
	if (!mkdtemp(host_tree_base))
		return -1;
	snprintf(state, sizeof(state), "%s/state", host_tree_base);
	return 0;
}

void host_tree_remove(void)
{
	state_remove(host_tree_base, state);
}

char *at(const char *below)
{
	return xasprintf("%s/one/%s", state, below);
}

bool there(const char *below)
{
	char *path AUTO(free) = at(below);

	return path_exists(path);
}

char *content(const char *below)
{
	char *path AUTO(free) = at(below);
	char *text = NULL;
	struct err err = ERR_INIT;

	return file_read_line(path, 4096, &text, &err) ? xstrdup("") : text;
}

void say(const char *below, const char *text)
{
	char *path AUTO(free) = at(below);
	struct err err = ERR_INIT;

	ck_assert_msg(file_write(path, text, &err) == 0, "%s", err.msg);
}

void until(bool (*ok)(const char *below), const char *below, bool wanted)
{
	struct deadline end = deadline_in_ms(PATIENCE_MS);
	struct timespec moment = { .tv_nsec = 1000000 };

	while (ok(below) != wanted) {
		ck_assert_msg(!deadline_passed(end), "%s is%s there", below, wanted ? " not" : "");
		nanosleep(&moment, NULL);
	}
}

void until_there(const char *below)
{
	until(there, below, true);
}

void until_gone(const char *below)
{
	until(there, below, false);
}

static bool has_no_override(const char *below)
{
	char *text AUTO(free) = content(below);

	return str_eq(text, "(null)");
}

void until_obeyed(const char *function)
{
	char *below AUTO(free) = xasprintf("%s/driver_override", function);

	/* In each pass snap-sim reads the overrides first, so the second answer is of a later pass. */
	for (int i = 0; i < 2; i++) {
		say(below, "\n");
		until(has_no_override, below, true);
	}
}
