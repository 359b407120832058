/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curl-floor: the CPU time of libcurl for requests to an API server, without the driver: no CSI, no
 * threads, no parsing. Creates volumes, reads them and deletes them, a given number at a time, and
 * reads their events in one watch over the same connection. An API server that is short of CPU ends
 * a watch that it considers slow: it is reopened at the same version. CPU time of the driver beyond
 * that is its own. Prints one line of JSON: milliseconds per volume. One thread.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <curl/curl.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/err.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/str.h"
#include "kube/kube_event.h"

/* The driver's values: a stream's, and one for the longest answer. */
#define STREAM_BYTES 262144L
#define ANSWER_BYTES (LIMIT_KUBE_ANSWER + STREAM_BYTES)
#define POLL_MS 1000
#define PATIENCE_S 300

struct floor {
	const char *url, *ca, *token; /* of the collection; a file; its text */
	unsigned n, parallel;
	struct curl_slist *headers;
	CURLM *multi;
	unsigned out, failed;
	CURL *watch;
	size_t events;         /* lines of the watch */
	struct str line, last; /* its incomplete line, and the previous one */
};

static void line_ended(struct floor *f)
{
	struct str before = f->last;

	f->last = f->line;
	f->line = before;
	str_reset(&f->line);
	f->events++;
}

static size_t on_event(char *bytes, size_t size, size_t n, void *arg)
{
	struct floor *f = arg;
	const char *at = bytes, *end = bytes + size * n, *newline;

	for (; (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
		str_addn(&f->line, at, (size_t)(newline - at));
		line_ended(f);
	}
	str_addn(&f->line, at, (size_t)(end - at));
	return size * n;
}

static size_t on_answer(char *bytes, size_t size, size_t n, void *arg)
{
	(void)bytes;
	(void)arg;
	return size * n;
}

static CURL *begin(struct floor *f, const char *url, long buffer)
{
	CURL *easy = curl_easy_init();

	if (!easy)
		abort();
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_CAINFO, f->ca);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, f->headers);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
	return easy;
}

/* Starts after the last event, if there was one. */
static void watch(struct floor *f)
{
	struct kube_event e = { 0 };
	bool seen = kube_event_scan(f->last.ptr, f->last.len, &e);
	char *url AUTO(free) =
		xasprintf("%s?watch=1%s%.*s", f->url, seen ? "&resourceVersion=" : "",
	                  (int)e.resource_version.n, e.resource_version.at);

	str_reset(&f->line);
	f->watch = begin(f, url, STREAM_BYTES);
	curl_easy_setopt(f->watch, CURLOPT_WRITEFUNCTION, on_event);
	curl_easy_setopt(f->watch, CURLOPT_WRITEDATA, f);
	curl_multi_add_handle(f->multi, f->watch);
}

static void start_create(struct floor *f, unsigned i)
{
	char *body AUTO(free) = xasprintf(
		"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUVolume\","
		"\"metadata\":{\"name\":\"floor-%u\",\"labels\":{\"app.kubernetes.io/managed-by\":\"csi.snap.nvidia.com\"},"
		"\"annotations\":{\"csi.snap.nvidia.com/name\":\"floor-%u\",\"csi.snap.nvidia.com/access-type\":\"block\","
		"\"csi.snap.nvidia.com/function-type\":\"vf\",\"csi.snap.nvidia.com/hotplug-function\":\"false\"}},"
		"\"spec\":{\"dpuStoragePolicyName\":\"example-policy\",\"accessModes\":[\"ReadWriteOnce\"],"
		"\"resources\":{\"requests\":{\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"}}",
		i, i);
	CURL *easy = begin(f, f->url, ANSWER_BYTES);

	curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, body);
	curl_multi_add_handle(f->multi, easy);
}

static CURL *begin_of_one(struct floor *f, unsigned i)
{
	char *url AUTO(free) = xasprintf("%s/floor-%u", f->url, i);

	return begin(f, url, ANSWER_BYTES);
}

static void start_get(struct floor *f, unsigned i)
{
	curl_multi_add_handle(f->multi, begin_of_one(f, i));
}

static void start_delete(struct floor *f, unsigned i)
{
	CURL *easy = begin_of_one(f, i);

	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
	curl_multi_add_handle(f->multi, easy);
}

static bool has_failed(CURL *easy, CURLcode code)
{
	const char *url = NULL;
	long status = 0;

	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &url);
	if (code == CURLE_OK && status < 300)
		return false;
	fprintf(stderr, "curl-floor: %s: HTTP status %ld, %s\n", url, status,
	        curl_easy_strerror(code));
	return true;
}

static void take_ended(struct floor *f)
{
	const CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(f->multi, &left))) {
		CURL *easy = message->easy_handle;

		f->failed += has_failed(easy, message->data.result);
		curl_multi_remove_handle(f->multi, easy);
		curl_easy_cleanup(easy);
		if (easy != f->watch)
			f->out--;
		else if (!f->failed)
			watch(f);
	}
}

static double cpu_ms(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return 1e3 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       1e-3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void turn(struct floor *f)
{
	int running;

	curl_multi_perform(f->multi, &running);
	take_ended(f);
	curl_multi_poll(f->multi, NULL, 0, POLL_MS, NULL);
}

/*
 * A volume that is created before the watch begins, and changed before that, has one event there
 * instead of two.
 */
static void await_watch(struct floor *f)
{
	int64_t end = monotonic_ns() + PATIENCE_S * INT64_C(1000000000);
	long status = 0;

	for (; status == 0; curl_easy_getinfo(f->watch, CURLINFO_RESPONSE_CODE, &status)) {
		turn(f);
		if (monotonic_ns() > end || f->failed) {
			fputs("curl-floor: the watch has not begun\n", stderr);
			exit(1);
		}
	}
}

/* All volumes, and the given number of events of each. */
static double phase(struct floor *f, void (*start)(struct floor *f, unsigned i),
                    unsigned events_each)
{
	size_t events = f->events + (size_t)f->n * events_each;
	int64_t end = monotonic_ns() + PATIENCE_S * INT64_C(1000000000);
	double before = cpu_ms();

	for (unsigned next = 0; next < f->n || f->out || f->events < events;) {
		for (; next < f->n && f->out < f->parallel; f->out++)
			start(f, next++);
		turn(f);
		if (monotonic_ns() > end || f->failed) {
			fprintf(stderr,
			        "curl-floor: %u of %u answered, %u failed, %zu events missing\n",
			        next - f->out, f->n, f->failed, events - f->events);
			exit(1);
		}
	}
	return (cpu_ms() - before) / f->n;
}

int main(int argc, char **argv)
{
	static const struct option flags[] = {
		{ "url", required_argument, NULL, 'u' },
		{ "ca", required_argument, NULL, 'c' },
		{ "token", required_argument, NULL, 't' },
		{ "n", required_argument, NULL, 'n' },
		{ "parallel", required_argument, NULL, 'p' },
		{ 0 },
	};
	struct floor f = { .n = 1000,
		           .parallel = 50,
		           .line = STR_INIT(LIMIT_HTTP_WATCH_LINE),
		           .last = STR_INIT(LIMIT_HTTP_WATCH_LINE) };
	char *bearer;
	double create, get;

	for (int flag; (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
		switch (flag) {
		case 'u':
			f.url = optarg;
			break;
		case 'c':
			f.ca = optarg;
			break;
		case 't':
			f.token = optarg;
			break;
		case 'n':
			f.n = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'p':
			f.parallel = (unsigned)strtoul(optarg, NULL, 10);
			break;
		default:
			return 2;
		}
	}
	if (!f.url || !f.ca || !f.token || !f.n) {
		fputs("curl-floor: --url, --ca and --token are needed\n", stderr);
		return 2;
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	bearer = xasprintf("Authorization: Bearer %s", f.token);
	f.headers = curl_slist_append(curl_slist_append(NULL, bearer),
	                              "Content-Type: application/json");
	f.multi = curl_multi_init();
	watch(&f);
	await_watch(&f);
	create = phase(&f, start_create, 2);
	get = phase(&f, start_get, 0);
	printf("{\"create\": %.3f, \"get\": %.3f, \"delete\": %.3f}\n", create, get,
	       phase(&f, start_delete, 1));
	return 0;
}
