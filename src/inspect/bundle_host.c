/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a bundle about this host and its running driver. For files named by flags, only the
 * names are included.
 */
#include "inspect/bundle_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/file.h"
#include "common/limits.h"
#include "common/listen_address.h"
#include "common/mem.h"

#define METRICS_MAX (4 * 1024 * 1024)
#define METRICS_S 5

/* ---- flags ---- */

static void add_STRING(struct str *s, const char *name, const char *const *value)
{
	str_addf(s, "--%s=", name);
	str_add_shown(s, *value ? *value : "");
	str_add(s, "\n");
}
#define add_WORD add_STRING

static void add_BOOL(struct str *s, const char *name, const bool *value)
{
	str_addf(s, "--%s=%s\n", name, *value ? "true" : "false");
}

static void add_INT(struct str *s, const char *name, const int64_t *value)
{
	str_addf(s, "--%s=%" PRId64 "\n", name, *value);
}

static void add_DURATION(struct str *s, const char *name, const int64_t *value)
{
	str_addf(s, "--%s=%" PRId64 "ms\n", name, *value);
}

static void add_FLOAT(struct str *s, const char *name, const double *value)
{
	str_addf(s, "--%s=%g\n", name, *value);
}

static void add_OCTAL(struct str *s, const char *name, const mode_t *value)
{
	str_addf(s, "--%s=%04o\n", name, (unsigned)*value);
}

static void add_LIST(struct str *s, const char *name, const struct strs *value)
{
	char *joined AUTO(free) = value->n ? strs_join(value, ",") : xstrdup("");
	const char *text = joined;

	add_STRING(s, name, &text);
}

int bundle_flags(struct bundle *b, struct err *err)
{
	struct str s AUTO(str_clear) = STR_INIT(64 * 1024);
	const struct flags *f = &b->o->flags;

#define FLAG(kind, field, name, ...) add_##kind(&s, name, &f->field);
#include "flags/flags.def"
	return bundle_add(b, "flags.txt", s.ptr, err);
}

/* ---- mounts ---- */

static bool bundle_has_path(const struct bundle *b, const char *line)
{
	static const char *const lists[] = { "node.staged", "node.published" };

	json_foreach (v, json_member(b->r->tree, "volumes"))
		for (size_t i = 0; i < ARRAY_LEN(lists); i++)
			json_foreach (place, json_at(v, lists[i])) {
				const char *path = json_str(place, "path");
				const char *at = path ? strstr(line, path) : NULL;

				if (at && at[strlen(path)] == ' ')
					return true;
			}
	return false;
}

static void keep_line(const struct bundle *b, const char *line, struct str *out)
{
	if (!strstr(line, b->o->flags.name) && !bundle_has_path(b, line))
		return;
	str_add(out, line);
	str_add(out, "\n");
}

int bundle_mounts(struct bundle *b, struct err *err)
{
	struct str out AUTO(str_clear) = STR_INIT(LIMIT_MOUNTINFO);
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL, *rest = NULL;
	struct err failed = ERR_INIT;

	if (!b->o->flags.node)
		return 0;
	/* If the scan of the host was abandoned, this scan would also hang. */
	if (json_at(b->r->tree, "node.hangs"))
		return bundle_add(b, "mountinfo.error.txt",
		                  "not read: the scan of this host's state hangs\n", err);
	path = xasprintf("%s/self/mountinfo", b->o->flags.proc_root);
	if (file_read(path, LIMIT_MOUNTINFO, &text, NULL, &failed))
		return bundle_add(b, "mountinfo.error.txt", failed.msg, err);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		keep_line(b, line, &out);
	return bundle_add(b, "mountinfo.txt", out.ptr, err);
}

/* ---- metrics ---- */

static int bundle_read_page(int fd, struct str *page, struct err *err)
{
	static const char request[] =
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	char buf[16 * 1024];
	struct deadline d = deadline_in_ms(METRICS_S * 1000);
	ssize_t n = send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);

	if (n != (ssize_t)sizeof(request) - 1)
		return err_sys(err, errno, "send");
	while (!page->cut && !deadline_passed(d) && (n = recv(fd, buf, sizeof(buf), 0)) > 0)
		str_addn(page, buf, (size_t)n);
	if (page->cut || n > 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "the page does not end within %d s and %d bytes", METRICS_S,
		               METRICS_MAX);
	return n < 0 ? err_sys(err, errno, "receive") : 0;
}

static int bundle_get_metrics(const char *address, struct str *page, struct err *err)
{
	struct listen_address a;
	struct timeval patience = { .tv_sec = METRICS_S };
	int fd AUTO(fd) = -1;

	if (listen_address_parse(address, &a, err))
		return -1;
	fd = socket(a.to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, errno, "socket");
	IGNORE_RESULT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
	IGNORE_RESULT(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)));
	/* Connects to the loopback address if the server listens on all addresses. */
	if (connect(fd, (const struct sockaddr *)&a.to, a.n))
		return err_sys(err, errno, "connect to %s", address);
	return bundle_read_page(fd, page, err);
}

int bundle_metrics(struct bundle *b, struct err *err)
{
	struct str page AUTO(str_clear) = STR_INIT(METRICS_MAX);
	const char *address = b->o->flags.http_endpoint;
	struct err failed = ERR_INIT;
	const char *body;

	if (str_empty(address))
		return bundle_add(b, "metrics.error.txt",
		                  "no --http-endpoint of the running driver is known\n", err);
	if (bundle_get_metrics(address, &page, &failed))
		return bundle_add(b, "metrics.error.txt", failed.msg, err);
	body = strstr(page.ptr, "\r\n\r\n");
	return bundle_add(b, "metrics.txt", body ? body + 4 : page.ptr, err);
}
