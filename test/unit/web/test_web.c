/* SPDX-License-Identifier: Apache-2.0 */
/* The three pages, as a scraper and a kubelet see them. */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/metric.h"
#include "test/lib/suite.h"
#include "web/web.h"
#include "test/lib/wait.h"

static char socket_path[64];
static atomic_int looks;
static bool healthy;

static int alive(void *arg, struct err *err)
{
	(void)arg;
	return healthy ? 0 : err_set(err, ERR_UNAVAILABLE, "no answer from \x1b[1m csi.sock");
}

static void ready(void *arg, struct web_checks *ret)
{
	(void)arg;
	web_check(ret, "first", NULL);
	web_check(ret, "second", healthy ? NULL : "is missing\nbadly");
}

static void look(void *arg)
{
	(void)arg;
	atomic_fetch_add(&looks, 1);
}

static struct web *serve(bool well)
{
	char *address AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct web *w = NULL;

	healthy = well;
	snprintf(socket_path, sizeof(socket_path), "/tmp/test-web-%d.sock", getpid());
	address = xasprintf("unix:%s", socket_path);
	ck_assert_msg(web_start(&(const struct web_options) { .address = address,
	                                                      .version = "1.2.3",
	                                                      .mode = "node",
	                                                      .node = "worker-1.example",
	                                                      .modes = METRIC_NODE,
	                                                      .alive = alive,
	                                                      .ready = ready,
	                                                      .look = look },
	                        &w, &err) == 0,
	              "%s", err.msg);
	return w;
}

static char *get(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char *request AUTO(free) = xasprintf("GET %s HTTP/1.0\r\n\r\n", path);
	int fd AUTO(fd) = socket(AF_UNIX, SOCK_STREAM, 0);
	struct str all = STR_INIT(4 << 20);
	char buf[4096];
	ssize_t n;

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", socket_path);
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	ck_assert_int_gt(send(fd, request, strlen(request), MSG_NOSIGNAL), 0);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		str_addn(&all, buf, (size_t)n);
	return str_take(&all);
}

static void expect(const char *path, const char *text)
{
	char *all AUTO(free) = get(path);

	ck_assert_msg(strstr(all, text) != NULL, "\"%s\" is not in: %.900s", text, all);
}

START_TEST(a_process_that_is_well_says_so)
{
	struct web *w = serve(true);

	expect("/healthz", "HTTP/1.1 200 OK\r\n");
	expect("/readyz", "HTTP/1.1 200 OK\r\n");
	expect("/readyz", "\r\n\r\n[+]first ok\n[+]second ok\nok\n");
	ck_assert_ptr_null(web_stop(w));
}
END_TEST

START_TEST(what_is_missing_is_said_in_one_line_each)
{
	struct web *w = serve(false);

	expect("/healthz", "HTTP/1.1 503 Service Unavailable\r\n");
	expect("/healthz", "\r\n\r\nno answer from \\u001b[1m csi.sock\n");
	expect("/readyz", "HTTP/1.1 503 Service Unavailable\r\n");
	expect("/readyz", "\r\n\r\n[+]first ok\n[-]second: is missing\\nbadly\nnot ready\n");
	web_stop(w);
}
END_TEST

START_TEST(metrics_come_with_what_runs_and_the_process)
{
	struct web *w = serve(true);

	expect("/metrics", "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
	expect("/metrics",
	       "\nsnap_csi_build_info{version=\"1.2.3\",mode=\"node\",node=\"worker-1.example\"} 1\n");
	expect("/metrics", "\nprocess_threads ");
	expect("/metrics", "\nprocess_resident_memory_bytes ");
	expect("/metrics", "\nprocess_start_time_seconds 1");
	web_stop(w);
}
END_TEST

START_TEST(the_host_is_looked_at_beside_the_page_and_not_each_time)
{
	struct web *w = serve(true);

	for (int i = 0; i < 5; i++)
		expect("/metrics", "200 OK");
	WAIT_UNTIL(atomic_load(&looks));
	web_stop(w);
	ck_assert_int_eq(atomic_load(&looks), 1);
}
END_TEST

SUITE("web", a_process_that_is_well_says_so, what_is_missing_is_said_in_one_line_each,
      metrics_come_with_what_runs_and_the_process,
      the_host_is_looked_at_beside_the_page_and_not_each_time);
