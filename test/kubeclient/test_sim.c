/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes client with snap-sim behind nghttpx: HTTP/2 over TLS to a server that behaves like
 * an API server, with objects, finalizers, history and faults.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "test/kubeclient/front.h"
#include "test/lib/kube_fake.h"
#include "test/lib/sim_process.h"
#include "test/lib/suite.h"

#define NS SIM_NS
#define WAIT_MS 60000

struct front_world {
	/* for its directory and kubeconfig; its server receives no request */
	struct kube_fake fake;
	struct front front;
};

static void world_start(struct front_world *w)
{
	char *url AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct json *none = NULL;
	const char *const options[] = { "--bookmark-ms=200", "--bind-delay-ms=50",
		                        "--delete-delay-ms=50", NULL };
	kube_fake_start(&w->fake, NULL);
	sim_start(options);
	certificate_authority(w->fake.dir, "ca");
	certificate(w->fake.dir, "ca", "server", "IP:127.0.0.1");
	w->front = front_start(w->fake.dir, "server", 0, sim.port, "");
	url = xasprintf("https://127.0.0.1:%d", w->front.port);
	kube_fake_config(&w->fake, url, "    certificate-authority: ca.pem\n", "");
	/*
	 * While one thread reads the new configuration, others still use the old one. So it is read
	 * here, before the test starts threads.
	 */
	ck_assert_int_eq(kube_get(w->fake.kube, &kind_volume, NS, "none", deadline_in_ms(WAIT_MS),
	                          &none, &err),
	                 1);
}

static void world_stop(struct front_world *w)
{
	ck_assert_uint_eq(http_stats(w->fake.kube->http).http2 > 0, true);
	w->fake.kube = kube_free(w->fake.kube);
	front_stop(&w->front);
	sim_stop();
	kube_fake_stop(&w->fake);
}

static struct json *volume(const char *name)
{
	struct json *object = json_object(), *spec = json_sub(object, "spec");
	struct json *modes = json_array();
	json_set_str(json_sub(object, "metadata"), "name", name);
	json_append(modes, json_string("ReadWriteOnce"));
	json_set(spec, "accessModes", modes);
	json_set_str(spec, "dpuStoragePolicyName", "example-policy");
	json_set_str(spec, "volumeMode", "Block");
	json_set_str(json_sub(json_sub(spec, "resources"), "requests"), "storage", "1Gi");
	return object;
}

/* Creates a volume. Returns its uid, malloc'ed. */
static char *create(struct front_world *w, const char *name)
{
	struct json *object AUTO(json_free) = volume(name), *stored AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int rc = kube_create(w->fake.kube, &kind_volume, NS, object, deadline_in_ms(WAIT_MS),
	                     &stored, &err);
	ck_assert_msg(rc == 0, "%s: %d %s", name, rc, err.msg);
	return xstrdup(json_str(stored, "metadata.uid"));
}

static struct kube_wait *wait_for(struct front_world *w, const char *name)
{
	struct kube_wait *wait = NULL;
	struct err err = ERR_INIT;
	ck_assert_int_eq(kube_wait_open(w->fake.kube, &kind_volume, NS, name, &wait, &err), 0);
	return wait;
}

static void until_bound(struct kube_wait *wait)
{
	for (;;) {
		struct json *object AUTO(json_free) = NULL;
		struct err err = ERR_INIT;
		int rc = kube_wait_next(wait, deadline_in_ms(WAIT_MS), &object, &err);
		ck_assert_msg(rc == 0, "%d %s", rc, err.msg);
		if (str_eq(json_str(object, "status.phase"), "Bound"))
			return;
	}
}

static void until_gone(struct kube_wait *wait)
{
	int rc;
	do {
		struct json *object AUTO(json_free) = NULL;
		struct err err = ERR_INIT;
		rc = kube_wait_next(wait, deadline_in_ms(WAIT_MS), &object, &err);
		ck_assert_msg(rc >= 0, "%s", err.msg);
	} while (rc == 0);
}

static int delete (struct front_world *w, const char *name, const char *uid)
{
	struct err err = ERR_INIT;
	int rc = kube_delete(w->fake.kube, &kind_volume, NS, name, uid, deadline_in_ms(WAIT_MS),
	                     &err);
	ck_assert_msg(rc >= 0, "%s", err.msg);
	return rc;
}

START_TEST(the_life_of_an_object)
{
	char *uid AUTO(free) = NULL;
	struct kube_wait *wait;
	struct front_world w;
	struct err err = ERR_INIT;
	struct json *got AUTO(json_free) = NULL, *patch AUTO(json_free) = json_object(),
			 *again AUTO(json_free) = volume("pvc-1");
	world_start(&w);
	wait = wait_for(&w, "pvc-1");
	uid = create(&w, "pvc-1");
	kube_wait_expect(wait, uid);
	ck_assert_int_eq(kube_create(w.fake.kube, &kind_volume, NS, again, deadline_in_ms(WAIT_MS),
	                             &got, &err),
	                 1);
	until_bound(wait);
	json_set_str(json_sub(json_sub(patch, "metadata"), "annotations"), "a/b", "c");
	ck_assert_int_eq(kube_patch(w.fake.kube, &kind_volume, NS, "pvc-1", patch,
	                            deadline_in_ms(WAIT_MS), &got, &err),
	                 0);
	ck_assert_str_eq(json_text(json_member(json_at(got, "metadata.annotations"), "a/b")), "c");
	ck_assert_int_eq(delete (&w, "pvc-1", "00000000-0000-0000-0000-000000000000"),
	                 KUBE_REPLACED);
	ck_assert_int_eq(delete (&w, "pvc-1", uid), 0);
	until_gone(wait);
	ck_assert_int_eq(delete (&w, "pvc-1", uid), 1);
	json_free(TAKE(got));
	ck_assert_int_eq(kube_get(w.fake.kube, &kind_volume, NS, "pvc-1", deadline_in_ms(WAIT_MS),
	                          &got, &err),
	                 1);
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

static int count(void *arg, const struct json *item, struct err *err)
{
	unsigned *n = arg;
	(void)err;
	*n += str_has_prefix(json_str(item, "metadata.name"), "pvc-");
	return 0;
}

START_TEST(a_list_of_many_pages)
{
	int rc;
	struct front_world w;
	struct err err = ERR_INIT;
	unsigned n = 0;
	world_start(&w);
	for (unsigned i = 0; i < 9; i++) {
		char *name AUTO(free) = xasprintf("pvc-%u", i);
		free(create(&w, name));
	}
	rc = kube_list(w.fake.kube, &kind_volume, NS, NULL, count, &n, deadline_in_ms(WAIT_MS),
	               &err);
	ck_assert_msg(rc == 0, "%s", err.msg);
	ck_assert_uint_eq(n, 9);
	world_stop(&w);
}
END_TEST

START_TEST(a_wait_outlives_what_happens_to_its_watch)
{
	static const struct {
		const char *what, *path, *body;
	} rows[] = {
		{ "cut", "/sim/faults",
		  "{\"resource\":\"dpuvolumes\",\"verb\":\"watch\",\"dropWatch\":true,"
		  "\"times\":1}" },
		{ "expired", "/sim/faults",
		  "{\"resource\":\"dpuvolumes\",\"verb\":\"watch\",\"expireWatch\":true,\"times\":"
		  "1}" },
		{ "history gone", "/sim/expire", "{}" },
		{ "refused for a while", "/sim/faults",
		  "[{\"verb\":\"watch\",\"times\":2,\"status\":503},{\"resource\":\"dpuvolumes\","
		  "\"verb\":"
		  "\"watch\",\"dropWatch\":true,\"times\":1}]" },
		{ "reads refused for a while", "/sim/faults",
		  "[{\"verb\":\"get\",\"times\":2,\"status\":429,\"retryAfterSeconds\":1},{"
		  "\"resource\":"
		  "\"dpuvolumes\",\"verb\":\"watch\",\"expireWatch\":true,\"times\":1}]" },
	};
	struct front_world w;
	world_start(&w);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *name AUTO(free) = xasprintf("pvc-%zu", i);
		struct kube_wait *wait = wait_for(&w, name);
		char *uid AUTO(free) = create(&w, name);
		kube_wait_expect(wait, uid);
		free(sim_http("POST", rows[i].path, rows[i].body));
		until_bound(wait);
		free(sim_http("POST", rows[i].path, rows[i].body));
		ck_assert_int_eq(delete (&w, name, uid), 0);
		until_gone(wait);
		kube_wait_close(wait);
	}
	world_stop(&w);
}
END_TEST

START_TEST(a_group_that_is_not_served_is_named_and_found_when_it_comes)
{
	struct kube_wait *wait;
	struct front_world w;
	struct err err = ERR_INIT;
	struct json *object AUTO(json_free) = volume("pvc-1"), *ret AUTO(json_free) = NULL;
	world_start(&w);
	/* Each is trusted when it comes twice. */
	sim_fault(
		"[{\"verb\":\"list\",\"resource\":\"dpuvolumes\",\"unserved\":true,\"times\":2},"
		"{\"verb\":\"create\",\"resource\":\"dpuvolumes\",\"unserved\":true,\"times\":2}]");
	wait = wait_for(&w, "pvc-1");
	ck_assert_int_eq(kube_wait_next(wait, deadline_in_ms(WAIT_MS), &ret, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "storage.dpu.nvidia.com"),
	              "%s", err.msg);
	err_clear(&err);
	ck_assert_int_eq(kube_create(w.fake.kube, &kind_volume, NS, object, deadline_in_ms(WAIT_MS),
	                             &ret, &err),
	                 -1);
	ck_assert_msg(err.code == ERR_PRECONDITION, "%s", err.msg);
	err_clear(&err);
	free(create(&w, "pvc-1"));
	until_bound(wait);
	kube_wait_close(wait);
	world_stop(&w);
}
END_TEST

struct worker {
	struct front_world *w;
	unsigned id;
};

static void *live(void *arg)
{
	struct worker *worker = arg;
	for (unsigned i = 0; i < 5; i++) {
		char *name AUTO(free) = xasprintf("pvc-%u-%u", worker->id, i);
		struct kube_wait *wait = wait_for(worker->w, name);
		char *uid AUTO(free) = create(worker->w, name);
		kube_wait_expect(wait, uid);
		until_bound(wait);
		ck_assert_int_eq(delete (worker->w, name, uid), 0);
		until_gone(wait);
		kube_wait_close(wait);
	}
	return NULL;
}

START_TEST(many_lives_at_once_share_a_connection)
{
	struct front_world w;
	pthread_t threads[8];
	struct worker workers[8];
	world_start(&w);
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++) {
		workers[i] = (struct worker) { &w, i };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, live, &workers[i]), 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_le(http_stats(w.fake.kube->http).connections, 2);
	world_stop(&w);
}
END_TEST

SUITE_TIMEOUT("kubeclient with snap-sim", 120, the_life_of_an_object, a_list_of_many_pages,
              a_wait_outlives_what_happens_to_its_watch,
              a_group_that_is_not_served_is_named_and_found_when_it_comes,
              many_lives_at_once_share_a_connection);
