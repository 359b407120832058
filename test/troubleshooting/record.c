/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records each error text, health fault and log line that a test program causes, one per line:
 * "CODE<tab>text". The linker wraps these functions around the driver's own (rules.mk: --wrap), so
 * the tests need no change. TEXTS names the file; without it nothing is recorded. Tests fork, and
 * jobs are threads: a line is one write to a file that is only appended to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "controller/volume_health.h"
#include "node/health.h"
#include "node/holders/holders.h"

int __real_err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_(3, 4);
int __real_err_sys(struct err *err, int errnum, const char *fmt, ...) PRINTF_(3, 4);
int __real_err_wrap(struct err *err, const char *fmt, ...) PRINTF_(2, 3);
int __real_node_volume_health(struct node *n, const char *volume_id, const char *publish_path,
                              const char *staging_path, struct health *ret, struct err *err);
int __real_node_storage_health(struct node *n, struct health *ret, struct err *err);
int __real_volume_health(const struct controller *c, const char *id, struct deadline d,
                         struct arena *arena, struct volume_health *ret, struct err *err);

void __real_holders_find(const struct holders_query *q, struct deadline d, struct holders *ret);
void __real_holders_describe(const struct holders *h, const struct holders_query *q,
                             const char *device, struct str *text);

int __wrap_err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_(3, 4);
int __wrap_err_sys(struct err *err, int errnum, const char *fmt, ...) PRINTF_(3, 4);
int __wrap_err_wrap(struct err *err, const char *fmt, ...) PRINTF_(2, 3);
int __wrap_node_volume_health(struct node *n, const char *volume_id, const char *publish_path,
                              const char *staging_path, struct health *ret, struct err *err);
int __wrap_node_storage_health(struct node *n, struct health *ret, struct err *err);
int __wrap_volume_health(const struct controller *c, const char *id, struct deadline d,
                         struct arena *arena, struct volume_health *ret, struct err *err);
void __wrap_holders_find(const struct holders_query *q, struct deadline d, struct holders *ret);
void __wrap_holders_describe(const struct holders *h, const struct holders_query *q,
                             const char *device, struct str *text);

static void record(const char *code, const char *text)
{
	const char *path = getenv("TEXTS");
	char *line AUTO(free) = NULL;
	int fd AUTO(fd) = -1;
	int len;

	if (!path)
		return;
	len = asprintf(&line, "%s\t%s", code, text);
	if (len < 0)
		abort();
	for (char *at = line; *at; at++)
		if (*at == '\n')
			*at = ' ';
	line[len] = '\n'; /* replaces the terminator */
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	/* A test may have used up all descriptors. */
	if (fd < 0 && errno == EMFILE)
		return;
	if (fd < 0 || write(fd, line, (size_t)len + 1) != len + 1)
		abort();
}

static char *format_args(const char *fmt, va_list ap) PRINTF_(1, 0);
static char *format_args(const char *fmt, va_list ap)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	return text;
}

int __wrap_err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
	char *text AUTO(free) = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = format_args(fmt, ap);
	va_end(ap);
	__real_err_set(err, code, "%s", text);
	record(err_code_name(code), err->msg);
	return -1;
}

int __wrap_err_sys(struct err *err, int errnum, const char *fmt, ...)
{
	char *text AUTO(free) = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = format_args(fmt, ap);
	va_end(ap);
	__real_err_sys(err, errnum, "%s", text);
	record(err_code_name(err->code), err->msg);
	return -1;
}

int __wrap_err_wrap(struct err *err, const char *fmt, ...)
{
	char *text AUTO(free) = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = format_args(fmt, ap);
	va_end(ap);
	__real_err_wrap(err, "%s", text);
	record(err_code_name(err->code), err->msg);
	return -1;
}

/* ---- health ---- */

static void record_faults(const struct health *h, const char *degraded, const char *worse)
{
	for (size_t i = 0; i < h->n; i++)
		record(h->v[i].status == HEALTH_DEGRADED ? degraded : worse, h->v[i].reason);
}

int __wrap_node_volume_health(struct node *n, const char *volume_id, const char *publish_path,
                              const char *staging_path, struct health *ret, struct err *err)
{
	int rc = __real_node_volume_health(n, volume_id, publish_path, staging_path, ret, err);

	if (!rc)
		record_faults(ret, "degraded", "inaccessible");
	return rc;
}

int __wrap_node_storage_health(struct node *n, struct health *ret, struct err *err)
{
	int rc = __real_node_storage_health(n, ret, err);

	if (!rc)
		record_faults(ret, "degraded", "unreachable");
	return rc;
}

/* ---- the holders of a volume: a part of errors ---- */

void __wrap_holders_find(const struct holders_query *q, struct deadline d, struct holders *ret)
{
	__real_holders_find(q, d, ret);
	for (size_t i = 0; i < ret->first.n; i++)
		record("", ret->first.v[i]);
}

void __wrap_holders_describe(const struct holders *h, const struct holders_query *q,
                             const char *device, struct str *text)
{
	__real_holders_describe(h, q, device, text);
	record("", text->ptr);
}

/* ---- the log: recorded lines are passed on to the test's own destination ---- */

static void (*next_fn)(void *arg, const char *line);
static void *next_arg;

static void record_line(void *arg, const char *line)
{
	(void)arg;
	record("", line);
	if (next_fn)
		next_fn(next_arg, line);
	else
		fprintf(stderr, "%s\n", line);
}

void __real_log_redirect(void (*fn)(void *arg, const char *line), void *arg);
void __wrap_log_redirect(void (*fn)(void *arg, const char *line), void *arg);
void __wrap_log_redirect(void (*fn)(void *arg, const char *line), void *arg)
{
	next_fn = fn;
	next_arg = arg;
}

__attribute__((constructor)) static void begin(void)
{
	__real_log_redirect(record_line, NULL);
}

int __wrap_volume_health(const struct controller *c, const char *id, struct deadline d,
                         struct arena *arena, struct volume_health *ret, struct err *err)
{
	int rc = __real_volume_health(c, id, d, arena, ret, err);

	for (size_t i = 0; rc == 0 && i < ret->n; i++)
		record("", ret->v[i].reason);
	return rc;
}
