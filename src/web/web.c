/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages. /metrics is rendered from atomics and /proc/self, so it never blocks. Host state
 * (sysfs may hang) is collected in the background, and the page shows the last values. Independent
 * of the driver's roles: main.c provides health and readiness.
 */
#include "web/web.h"

#include <stdlib.h>

#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "web/process.h"
#include "web/web_server.h"

#define LOOK_EVERY_NS (INT64_C(10) * 1000000000)
#define CHECKS_MAX 16384

enum { PAGE_HEALTH, PAGE_READY, PAGE_METRICS, PAGE_LOOK, PAGES };

struct web {
	struct web_options options;
	struct web_page pages[PAGES];
	struct web_server *server;
	/*
	 * When the host was last read for /metrics; monotonic ns; 0: never. One thread renders it
	 * at a time.
	 */
	int64_t looked_at;
};

void web_check(struct web_checks *checks, const char *name, const char *problem)
{
	if (problem)
		str_addf(&checks->text, "[-]%s: ", name);
	else
		str_addf(&checks->text, "[+]%s ok", name);
	if (problem)
		str_add_shown(&checks->text, problem);
	str_add(&checks->text, "\n");
	checks->failed |= problem != NULL;
}

static void make_health(void *arg, struct web_answer *ret)
{
	struct web *w = arg;
	struct err err = ERR_INIT;

	if (w->options.alive(w->options.arg, &err)) {
		ret->status = 503;
		str_add_shown(&ret->body, err.msg);
		str_add(&ret->body, "\n");
	} else {
		str_add(&ret->body, "ok\n");
	}
}

static void make_ready(void *arg, struct web_answer *ret)
{
	struct web_checks checks = { .text = STR_INIT(CHECKS_MAX) };
	struct web *w = arg;

	w->options.ready(w->options.arg, &checks);
	ret->status = checks.failed ? 503 : 200;
	str_addn(&ret->body, checks.text.ptr, checks.text.len);
	str_add(&ret->body, checks.failed ? "not ready\n" : "ok\n");
	str_clear(&checks.text);
}

static void make_metrics(void *arg, struct web_answer *ret)
{
	struct web *w = arg;
	int64_t now = monotonic_ns();

	if (w->options.look && (!w->looked_at || now - w->looked_at >= LOOK_EVERY_NS)) {
		w->looked_at = now;
		web_server_make(w->server, PAGE_LOOK);
	}
	process_look();
	if (w->options.count)
		w->options.count(w->options.arg);
	ret->type = "text/plain; version=0.0.4; charset=utf-8";
	metric_print(&ret->body, w->options.modes);
	if (w->options.more)
		w->options.more(w->options.arg, &ret->body);
}

/* Renders a page that no client can request, because its path is not valid. */
static void make_look(void *arg, struct web_answer *ret)
{
	struct web *w = arg;

	(void)ret;
	w->options.look(w->options.arg);
}

int web_start(const struct web_options *options, struct web **ret, struct err *err)
{
	struct web *w = xcalloc(1, sizeof(*w));

	w->options = *options;
	w->pages[PAGE_HEALTH] = (struct web_page) { "/healthz", make_health, w };
	w->pages[PAGE_READY] = (struct web_page) { "/readyz", make_ready, w };
	w->pages[PAGE_METRICS] = (struct web_page) { "/metrics", make_metrics, w };
	w->pages[PAGE_LOOK] = (struct web_page) { "", make_look, w };
	metric_set(METRIC_BUILD_INFO, 1, LABELS(options->version, options->mode, options->node));
	if (web_server_start(options->address, w->pages, PAGES, NULL, &w->server, err)) {
		free(w);
		return -1;
	}
	log_event(LOG_INFO, "serving /healthz, /readyz and /metrics", "address",
	          web_server_address(w->server), NULL);
	*ret = w;
	return 0;
}

struct web *web_stop(struct web *w)
{
	if (!w)
		return NULL;
	w->server = web_server_stop(w->server);
	if (w->server)
		return w;
	free(w);
	return NULL;
}
