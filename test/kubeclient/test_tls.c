/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes client over TLS and HTTP/2: sharing of connections, trust, and behaviour when
 * certificates change, a peer hangs, or sends GOAWAY.
 */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/metric.h"
#include "test/kubeclient/front.h"
#include "test/kubeclient/relay.h"
#include "test/lib/kube_fake.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define LIST "GET " VOLUMES "?limit=1"
#define WATCH "GET " VOLUMES "?watch=1*"
#define OBJECT(name, version, phase)                             \
	"{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"" name \
	"\",\"namespace\":\"ns\",\"uid\":\"u1\","                \
	"\"resourceVersion\":\"" version "\"},\"status\":{\"phase\":\"" phase "\"}}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define TOKEN "    token: token-1\n"

struct tls_world {
	struct kube_fake fake;
	struct front front;
	char ca[200]; /* YAML: trust <dir>/ca.pem */
};

static void config(struct tls_world *w, int port, const char *cluster, const char *user)
{
	char *url AUTO(free) = xasprintf("https://127.0.0.1:%d", port);
	kube_fake_config(&w->fake, url, cluster, user);
}

/* A front with a certificate for 127.0.0.1 of the CA "ca", which the client trusts. */
static void world_start_tuned(struct tls_world *w, const struct kube_tuning *tuning)
{
	kube_fake_start(&w->fake, tuning);
	certificate_authority(w->fake.dir, "ca");
	certificate(w->fake.dir, "ca", "server", "IP:127.0.0.1");
	w->front = front_start(w->fake.dir, "server", 0, fake_http_port(w->fake.server), "");
	snprintf(w->ca, sizeof(w->ca), "    certificate-authority: ca.pem\n");
	config(w, w->front.port, w->ca, TOKEN);
	fake_http_on(
		w->fake.server,
		(struct fake_reply) {
			.on = LIST,
			.body = "{\"kind\":\"DPUVolumeList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}" });
	fake_http_on(w->fake.server, (struct fake_reply) { .on = WATCH, .stream = true });
}

static void world_start(struct tls_world *w)
{
	world_start_tuned(w, NULL);
}

static void world_stop(struct tls_world *w)
{
	w->fake.kube = kube_free(w->fake.kube);
	if (w->front.pid)
		front_stop(&w->front);
	kube_fake_stop(&w->fake);
}

static void serve_object(struct tls_world *w, const char *version, const char *phase,
                         unsigned times)
{
	char *body AUTO(free) = xasprintf(OBJECT("a", "%s", "%s"), version, phase);
	fake_http_on(
		w->fake.server,
		(struct fake_reply) { .on = "GET " VOLUMES "/a", .body = body, .times = times });
}

static int get(struct tls_world *w, int ms, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	return kube_get(w->fake.kube, &kind_volume, "ns", "a", deadline_in_ms(ms), &object, err);
}

static void get_works(struct tls_world *w, const char *what)
{
	struct err err = ERR_INIT;
	ck_assert_msg(get(w, 20000, &err) == 0, "%s: %s", what, err.msg);
}

/*
 * Bytes from the server may still be on their way through the front and the relay. A client without
 * the head of the answer tolerates the silence of a request, which is longer than a stream's.
 */
static void stream_has_arrived(void)
{
	WAIT_UNTIL(metric_value(METRIC_WATCH_OPEN, LABELS("dpuvolumes")));
	ck_assert_int_eq(metric_value(METRIC_WATCH_OPEN, LABELS("dpuvolumes")), 1);
}

/* A watch that is open and has delivered the object's first state. */
static struct kube_wait *watch(struct tls_world *w)
{
	int rc;
	struct kube_wait *wait = NULL;
	struct err err = ERR_INIT;
	struct json *object AUTO(json_free) = NULL;
	ck_assert_int_eq(kube_wait_open(w->fake.kube, &kind_volume, "ns", "a", &wait, &err), 0);
	rc = kube_wait_next(wait, wait_limit(), &object, &err);
	ck_assert_msg(rc == 0, "%s", err.msg);
	ck_assert(fake_http_wait_streams(w->fake.server, WATCH, 1));
	stream_has_arrived();
	return wait;
}

static void told(struct kube_wait *wait, const char *phase)
{
	struct err err = ERR_INIT;
	struct json *object AUTO(json_free) = NULL;
	int rc = kube_wait_next(wait, wait_limit(), &object, &err);
	ck_assert_msg(rc == 0, "%s", err.msg);
	ck_assert_str_eq(json_str(object, "status.phase"), phase);
}

/*
 * While a stream moves to another connection, the server may still push into the old one. So the
 * event is pushed until the wait receives it; all have one version, so it is received once.
 */
static void push_until_told(struct tls_world *w, struct kube_wait *wait)
{
	struct json *object = NULL;
	int rc = -1;
	for (int i = 0; rc && i < 100; i++) {
		struct err err = ERR_INIT;
		fake_http_push(w->fake.server, WATCH, EVENT("MODIFIED", OBJECT("a", "2", "Bound")));
		rc = kube_wait_next(wait, deadline_in_ms(200), &object, &err);
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_str_eq(json_str(object, "status.phase"), "Bound");
	json_free(object);
}

static struct http_stats stats(struct tls_world *w)
{
	return http_stats(w->fake.kube->http);
}

START_TEST(a_watch_and_requests_share_one_http2_connection)
{
	struct kube_wait *wait;
	struct tls_world w;
	unsigned long before;

	world_start(&w);
	serve_object(&w, "1", "Pending", 0);
	wait = watch(&w);
	before = stats(&w).http2;
	for (int i = 0; i < 20; i++)
		get_works(&w, "get");
	fake_http_push(w.fake.server, WATCH, EVENT("MODIFIED", OBJECT("a", "2", "Bound")));
	told(wait, "Bound");
	ck_assert_uint_eq(stats(&w).http2 - before, 20);
	ck_assert_uint_eq(stats(&w).connections, 1);
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

#define MANY 150

struct many {
	struct tls_world *w;
	unsigned good;
	pthread_mutex_t lock;
};

static void *many_thread(void *arg)
{
	struct many *m = arg;
	struct err err = ERR_INIT;
	bool good = get(m->w, 60000, &err) == 0;
	WITH_LOCK(&m->lock);
	m->good += good;
	return NULL;
}

START_TEST(a_hundred_and_fifty_parallel_requests_open_no_further_connection)
{
	struct kube_wait *wait;
	struct tls_world w;
	struct many m = { .w = &w, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t threads[MANY];
	struct kube_tuning patient = { .attempt_ms = 60000 };
	world_start_tuned(&w, &patient);
	serve_object(&w, "1", "Pending", 0);
	wait = watch(&w);
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, many_thread, &m), 0);
	for (int i = 0; i < MANY; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(m.good, MANY);
	ck_assert_uint_le(stats(&w).connections, 2);
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

START_TEST(a_request_out_of_time_ends_alone)
{
	struct kube_wait *wait;
	struct tls_world w;
	struct err err = ERR_INIT;
	struct kube_tuning patient = { .attempt_ms = 20000 };
	world_start_tuned(&w, &patient);
	serve_object(&w, "1", "Pending", 1);
	fake_http_on(w.fake.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "/a", .hang = true, .times = 1 });
	serve_object(&w, "1", "Pending", 0);
	wait = watch(&w);
	/* Long enough to be sent on a busy machine: this request gets the reply that hangs. */
	ck_assert_int_eq(get(&w, 2000, &err), -1);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
	get_works(&w, "after it");
	fake_http_push(w.fake.server, WATCH, EVENT("MODIFIED", OBJECT("a", "2", "Bound")));
	told(wait, "Bound");
	ck_assert_uint_eq(stats(&w).connections, 1);
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

START_TEST(a_server_that_speaks_http1_only_gets_more_connections)
{
	struct kube_wait *wait;
	struct tls_world w;
	struct many m = { .w = &w, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t threads[40];
	world_start(&w);
	front_stop(&w.front);
	w.front = front_start(w.fake.dir, "server", w.front.port, fake_http_port(w.fake.server),
	                      "--npn-list=http/1.1");
	serve_object(&w, "1", "Pending", 0);
	wait = watch(&w);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, many_thread, &m), 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(m.good, ARRAY_LEN(threads));
	ck_assert_uint_eq(stats(&w).http2, 0);
	ck_assert_uint_le(stats(&w).connections, 9);
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

START_TEST(only_the_given_certificates_are_trusted)
{
	static const struct {
		const char *what, *cluster, *name; /* name: the name in the server's certificate */
		bool good;
	} rows[] = {
		{ "another CA", "    certificate-authority: other.pem\n", "IP:127.0.0.1", false },
		{ "no CA", "", "IP:127.0.0.1", false },
		{ "another name", "    certificate-authority: ca.pem\n", "DNS:kubernetes", false },
		{ "the name that was asked for",
		  "    certificate-authority: ca.pem\n    tls-server-name: kubernetes\n",
		  "DNS:kubernetes", true },
		{ "another name than was asked for",
		  "    certificate-authority: ca.pem\n    tls-server-name: kubernetes\n",
		  "IP:127.0.0.1", false },
		{ "not looked at", "    insecure-skip-tls-verify: true\n", "DNS:x", true },
	};
	struct tls_world w;

	world_start(&w);
	serve_object(&w, "1", "Pending", 0);
	certificate_authority(w.fake.dir, "other");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int rc;
		unsigned requests;
		struct err err = ERR_INIT;
		front_stop(&w.front);
		certificate(w.fake.dir, "ca", "server", rows[i].name);
		w.front = front_start(w.fake.dir, "server", w.front.port,
		                      fake_http_port(w.fake.server), "");
		config(&w, w.front.port, rows[i].cluster, TOKEN);
		requests = fake_http_count(w.fake.server, "*");
		rc = get(&w, 20000, &err);
		ck_assert_msg(rc == (rows[i].good ? 0 : -1), "%s: %s", rows[i].what, err.msg);
		if (rows[i].good)
			continue;
		ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "certificate"),
		              "%s: %s", rows[i].what, err.msg);
		ck_assert_uint_eq(fake_http_count(w.fake.server, "*"), requests);
	}
	world_stop(&w);
}
END_TEST

/* A mount namespace of this test's own process, whose /etc/ssl/certs has the CA "system". */
static void make_system_store(struct tls_world *w)
{
	char *store AUTO(free) = xasprintf("%s/store", w->fake.dir);
	char *command AUTO(free) =
		xasprintf("mkdir %s && cp %s/system.pem %s/ca-certificates.crt && "
	                  "cp %s/system.pem %s/$(openssl x509 -hash -noout -in %s/system.pem).0",
	                  store, w->fake.dir, store, w->fake.dir, store, w->fake.dir);
	shell(command);
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount(store, "/etc/ssl/certs", NULL, MS_BIND, NULL), 0);
}

START_TEST(a_certificate_of_the_system_store_is_refused_when_a_ca_is_given)
{
	struct err err = ERR_INIT;
	struct tls_world w;
	struct kube_options options;
	char *command AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("a mount namespace with another /etc/ssl/certs");
	world_start(&w);
	w.fake.kube = kube_free(w.fake.kube); /* unshare() is for a process with one thread */
	serve_object(&w, "1", "Pending", 0);
	certificate_authority(w.fake.dir, "system");
	certificate(w.fake.dir, "system", "server", "IP:127.0.0.1");
	front_stop(&w.front);
	make_system_store(&w);
	w.front = front_start(w.fake.dir, "server", 0, fake_http_port(w.fake.server), "");
	config(&w, w.front.port, "", TOKEN);
	options = (struct kube_options) { .kubeconfig = w.fake.kubeconfig };
	ck_assert_int_eq(kube_new(&options, &w.fake.kube, &err), 0);
	get_works(&w, "the store is used when no CA is given");

	config(&w, w.front.port, w.ca, TOKEN);
	ck_assert_int_eq(get(&w, 20000, &err), -1);
	ck_assert_msg(strstr(err.msg, "certificate") != NULL, "%s", err.msg);
	command = xasprintf("rm -r %s/store", w.fake.dir);
	umount2("/etc/ssl/certs", MNT_DETACH);
	shell(command);
	world_stop(&w);
}
END_TEST

START_TEST(a_client_certificate_is_shown)
{
	struct tls_world w;
	struct err err = ERR_INIT;
	world_start(&w);
	serve_object(&w, "1", "Pending", 0);
	certificate_authority(w.fake.dir, "clients");
	certificate(w.fake.dir, "clients", "client", "DNS:client");
	front_stop(&w.front);
	w.front = front_start(w.fake.dir, "server", w.front.port, fake_http_port(w.fake.server),
	                      "--verify-client --verify-client-cacert=clients.pem");
	ck_assert_int_eq(get(&w, 1500, &err), -1);
	config(&w, w.front.port, w.ca,
	       "    client-certificate: client.pem\n    client-key: client.key\n");
	get_works(&w, "with the certificate");
	world_stop(&w);
}
END_TEST

static char *read_pem(const struct tls_world *w, const char *name)
{
	char *path AUTO(free) = xasprintf("%s/%s", w->fake.dir, name), *text = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(!file_read(path, 100000, &text, NULL, &err), "%s", err.msg);
	return text;
}

/* An error that the check of the file cannot find ends the request, but never the process. */
START_TEST(a_client_key_that_openssl_cannot_use_fails_each_request)
{
	static const struct {
		const char *what, *make; /* of client.key to key.pem */
	} rows[] = {
		{ "PKCS#8 with a pass phrase", "pkcs8 -topk8 -v2 aes256 -passout pass:x" },
		{ "PKCS#1 with a pass phrase", "pkey -traditional -aes256 -passout pass:x" },
		{ "the key of another certificate", "genpkey -algorithm RSA -out key.pem; true" },
	};
	struct tls_world w;

	world_start(&w);
	certificate_authority(w.fake.dir, "clients");
	certificate(w.fake.dir, "clients", "client", "DNS:client");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *command AUTO(free) =
			xasprintf("cd %s && openssl %s -in client.key -out key.pem 2>&1",
		                  w.fake.dir, rows[i].make);
		char *url AUTO(free) = xasprintf("https://127.0.0.1:%d", w.front.port);
		char *ca AUTO(free) = read_pem(&w, "ca.pem"),
			 *cert AUTO(free) = read_pem(&w, "client.pem");
		char *key AUTO(free) = NULL;
		struct http_request q = { .method = "GET", .path = "/", .max_body = 1000 };
		struct http_result result;
		struct err err = ERR_INIT;
		struct http *h;

		shell(command);
		key = read_pem(&w, "key.pem");
		ck_assert_msg(!http_new(
				      &(struct http_endpoint) {
					      .url = url, .ca = ca, .cert = cert, .key = key },
				      NULL, &h, &err),
		              "%s", err.msg);
		http_do(h, &q, wait_limit(), &result);
		ck_assert_msg(result.end == HTTP_NOT_SENT, "%s: %d", rows[i].what, result.end);
		ck_assert_msg(strstr(result.why, "rivate key"), "%s: %s", rows[i].what, result.why);
		free(result.body);
		http_free(h);
	}
	world_stop(&w);
}
END_TEST

START_TEST(a_rotated_ca_is_followed_and_the_watch_moves)
{
	char *command AUTO(free) = NULL;
	unsigned long epochs;
	struct kube_wait *wait;
	struct tls_world w;

	world_start(&w);
	serve_object(&w, "1", "Pending", 0);
	wait = watch(&w);
	epochs = stats(&w).epochs;

	command = xasprintf("cd %s && rm ca.pem", w.fake.dir);
	front_stop(&w.front);
	shell(command);
	certificate_authority(w.fake.dir, "ca");
	certificate(w.fake.dir, "ca", "server", "IP:127.0.0.1");
	w.front =
		front_start(w.fake.dir, "server", w.front.port, fake_http_port(w.fake.server), "");
	get_works(&w, "after the rotation");
	ck_assert(fake_http_wait(w.fake.server, WATCH, 2));
	ck_assert(fake_http_wait_streams(w.fake.server, WATCH, 1));
	fake_http_push(w.fake.server, WATCH, EVENT("MODIFIED", OBJECT("a", "2", "Bound")));
	told(wait, "Bound");
	ck_assert_uint_eq(stats(&w).epochs, epochs + 1);
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

START_TEST(a_rotated_token_needs_no_new_connection)
{
	char *seen AUTO(free) = NULL;
	unsigned long epochs;
	struct tls_world w;

	world_start(&w);
	serve_object(&w, "1", "Pending", 0);
	kube_fake_file(&w.fake, "token", "first");
	config(&w, w.front.port, w.ca, "    tokenFile: token\n");
	get_works(&w, "first");
	epochs = stats(&w).epochs;
	kube_fake_file(&w.fake, "token", "second");
	get_works(&w, "second");
	seen = fake_http_last(w.fake.server, "GET " VOLUMES "/a");
	ck_assert_msg(strcasestr(seen, "authorization: Bearer second\r\n") != NULL, "%s", seen);
	ck_assert_uint_eq(stats(&w).epochs, epochs);
	ck_assert_uint_eq(stats(&w).connections, 1);
	world_stop(&w);
}
END_TEST

struct pusher {
	struct fake_http *server;
	atomic_bool leave;
};

static void *push_events(void *arg)
{
	struct pusher *p = arg;
	while (!p->leave) {
		fake_http_push(p->server, WATCH, EVENT("MODIFIED", OBJECT("other", "2", "Bound")));
		usleep(50000);
	}
	return NULL;
}

START_TEST(a_hung_peer_is_left_and_the_watch_with_it)
{
	struct relay *relay;
	unsigned connections;
	struct kube_wait *wait;
	struct tls_world w;
	struct kube_tuning t = { .http = { .silence_ms = 1500 }, .attempt_ms = 1000 };
	world_start_tuned(&w, &t);
	relay = relay_start(w.front.port);
	config(&w, relay_port(relay), w.ca, TOKEN);
	serve_object(&w, "1", "Pending", 0);
	wait = watch(&w);
	connections = relay_connections(relay);
	relay_freeze(relay);
	get_works(&w, "the peer hangs, another connection works");
	ck_assert_uint_gt(relay_connections(relay), connections);
	/* The watch has also moved, although nothing was sent over its stream. */
	ck_assert(fake_http_wait(w.fake.server, WATCH, 2));
	push_until_told(&w, wait);
	kube_wait_close(wait);
	w.fake.kube = kube_free(w.fake.kube);
	relay_stop(relay);
	world_stop(&w);
}
END_TEST

/* The server delays one request, and answers others over the same connection. */
START_TEST(a_slow_answer_over_a_lively_connection_is_waited_for)
{
	struct kube_wait *wait;
	struct tls_world w;
	struct err err = ERR_INIT;
	struct json *object AUTO(json_free) = NULL;
	struct kube_tuning t = { .http = { .silence_ms = 1000 } };
	struct pusher pusher = { .server = NULL };
	struct http_stats before;
	pthread_t thread;
	world_start_tuned(&w, &t);
	serve_object(&w, "1", "Pending", 0);
	fake_http_on(w.fake.server, (struct fake_reply) { .on = "GET " VOLUMES "/slow",
	                                                  .delay_ms = 4000,
	                                                  .body = OBJECT("slow", "1", "Bound") });
	wait = watch(&w);
	before = stats(&w);
	pusher.server = w.fake.server;
	ck_assert_int_eq(pthread_create(&thread, NULL, push_events, &pusher), 0);
	ck_assert_msg(
		kube_get(w.fake.kube, &kind_volume, "ns", "slow", wait_limit(), &object, &err) == 0,
		"%s", err.msg);
	pusher.leave = true;
	pthread_join(thread, NULL);
	ck_assert_uint_eq(fake_http_count(w.fake.server, "GET " VOLUMES "/slow"), 1);
	ck_assert_uint_eq(stats(&w).epochs, before.epochs);
	ck_assert_uint_eq(stats(&w).connections, before.connections);
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

START_TEST(a_watch_on_a_hung_peer_is_opened_again_without_any_request)
{
	struct relay *relay;
	struct kube_wait *wait;
	struct tls_world w;
	struct kube_tuning t = { .watch_silence_ms = 2000 };
	world_start_tuned(&w, &t);
	relay = relay_start(w.front.port);
	config(&w, relay_port(relay), w.ca, TOKEN);
	serve_object(&w, "1", "Pending", 0);
	wait = watch(&w);
	relay_freeze(relay);
	ck_assert(fake_http_wait(w.fake.server, WATCH, 2));
	push_until_told(&w, wait);
	kube_wait_close(wait);
	w.fake.kube = kube_free(w.fake.kube);
	relay_stop(relay);
	world_stop(&w);
}
END_TEST

/*
 * After a GOAWAY a server serves the open watch to its end and accepts no new streams: with only
 * one connection allowed, everything else would wait for the watch without end. This server sends a
 * GOAWAY after every 20 requests.
 */
START_TEST(a_goaway_with_an_open_watch_holds_nothing_up)
{
	struct kube_wait *wait;
	struct tls_world w;
	struct many m = { .w = &w, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t threads[MANY];
	world_start(&w);
	front_stop(&w.front);
	w.front = front_start(w.fake.dir, "server", w.front.port, fake_http_port(w.fake.server),
	                      "--frontend-max-requests=20");
	serve_object(&w, "1", "Pending", 0);
	wait = watch(&w);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, many_thread, &m), 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(m.good, ARRAY_LEN(threads));
	ck_assert_uint_gt(stats(&w).connections, 1);
	ck_assert_uint_eq(fake_http_count(w.fake.server, WATCH), 1);
	fake_http_push(w.fake.server, WATCH, EVENT("MODIFIED", OBJECT("a", "2", "Bound")));
	told(wait, "Bound");
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

struct soak {
	struct tls_world *w;
	unsigned id, rounds;
};

static void *soak_thread(void *arg)
{
	struct soak *s = arg;
	char *name AUTO(free) = xasprintf("s%u", s->id);
	for (unsigned i = 0; i < s->rounds; i++) {
		char *event AUTO(free) = NULL;
		int rc;
		struct err err = ERR_INIT;
		struct json *object AUTO(json_free) = NULL, *state AUTO(json_free) = NULL;
		struct kube_wait *wait AUTO(kube_wait_close) = NULL;
		ck_assert_int_eq(
			kube_wait_open(s->w->fake.kube, &kind_volume, "ns", name, &wait, &err), 0);
		ck_assert_int_eq(kube_get(s->w->fake.kube, &kind_volume, "ns", "a", wait_limit(),
		                          &object, &err),
		                 0);
		event = xasprintf(EVENT("ADDED", OBJECT("s%u", "%u", "Bound")), s->id,
		                  1000 + s->id * 1000 + i);
		ck_assert(fake_http_wait_streams(s->w->fake.server, WATCH, 1));
		fake_http_push(s->w->fake.server, WATCH, event);
		rc = kube_wait_next(wait, wait_limit(), &state, &err);
		ck_assert_msg(rc == 0, "%s", err.msg);
	}
	return NULL;
}

START_TEST(many_threads_create_and_wait_at_once)
{
	struct kube_wait *wait;
	struct tls_world w;
	pthread_t threads[8];
	struct soak s[8];
	world_start(&w);
	serve_object(&w, "1", "Pending", 0);
	wait = watch(&w);
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++) {
		s[i] = (struct soak) { .w = &w, .id = i, .rounds = 30 };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, soak_thread, &s[i]), 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_le(stats(&w).connections, 2);
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

SUITE_TIMEOUT("kubeclient", 120, a_watch_and_requests_share_one_http2_connection,
              a_hundred_and_fifty_parallel_requests_open_no_further_connection,
              a_request_out_of_time_ends_alone,
              a_server_that_speaks_http1_only_gets_more_connections,
              only_the_given_certificates_are_trusted,
              a_certificate_of_the_system_store_is_refused_when_a_ca_is_given,
              a_client_certificate_is_shown,
              a_client_key_that_openssl_cannot_use_fails_each_request,
              a_rotated_ca_is_followed_and_the_watch_moves, a_rotated_token_needs_no_new_connection,
              a_slow_answer_over_a_lively_connection_is_waited_for,
              a_hung_peer_is_left_and_the_watch_with_it,
              a_watch_on_a_hung_peer_is_opened_again_without_any_request,
              a_goaway_with_an_open_watch_holds_nothing_up, many_threads_create_and_wait_at_once);
