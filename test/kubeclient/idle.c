/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of an idle client: the memory of a process before it has a client, and with an open
 * watch over TLS and HTTP/2. The scripted server runs in a child, so that only the client is
 * counted.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "test/kubeclient/front.h"
#include "test/lib/kube_fake.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define WATCH "GET " VOLUMES "?watch=1*"

static void report(const char *what)
{
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	unsigned long pss = 0, anonymous = 0, rss = 0;
	if (file_read("/proc/self/smaps_rollup", 65536, &text, NULL, &err))
		return;
	for (char *line = text; line; line = strchr(line, '\n'), line += line ? 1 : 0) {
		(void)sscanf(line, "Rss: %lu", &rss);
		(void)sscanf(line, "Pss: %lu", &pss);
		(void)sscanf(line, "Anonymous: %lu", &anonymous);
	}
	printf("%-34s rss %6lu kB  pss %6lu kB  anonymous %6lu kB\n", what, rss, pss, anonymous);
}

/* The child: runs the scripted server and reports its port, until the parent ends. */
static void serve(int out)
{
	struct fake_http *f = fake_http_start();
	int port = fake_http_port(f);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fake_http_on(
		f,
		(struct fake_reply) {
			.on = "GET " VOLUMES "?limit=1",
			.body = "{\"kind\":\"DPUVolumeList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}" });
	fake_http_on(f, (struct fake_reply) { .on = WATCH, .stream = true });
	fake_http_on(
		f,
		(struct fake_reply) {
			.on = "GET " VOLUMES "/a",
			.body = "{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\",\"uid\":\"u\"}}" });
	if (write(out, &port, sizeof(port)) != sizeof(port))
		_exit(1);
	for (;;)
		pause();
}

static int start_server(pid_t *pid)
{
	int fds[2], port = 0;
	if (pipe(fds))
		abort();
	*pid = fork();
	if (*pid == 0)
		serve(fds[1]);
	if (read(fds[0], &port, sizeof(port)) != sizeof(port))
		abort();
	return port;
}

static struct kube_wait *watch(struct kube_fake *f)
{
	int rc;
	struct kube_wait *wait = NULL;
	struct json *object = NULL;
	struct err err = ERR_INIT;
	ck_assert_int_eq(kube_wait_open(f->kube, &kind_volume, "ns", "a", &wait, &err), 0);
	rc = kube_wait_next(wait, wait_limit(), &object, &err);
	ck_assert_msg(rc == 0, "%s", err.msg);
	json_free(object);
	return wait;
}

static double cpu_us(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return 1e6 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void requests(struct kube_fake *f, int n)
{
	double cpu = cpu_us();
	int64_t begin = monotonic_ns();
	for (int i = 0; i < n; i++) {
		struct json *object AUTO(json_free) = NULL;
		struct err err = ERR_INIT;
		struct deadline d = wait_limit();
		ck_assert_int_eq(kube_get(f->kube, &kind_volume, "ns", "a", d, &object, &err), 0);
	}
	printf("%d requests, one after the other: %.0f us each, %.0f us of CPU here\n", n,
	       (double)(monotonic_ns() - begin) / 1000 / n, (cpu_us() - cpu) / n);
}

START_TEST(a_client_at_rest)
{
	char *url AUTO(free) = NULL;
	struct front front;
	struct kube_wait *wait;
	pid_t server;
	struct kube_fake f;
	int port = start_server(&server);
	report("without a client");
	kube_fake_start(&f, NULL);
	certificate_authority(f.dir, "ca");
	certificate(f.dir, "ca", "server", "IP:127.0.0.1");
	front = front_start(f.dir, "server", 0, port, "");
	url = xasprintf("https://127.0.0.1:%d", front.port);
	kube_fake_config(&f, url, "    certificate-authority: ca.pem\n", "    token: t\n");
	report("with a client that was not used");
	wait = watch(&f);
	sleep(1);
	report("with an open watch over TLS");
	requests(&f, 2000);
	sleep(1);
	report("after these requests");
	printf("connections %lu, answers over HTTP/2 %lu\n", http_stats(f.kube->http).connections,
	       http_stats(f.kube->http).http2);
	kube_wait_close(wait);
	f.kube = kube_free(f.kube);
	front_stop(&front);
	kube_fake_stop(&f);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
}
END_TEST

SUITE_TIMEOUT("idle", 60, a_client_at_rest);
