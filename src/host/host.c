/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one command, from its arguments to its exit status. Results go to stdout, errors to stderr.
 * Text from a file or a device is escaped, so that it cannot control a terminal.
 */
#include "host/host.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/log_queue.h"
#include "common/mem.h"
#include "common/str.h"
#include "host/args.h"
#include "host/commands.h"

#define SAID_MAX (16 * 1024 * 1024)

/* Escapes each line, but keeps the newlines that the command itself has added. */
static void show(struct str *ret, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n\t");
		char *part AUTO(free) = xstrndup(text, n);

		str_add_shown(ret, part);
		text += n;
		if (*text)
			str_addn(ret, text++, 1);
	}
}

/*
 * Prints an error like a log line, so that `host watch` does not block if its stderr is not read.
 */
static void complain(const char *text, const char *more)
{
	struct str shown AUTO(str_clear) = STR_INIT(SAID_MAX);

	show(&shown, text);
	str_add(&shown, more);
	log_queue_write(shown.ptr, shown.len);
}

static int host_run(const struct host_args *a, struct str *said, struct err *err)
{
	switch (a->command) {
	case HOST_ATTACH:
		return host_attach(a, said, err);
	case HOST_DETACH:
		return host_detach(a, said, err);
	case HOST_LIST:
		return host_list(a, said, err);
	case HOST_CHECK:
		return host_check(a, said, err);
	case HOST_WATCH:
		return host_watch(a, err);
	case HOST_RESUME:
		return host_resume(a, said, err);
	}
	return err_set(err, ERR_INTERNAL, "no command");
}

static int host_command(const struct host_args *a)
{
	struct str said AUTO(str_clear) = STR_INIT(SAID_MAX),
			shown AUTO(str_clear) = STR_INIT(SAID_MAX);
	struct err err = ERR_INIT;
	int rc = host_run(a, &said, &err);
	const char *end = said.len && said.ptr[said.len - 1] != '\n' ? "\n" : "";

	if (rc < 0 || rc == HOST_NOT_READY) {
		complain(rc < 0 ? err.msg : said.ptr, rc < 0 ? "\n" : end);
		return rc < 0 ? HOST_FAILED : rc;
	}
	show(&shown, said.ptr);
	str_add(&shown, end);
	fputs(shown.ptr, stdout);
	if (fflush(stdout)) {
		complain("the result cannot be written to the standard output", "\n");
		return HOST_FAILED;
	}
	return rc;
}

int host_main(int argc, char *const argv[])
{
	struct host_args a;
	struct err err = ERR_INIT;
	int status = HOST_DONE;

	log_setup(0, false);
	if (host_args_parse(&a, argc, argv, &err)) {
		complain(err.msg, "\nsnap-csi-plugin host --help lists the commands\n");
		status = HOST_USAGE;
	} else if (a.help) {
		host_args_print_help(stdout);
	} else {
		status = host_command(&a);
	}
	host_args_clear(&a);
	log_flush();
	return status;
}
