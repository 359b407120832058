/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs, their retries and their errors, against a scripted API server. */
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/metric.h"
#include "test/lib/kube_fake.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define OBJECT                                                                                     \
	"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUVolume\",\"metadata\":" \
	"{\"name\":\"a\",\"namespace\":\"ns\",\"uid\":\"u-1\",\"resourceVersion\":\"10\"},"        \
	"\"spec\":{\"size\":9007199254740991}}"

static struct json *object_named(const char *name)
{
	struct json *object = json_object();
	json_set_str(json_sub(object, "metadata"), "name", name);
	json_set_int(json_sub(object, "spec"), "size", 9223372036854775807);
	return object;
}

START_TEST(get_returns_the_object_or_that_there_is_none)
{
	int64_t size = 0;
	char *seen AUTO(free) = NULL;
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct json *object = NULL;
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a", .body = OBJECT });
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "/b",
	                                   .status = 404,
	                                   .body = STATUS_OF("b", "NotFound", "not found") });
	ck_assert_int_eq(kube_get(f.kube, &kind_volume, "ns", "a", wait_limit(), &object, &err), 0);
	ck_assert_str_eq(json_str(object, "metadata.uid"), "u-1");
	ck_assert_int_eq(json_get_i64(object, "spec.size", &size, &err), 0);
	ck_assert_int_eq(size, 9007199254740991);
	json_free(object);
	object = NULL;
	ck_assert_int_eq(kube_get(f.kube, &kind_volume, "ns", "b", wait_limit(), &object, &err),
	                 KUBE_ABSENT);
	ck_assert_ptr_null(object);
	seen = fake_http_last(f.server, "GET " VOLUMES "/a");
	ck_assert_ptr_nonnull(strstr(seen, "Authorization: Bearer token-1\r\n"));
	ck_assert_ptr_nonnull(strstr(seen, "User-Agent: snap-csi/1.0\r\n"));
	/* A read requests the newest state, and only kube_get_cached() requests a cached one. */
	ck_assert_ptr_null(strstr(seen, "resourceVersion"));
	free(seen);
	ck_assert_int_eq(
		kube_get_cached(f.kube, &kind_volume, "ns", "a", wait_limit(), &object, &err), 0);
	seen = fake_http_last(f.server, "GET " VOLUMES "/a");
	ck_assert_ptr_nonnull(strstr(seen, VOLUMES "/a?resourceVersion=0 "));
	json_free(object);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_name_of_any_bytes_stays_a_part_of_the_path)
{
	static const char name[] = "a\r\nX-Remote-User: root\r\n/../b?c#d%\x7f";
	struct json *object AUTO(json_free) = NULL;
	char *seen AUTO(free) = NULL;
	struct kube_fake f;
	struct err err = ERR_INIT;

	kube_fake_start(&f, NULL);
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "/a%0D%0AX-Remote-User%3A%20root"
	                                         "%0D%0A%2F..%2Fb%3Fc%23d%25%7F",
	                                   .body = OBJECT });
	/* It answers with another object. */
	ck_assert_int_eq(kube_get(f.kube, &kind_volume, "ns", name, wait_limit(), &object, &err),
	                 -1);
	ck_assert_uint_eq(fake_http_unexpected(f.server), 0);
	seen = fake_http_last(f.server, "GET *");
	ck_assert_ptr_null(strstr(seen, "\nX-Remote-User"));
	kube_fake_stop(&f);
}
END_TEST

START_TEST(create_names_version_kind_and_field_manager_and_writes_integers_exactly)
{
	char *seen AUTO(free) = NULL;
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct json *stored = NULL;
	struct json *object AUTO(json_free) = object_named("a");
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "POST " VOLUMES
	                                                   "?fieldManager=snap-csi&timeout=30s",
	                                             .status = 201,
	                                             .times = 1,
	                                             .body = OBJECT });
	fake_http_on(f.server, (struct fake_reply) { .on = "POST " VOLUMES,
	                                             .status = 409,
	                                             .body = STATUS("AlreadyExists", "exists") });
	ck_assert_int_eq(
		kube_create(f.kube, &kind_volume, "ns", object, wait_limit(), &stored, &err), 0);
	ck_assert_str_eq(json_str(stored, "metadata.uid"), "u-1");
	json_free(stored);
	seen = fake_http_last(f.server, "POST " VOLUMES);
	ck_assert_ptr_nonnull(strstr(seen, "\"size\":9223372036854775807"));
	ck_assert_ptr_nonnull(strstr(seen, "\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\""));
	ck_assert_ptr_nonnull(strstr(seen, "\"kind\":\"DPUVolume\""));
	ck_assert_int_eq(
		kube_create(f.kube, &kind_volume, "ns", object, wait_limit(), &stored, &err),
		KUBE_EXISTS);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(patch_is_a_merge_patch)
{
	char *seen AUTO(free) = NULL;
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct json *patch AUTO(json_free) = json_object();
	json_set(json_sub(patch, "metadata"), "finalizers", json_null());
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "PATCH " VOLUMES
	                                                   "/a?fieldManager=snap-csi&timeout=30s",
	                                             .body = OBJECT });
	ck_assert_int_eq(
		kube_patch(f.kube, &kind_volume, "ns", "a", patch, wait_limit(), NULL, &err), 0);
	seen = fake_http_last(f.server, "PATCH *");
	ck_assert_ptr_nonnull(strstr(seen, "Content-Type: application/merge-patch+json\r\n"));
	ck_assert_ptr_nonnull(strstr(seen, "{\"metadata\":{\"finalizers\":null}}"));
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_patch_without_answer_leaves_a_doubt_that_is_no_doubt_of_the_object)
{
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct json *patch AUTO(json_free) = json_object();
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "PATCH " VOLUMES "/b",
	                                             .status = 422,
	                                             .body = STATUS("Invalid", "no") });
	fake_http_on(f.server, (struct fake_reply) {
				       .on = "PATCH " VOLUMES "/a", .status = 500, .times = 1 });
	fake_http_on(f.server, (struct fake_reply) { .on = "PATCH " VOLUMES "/a",
	                                             .status = 422,
	                                             .body = STATUS("Invalid", "no") });
	ck_assert_int_eq(
		kube_patch(f.kube, &kind_volume, "ns", "b", patch, wait_limit(), NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_INVALID);
	ck_assert(!kube_may_change(f.kube, &kind_volume, "ns", "b"));
	err_clear(&err);
	ck_assert_int_eq(
		kube_patch(f.kube, &kind_volume, "ns", "a", patch, wait_limit(), NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert(kube_may_change(f.kube, &kind_volume, "ns", "a"));
	ck_assert(!kube_may_come(f.kube, &kind_volume, "ns", "a"));
	kube_fake_stop(&f);
}
END_TEST

/* At this address a server hangs, and the next one calls slow webhooks. */
START_TEST(a_change_is_given_up_soon_at_first_and_then_waited_for)
{
	struct kube_tuning t = { .http = { .silence_ms = 300, .patience_ms = 15000 } };
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct json *object AUTO(json_free) = object_named("a"), *got = NULL;
	static const char *const changes[] = { "POST " VOLUMES, "DELETE " VOLUMES "/a" };

	kube_fake_start(&f, &t);
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		fake_http_on(f.server,
		             (struct fake_reply) { .on = changes[i], .hang = true, .times = 1 });
		fake_http_on(
			f.server,
			(struct fake_reply) { .on = changes[i], .delay_ms = 1500, .body = OBJECT });
	}
	/* Repeating a POST is left to the caller. */
	ck_assert_int_eq(kube_create(f.kube, &kind_volume, "ns", object, wait_limit(), &got, &err),
	                 -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	err_clear(&err);
	ck_assert_msg(kube_create(f.kube, &kind_volume, "ns", object, wait_limit(), &got, &err) ==
	                      0,
	              "%s", err.msg);
	ck_assert_msg(kube_delete(f.kube, &kind_volume, "ns", "a", "u-1", wait_limit(), &err) == 0,
	              "%s", err.msg);
	for (size_t i = 0; i < ARRAY_LEN(changes); i++)
		ck_assert_uint_eq(fake_http_count(f.server, changes[i]), 2);
	json_free(got);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(delete_carries_the_uid_and_tells_another_object_from_a_conflict)
{
	char *seen AUTO(free) = NULL;
	static const struct {
		const char *what, *uid;
		int rc;
		enum err_code code;
	} rows[] = {
		{ "the object of that name is a newer one", "u-old", KUBE_REPLACED, ERR_OK },
		{ "a passing conflict", "u-1", -1, ERR_ABORTED },
	};
	struct kube_fake f;
	struct err err = ERR_INIT;
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) {
				       .on = "DELETE " VOLUMES "/a", .times = 1, .body = OBJECT });
	fake_http_on(f.server, (struct fake_reply) { .on = "DELETE " VOLUMES "/a",
	                                             .status = 409,
	                                             .body = STATUS("Conflict", "no") });
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "DELETE " VOLUMES "/gone",
	                                   .status = 404,
	                                   .body = STATUS_OF("gone", "NotFound", "not found") });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a", .body = OBJECT });
	ck_assert_int_eq(kube_delete(f.kube, &kind_volume, "ns", "a", "u-1", wait_limit(), &err),
	                 0);
	seen = fake_http_last(f.server, "DELETE *");
	ck_assert_ptr_nonnull(strstr(seen, "\"preconditions\":{\"uid\":\"u-1\"}"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int rc = kube_delete(f.kube, &kind_volume, "ns", "a", rows[i].uid, wait_limit(),
		                     &err);
		ck_assert_msg(rc == rows[i].rc && err.code == rows[i].code, "%s: %d %s",
		              rows[i].what, rc, err.msg);
		err_clear(&err);
	}
	ck_assert_int_eq(kube_delete(f.kube, &kind_volume, "ns", "gone", "u-1", wait_limit(), &err),
	                 KUBE_ABSENT);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(the_deletion_of_a_state_spares_what_has_changed)
{
	static const struct {
		const char *what, *now; /* result of a GET after the conflict */
		int rc;
		enum err_code code;
	} rows[] = {
		{ "a passing conflict", "\"uid\":\"u-1\",\"resourceVersion\":\"7\"", -1,
		  ERR_ABORTED },
		{ "changed", "\"uid\":\"u-1\",\"resourceVersion\":\"8\"", KUBE_CHANGED, ERR_OK },
		{ "replaced", "\"uid\":\"u-2\",\"resourceVersion\":\"7\"", KUBE_REPLACED, ERR_OK },
	};
	struct json *state AUTO(json_free) = json_object();
	struct json *metadata = json_sub(state, "metadata");
	char *seen AUTO(free) = NULL;
	struct kube_fake f;
	kube_fake_start(&f, NULL);
	json_set_str(metadata, "name", "a");
	json_set_str(metadata, "uid", "u-1");
	json_set_str(metadata, "resourceVersion", "7");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *now AUTO(free) =
			xasprintf("{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"a\","
		                  "\"namespace\":\"ns\",%s}}",
		                  rows[i].now);
		struct err err = ERR_INIT;
		int rc;
		fake_http_forget(f.server);
		fake_http_on(f.server, (struct fake_reply) { .on = "DELETE " VOLUMES "/a",
		                                             .status = 409,
		                                             .body = STATUS("Conflict", "no") });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a", .body = now });
		rc = kube_delete_state(f.kube, &kind_volume, "ns", state, wait_limit(), &err);
		ck_assert_msg(rc == rows[i].rc && err.code == rows[i].code, "%s: %d %s",
		              rows[i].what, rc, err.msg);
	}
	seen = fake_http_last(f.server, "DELETE *");
	ck_assert_ptr_nonnull(
		strstr(seen, "\"preconditions\":{\"uid\":\"u-1\",\"resourceVersion\":\"7\"}"));
	kube_fake_stop(&f);
}
END_TEST

static int collect(void *arg, const struct json *item, struct err *err)
{
	struct str *names = arg;
	(void)err;
	str_add(names, json_str(item, "metadata.name"));
	return str_eq(json_str(item, "metadata.name"), "stop") ? KUBE_STOP : 0;
}

#define PAGE(token, a, b)                                                                           \
	"{\"kind\":\"DPUVolumeList\",\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"" token \
	"\"},\"items\":["                                                                           \
	"{\"metadata\":{\"name\":\"" a "\"}},{\"metadata\":{\"name\":\"" b "\"}}]}"

START_TEST(list_goes_page_by_page_and_survives_an_expired_token)
{
	int rc;
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct str names AUTO(str_clear) = STR_INIT(1000);
	kube_fake_start(&f, NULL);
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "?limit=2&labelSelector=x%3Dy",
	                                   .body = PAGE("t/1", "a", "b") });
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES
	                                         "?limit=2&labelSelector=x%3Dy&continue=t%2F1",
	                                   .status = 410,
	                                   .body = "{\"kind\":\"Status\",\"code\":410,\"metadata\":"
	                                           "{\"continue\":\"t2\"}}" });
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES
	                                         "?limit=2&labelSelector=x%3Dy&continue=t2",
	                                   .body = PAGE("", "c", "d") });
	rc = kube_list(f.kube, &kind_volume, "ns", "x=y", collect, &names, wait_limit(), &err);
	ck_assert_msg(rc == 0, "%s", err.msg);
	ck_assert_str_eq(names.ptr, "abcd");
	/* A token contains its own version. */
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "?limit=2&labelSelector=x%3Dy"
	                                         "&resourceVersion=0",
	                                   .body = PAGE("t2", "e", "f") });
	rc = kube_list_cached(f.kube, &kind_volume, "ns", "x=y", collect, &names, wait_limit(),
	                      &err);
	ck_assert_msg(rc == 0, "%s", err.msg);
	ck_assert_str_eq(names.ptr, "abcdefcd");
	ck_assert_uint_eq(fake_http_unexpected(f.server), 0);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_list_by_a_field_asks_for_it)
{
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct str names AUTO(str_clear) = STR_INIT(1000);
	kube_fake_start(&f, NULL);
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES
	                                         "?limit=2&fieldSelector=involvedObject.uid%3Du-1",
	                                   .body = PAGE("", "a", "b") });
	ck_assert_msg(!kube_list_fields(f.kube, &kind_volume, "ns", "involvedObject.uid=u-1",
	                                collect, &names, wait_limit(), &err),
	              "%s", err.msg);
	ck_assert_str_eq(names.ptr, "ab");
	kube_fake_stop(&f);
}
END_TEST

START_TEST(list_starts_again_when_an_expired_token_has_no_successor)
{
	int rc;
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct str names AUTO(str_clear) = STR_INIT(1000);
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "?limit=2",
	                                             .times = 1,
	                                             .body = PAGE("t1", "a", "b") });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "?limit=2&continue=t1",
	                                             .status = 410,
	                                             .body = "{\"kind\":\"Status\"}" });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "?limit=2",
	                                             .body = PAGE("never", "a", "stop") });
	rc = kube_list(f.kube, &kind_volume, "ns", NULL, collect, &names, wait_limit(), &err);
	ck_assert_msg(rc == 0, "%s", err.msg);
	ck_assert_str_eq(names.ptr, "abastop");
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_single_page_is_asked_for_as_its_token_says)
{
#define STATUS_WITH(meta) "{\"kind\":\"Status\",\"status\":\"Failure\",\"metadata\":{" meta "}}"
	static const struct {
		const char *what, *token;
		int limit;
		struct fake_reply reply;
		int rc;
		const char *names, *next; /* when it is 0 */
		enum err_code code;       /* when it is -1 */
	} rows[] = {
		{ "the first", NULL, 0, { .body = PAGE("t1", "a", "b") }, 0, "ab", "t1", ERR_OK },
		{ "more than a page",
		  "",
		  9,
		  { .body = PAGE("t1", "a", "b") },
		  0,
		  "ab",
		  "t1",
		  ERR_OK },
		{ "the last", "t/1", 2, { .body = PAGE("", "c", "d") }, 0, "cd", "", ERR_OK },
		{ "smaller", "t/1", 1, { .body = PAGE("", "c", "d") }, 0, "cd", "", ERR_OK },
		{ "expired, and the server goes on",
		  "t/1",
		  2,
		  { .status = 410, .times = 1, .body = STATUS_WITH("\"continue\":\"t2\"") },
		  0,
		  "ef",
		  "t3",
		  ERR_OK },
		{ "expired for ever",
		  "t/1",
		  2,
		  { .status = 410, .body = STATUS_WITH("") },
		  KUBE_NO_SUCH_PAGE,
		  NULL,
		  NULL,
		  ERR_OK },
		{ "not a token",
		  "t/1",
		  2,
		  { .status = 400, .body = STATUS_WITH("") },
		  KUBE_NO_SUCH_PAGE,
		  NULL,
		  NULL,
		  ERR_OK },
		{ "a proxy's 410",
		  "t/1",
		  2,
		  { .status = 410, .body = "<html>" },
		  -1,
		  NULL,
		  NULL,
		  ERR_UNAVAILABLE },
		{ "a proxy's 400",
		  "t/1",
		  2,
		  { .status = 400, .body = "<html>" },
		  -1,
		  NULL,
		  NULL,
		  ERR_UNAVAILABLE },
		{ "400 without a token",
		  NULL,
		  2,
		  { .status = 400, .body = STATUS_WITH("") },
		  -1,
		  NULL,
		  NULL,
		  ERR_INVALID },
		{ "no list",
		  "t/1",
		  2,
		  { .body = "{\"kind\":\"DPUVolume\",\"items\":[]}" },
		  -1,
		  NULL,
		  NULL,
		  ERR_UNAVAILABLE },
	};
	struct kube_fake f;
	kube_fake_start(&f, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str names AUTO(str_clear) = STR_INIT(1000);
		struct fake_reply reply = rows[i].reply;
		char *next AUTO(free) = NULL;
		struct err err = ERR_INIT;
		char on[200];
		int rc;
		snprintf(on, sizeof(on), "GET " VOLUMES "?limit=%d%s", rows[i].limit == 1 ? 1 : 2,
		         str_empty(rows[i].token) ? "" : "&continue=t%2F1");
		reply.on = on;
		fake_http_forget(f.server);
		fake_http_on(f.server, reply);
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "?limit=2&continue=t2",
		                                   .body = PAGE("t3", "e", "f") });
		rc = kube_list_page(f.kube, &kind_volume, "ns", rows[i].limit, rows[i].token,
		                    collect, &names, &next, wait_limit(), &err);
		ck_assert_msg(rc == rows[i].rc && err.code == rows[i].code, "%s: %d, %d %s",
		              rows[i].what, rc, err.code, err.msg);
		ck_assert_msg((next != NULL) == (rc == 0), "%s", rows[i].what);
		if (rc == 0) {
			ck_assert_msg(str_eq(names.ptr, rows[i].names), "%s: %s", rows[i].what,
			              names.ptr);
			ck_assert_str_eq(next, rows[i].next);
		}
		ck_assert_uint_eq(fake_http_unexpected(f.server), 0);
	}
	kube_fake_stop(&f);
}
END_TEST

/* Like a page of large objects: 26 times its size as a tree of all. */
static char *page_of(unsigned items, unsigned numbers)
{
	struct str page AUTO(str_clear) = STR_INIT(64 * 1024 * 1024);
	str_add(&page, "{\"kind\":\"DPUVolumeList\",\"items\":[");
	for (unsigned i = 0; i < items; i++) {
		str_addf(&page, "%s{\"metadata\":{\"name\":\"v\"},\"pad\":[0", i ? "," : "");
		for (unsigned n = 1; n < numbers; n++)
			str_add(&page, ",1");
		str_add(&page, "]}");
	}
	str_add(&page, "],\"kind\":\"DPUVolumeList\",\"metadata\":{\"continue\":\"\"}}");
	return str_take(&page);
}

struct parsed {
	unsigned items;
	size_t most; /* bytes on the heap while an item was passed */
};

static int count_parsed(void *arg, const struct json *item, struct err *err)
{
	struct parsed *p = arg;
	size_t now = mallinfo2().uordblks;
	(void)err;
	ck_assert_str_eq(json_str(item, "metadata.name"), "v");
	p->items++;
	p->most = now > p->most ? now : p->most;
	return 0;
}

START_TEST(of_a_page_one_object_is_parsed_at_a_time)
{
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct parsed parsed = { 0 };
	size_t before;
	char *page AUTO(free) = page_of(500, 2000);
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "*", .body = page });
	before = mallinfo2().uordblks;
	ck_assert_msg(kube_list(f.kube, &kind_volume, "ns", NULL, count_parsed, &parsed,
	                        wait_limit(), &err) == 0,
	              "%s", err.msg);
	ck_assert_uint_eq(parsed.items, 500);
	ck_assert_msg(parsed.most < before + 4 * strlen(page), "a page of %zu bytes needs %zu",
	              strlen(page), parsed.most - before);
	kube_fake_stop(&f);
}
END_TEST

/* A server that pads objects, or ignores the limit: the page is requested again in smaller ones. */
START_TEST(a_page_that_is_too_large_is_asked_for_in_smaller_ones)
{
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct parsed parsed = { 0 };
	const struct kube_tuning t = { .page = 16 };
	char *large AUTO(free) = page_of(500, 28000); /* 28 MB */
	char *small AUTO(free) = page_of(2, 28000);
	kube_fake_start(&f, &t);
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "?limit=16", .body = large });
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "?limit=4", .body = large });
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "?limit=1", .body = small });
	ck_assert_msg(kube_list(f.kube, &kind_volume, "ns", NULL, count_parsed, &parsed,
	                        wait_limit(), &err) == 0,
	              "%s", err.msg);
	ck_assert_uint_eq(parsed.items, 2);
	ck_assert_uint_eq(fake_http_unexpected(f.server), 0);

	fake_http_forget(f.server);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "*", .body = large });
	ck_assert_int_eq(kube_list(f.kube, &kind_volume, "ns", NULL, count_parsed, &parsed,
	                           wait_limit(), &err),
	                 -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "larger than") != NULL, "%s", err.msg);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(what_is_no_list_is_never_an_empty_one)
{
	static const char *const rows[] = {
		"null",
		"[]",
		"{}",
		"1",
		"",
		"{\"kind\":\"DPUVolumeList\",\"items\":[]",
		"{\"kind\":\"DPUVolumeList\",\"items\":{}}",
		"{\"kind\":\"DPUVolumeList\",\"items\":[1]}",
		"{\"kind\":\"DPUVolumeList\",\"items\":[{]}",
		"{\"kind\":\"DPUVolumeList\",\"items\":[{\"a\":tru}]}",
		"{\"kind\":\"DPUVolumeList\",\"items\":[{} {}]}",
		"{\"kind\":\"DPUVolumeList\",\"items\":[]}}",
		"{\"kind\":\"DPUVolumeList\",\"items\":[{},]}",
		"{\"metadata\":{},\"item\":[]}",
		"{\"kind\":\"DPUVolumeList\",\"items\":[],\"metadata\":[]}",
		"{\"items\":[]}",
		"{\"kind\":\"List\",\"metadata\":{},\"items\":[]}",
		"{\"kind\":\"DPUVolume\",\"items\":[]}",
		"{\"kind\":\"DPUVolumeAttachmentList\",\"items\":[]}",
		"<html>try later</html>",
		"{\"kind\":\"Status\",\"code\":200}",
	};
	struct kube_fake f;
	kube_fake_start(&f, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		struct str names AUTO(str_clear) = STR_INIT(1000);
		int rc;
		fake_http_forget(f.server);
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "*", .body = rows[i] });
		rc = kube_list(f.kube, &kind_volume, "ns", NULL, collect, &names, wait_limit(),
		               &err);
		ck_assert_msg(rc == -1 && err.code == ERR_UNAVAILABLE, "%s: %d %s", rows[i], rc,
		              err.msg);
	}
	kube_fake_stop(&f);
}
END_TEST

START_TEST(what_passes_is_tried_again_and_a_post_only_when_it_cannot_have_acted)
{
	static const struct {
		const char *what, *method;
		struct fake_reply first;
		unsigned times, requests;
		enum err_code code;
	} rows[] = {
		{ "get, 500", "GET", { .status = 500, .body = "{}" }, 1, 2, ERR_OK },
		{ "get, cut", "GET", { .cut = true }, 1, 2, ERR_OK },
		{ "get, 429", "GET", { .status = 429, .body = "{}" }, 2, 3, ERR_OK },
		{ "get, 500 for ever",
		  "GET",
		  { .status = 500, .body = "{}" },
		  0,
		  6,
		  ERR_UNAVAILABLE },
		{ "get, 422",
		  "GET",
		  { .status = 422, .body = STATUS("Invalid", "x") },
		  1,
		  1,
		  ERR_INVALID },
		{ "post, 503", "POST", { .status = 503, .body = "{}" }, 1, 2, ERR_OK },
		{ "post, 429", "POST", { .status = 429, .body = "{}" }, 1, 2, ERR_OK },
		{ "post, 500", "POST", { .status = 500, .body = "{}" }, 1, 1, ERR_UNAVAILABLE },
		{ "post, cut", "POST", { .cut = true }, 1, 1, ERR_UNAVAILABLE },
		{ "post, answer that is no JSON",
		  "POST",
		  { .body = "<html>" },
		  1,
		  1,
		  ERR_UNAVAILABLE },
	};
	int64_t retries = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int rc;
		struct kube_fake f;
		struct err err = ERR_INIT;
		struct json *ret AUTO(json_free) = NULL,
				 *object AUTO(json_free) = object_named("a");
		bool post = str_eq(rows[i].method, "POST");
		struct fake_reply first = rows[i].first;
		retries += rows[i].requests - 1;
		kube_fake_start(&f, NULL);
		first.on = post ? "POST " VOLUMES : "GET " VOLUMES "/a";
		first.times = rows[i].times;
		fake_http_on(f.server, first);
		fake_http_on(f.server, (struct fake_reply) { .on = first.on, .body = OBJECT });
		rc = post ? kube_create(f.kube, &kind_volume, "ns", object, wait_limit(), &ret,
		                        &err)
		          : kube_get(f.kube, &kind_volume, "ns", "a", wait_limit(), &ret, &err);
		ck_assert_msg(rc == (rows[i].code ? -1 : 0) && err.code == rows[i].code,
		              "%s: %d %s", rows[i].what, rc, err.msg);
		ck_assert_msg(fake_http_count(f.server, first.on) == rows[i].requests,
		              "%s: %u requests", rows[i].what, fake_http_count(f.server, first.on));
		kube_fake_stop(&f);
	}
	ck_assert_int_eq(metric_value(METRIC_API_RETRIES, LABELS("get", "dpuvolumes")) +
	                         metric_value(METRIC_API_RETRIES, LABELS("create", "dpuvolumes")),
	                 retries);
	ck_assert_int_eq(metric_value(METRIC_API_REQUESTS, LABELS("get", "dpuvolumes", "429")), 2);
	ck_assert_int_eq(metric_value(METRIC_API_REQUESTS, LABELS("create", "dpuvolumes", "cut")),
	                 1);
	ck_assert_int_gt(metric_value(METRIC_API_ANSWERED, NULL), 0);
}
END_TEST

START_TEST(a_server_that_has_just_started_may_refuse_once_what_is_allowed)
{
	static const struct {
		const char *what;
		struct fake_reply before;
		unsigned refusals, requests;
		enum err_code code;
	} rows[] = {
		{ "once", { .status = 503, .body = "{}" }, 1, 3, ERR_OK },
		{ "once, busy before", { .status = 429, .body = "{}" }, 1, 3, ERR_OK },
		{ "for ever, busy before", { .status = 429, .body = "{}" }, 0, 3, ERR_PERMISSION },
		{ "for ever, and the first may have been carried out",
		  { .status = 503, .body = "{}" },
		  0,
		  3,
		  ERR_UNAVAILABLE },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int rc;
		struct kube_fake f;
		struct err err = ERR_INIT;
		struct json *ret AUTO(json_free) = NULL,
				 *object AUTO(json_free) = object_named("a");
		struct fake_reply before = rows[i].before;
		kube_fake_start(&f, NULL);
		before.on = "POST " VOLUMES;
		before.times = 1;
		fake_http_on(f.server, before);
		fake_http_on(f.server, (struct fake_reply) { .on = "POST " VOLUMES,
		                                             .status = 403,
		                                             .body = STATUS("Forbidden", "no"),
		                                             .times = rows[i].refusals });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "POST " VOLUMES, .body = OBJECT });
		rc = kube_create(f.kube, &kind_volume, "ns", object, wait_limit(), &ret, &err);
		ck_assert_msg(rc == (rows[i].code ? -1 : 0) && err.code == rows[i].code,
		              "%s: %d %s", rows[i].what, rc, err.msg);
		ck_assert_msg(fake_http_count(f.server, "POST " VOLUMES) == rows[i].requests,
		              "%s: %u requests", rows[i].what,
		              fake_http_count(f.server, "POST " VOLUMES));
		kube_fake_stop(&f);
	}
}
END_TEST

START_TEST(retry_after_is_waited_for_within_the_deadline_only)
{
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct json *ret AUTO(json_free) = NULL;
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .status = 429,
	                                             .headers = "Retry-After: 1\r\n",
	                                             .body = "{}",
	                                             .times = 1 });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .status = 429,
	                                             .headers = "Retry-After: 30\r\n",
	                                             .body = STATUS("TooManyRequests", "slow down"),
	                                             .times = 1 });
	/* The first pause ends before this, the second one does not. */
	ck_assert_int_eq(
		kube_get(f.kube, &kind_volume, "ns", "a", deadline_in_ms(20000), &ret, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "slow down") != NULL, "%s", err.msg);
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/a"), 2);
	kube_fake_stop(&f);
}
END_TEST

static void ignore_end(void *arg, struct http_result *result)
{
	(void)arg;
	(void)result;
}

/* When the request for volume a is out, takes all connections that become free. */
static void *crowd(void *arg)
{
	struct kube_fake *f = arg;
	struct http_request q = { .method = "GET",
		                  .path = VOLUMES "/busy",
		                  .deadline_at = DEADLINE_NEVER,
		                  .on_done = ignore_end };
	while (!fake_http_count(f->server, "GET " VOLUMES "/a"))
		usleep(1000);
	for (int i = 0; i < 16; i++)
		http_start(f->kube->http, &q);
	return NULL;
}

START_TEST(what_was_sent_once_and_not_again_had_no_answer)
{
	struct kube_tuning t = { .http = { .silence_ms = 20000, .patience_ms = 20000 },
		                 .attempt_ms = 400 };
	struct kube_fake f;
	pthread_t thread;
	struct err err = ERR_INIT;
	struct json *ret AUTO(json_free) = NULL;
	kube_fake_start(&f, &t);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a", .hang = true });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/busy", .hang = true });
	ck_assert_int_eq(pthread_create(&thread, NULL, crowd, &f), 0);
	ck_assert_int_eq(
		kube_get(f.kube, &kind_volume, "ns", "a", deadline_in_ms(1500), &ret, &err), -1);
	pthread_join(thread, NULL);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(err.msg, "no answer from") != NULL, "%s", err.msg);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(an_api_server_that_is_away_is_unavailable_and_comes_back)
{
	int rc;
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct json *ret AUTO(json_free) = NULL;
	kube_fake_start(&f, NULL);
	kube_fake_config(&f, "http://127.0.0.1:1", "", "    token: token-1\n");
	ck_assert_int_eq(kube_get(f.kube, &kind_volume, "ns", "a", deadline_in_ms(700), &ret, &err),
	                 -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "cannot reach the API server http://127.0.0.1:1") &&
	                      strstr(err.msg, "Connection refused"),
	              "%s", err.msg);
	ck_assert_msg(strstr(err.msg, "get dpuvolumes.storage.dpu.nvidia.com: ") == err.msg, "%s",
	              err.msg);
	ck_assert_int_gt(
		metric_value(METRIC_API_REQUESTS, LABELS("get", "dpuvolumes", "unreachable")), 0);
	ck_assert_int_eq(metric_value(METRIC_API_ANSWERED, NULL), 0);
	err_clear(&err);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a", .body = OBJECT });
	kube_fake_config(&f, fake_http_url(f.server), "", "    token: token-1\n");
	rc = kube_get(f.kube, &kind_volume, "ns", "a", wait_limit(), &ret, &err);
	ck_assert_msg(rc == 0, "%s", err.msg);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_refused_token_is_read_again_once)
{
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct json *ret AUTO(json_free) = NULL;
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .status = 401,
	                                             .body = STATUS("Unauthorized", "Unauthorized"),
	                                             .times = 1 });
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "/a", .body = OBJECT, .times = 1 });
	fake_http_on(f.server,
	             (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                   .status = 401,
	                                   .body = STATUS("Unauthorized", "Unauthorized") });
	ck_assert_int_eq(kube_get(f.kube, &kind_volume, "ns", "a", wait_limit(), &ret, &err), 0);
	json_free(TAKE(ret));
	ck_assert_int_eq(kube_get(f.kube, &kind_volume, "ns", "a", wait_limit(), &ret, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAUTHENTICATED);
	ck_assert_msg(strstr(err.msg, "kubeconfig") && !strstr(err.msg, "token-1"), "%s", err.msg);
	/* Refused and re-read, twice, and a last time for a possible mistake. */
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/a"), 5);
	kube_fake_stop(&f);
}
END_TEST

/* For each verb, an answer of the API server that is not the requested object. */
static int verb_call(struct kube_fake *f, const char *verb, struct deadline d, struct err *err)
{
	struct json *object AUTO(json_free) = object_named("a"), *ret AUTO(json_free) = NULL;
	if (str_eq(verb, "GET"))
		return kube_get(f->kube, &kind_volume, "ns", "a", d, &ret, err);
	if (str_eq(verb, "POST"))
		return kube_create(f->kube, &kind_volume, "ns", object, d, &ret, err);
	return kube_delete(f->kube, &kind_volume, "ns", "a", "u-1", d, err);
}

static const char *verb_path(const char *verb)
{
	return str_eq(verb, "GET")    ? "GET " VOLUMES "/a"
	       : str_eq(verb, "POST") ? "POST " VOLUMES
	                              : "DELETE " VOLUMES "/a";
}

START_TEST(an_answer_that_is_not_the_object_proves_nothing)
{
	static const char *const verbs[] = { "GET", "POST", "DELETE" };
	static const struct {
		int status;
		const char *body;
	} rows[] = {
		{ 200, "null" },
		{ 200, "[]" },
		{ 200, "{}" },
		{ 200, "" },
		{ 200, "<html>" },
		{ 200, "{\"kind\":\"DPUVolumeList\",\"items\":[]}" },
		{ 200, STATUS("NotFound", "in a 200") },
		{ 200, "{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"b\",\"namespace\":\"ns\","
		       "\"uid\":\"u-1\"}}" },
		{ 200, "{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"a\",\"namespace\":\"x\","
		       "\"uid\":\"u-1\"}}" },
		{ 200, "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\","
		       "\"uid\":\"u-1\"}}" },
		{ 200,
		  "{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\"}}" },
		{ 302, "" },
		{ 400, "<html>" },
		{ 401, "<html>" },
		{ 403, "<html>" },
		{ 404, "<html>" },
		{ 404, "{}" },
		{ 404, STATUS_OF("b", "NotFound", "another") },
		{ 409, "<html>" },
		{ 422, "<html>" },
	};
	for (size_t v = 0; v < ARRAY_LEN(verbs); v++)
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			struct kube_fake f;
			struct err err = ERR_INIT;
			int rc;
			kube_fake_start(&f, NULL);
			fake_http_on(f.server, (struct fake_reply) { .on = verb_path(verbs[v]),
			                                             .status = rows[i].status,
			                                             .body = rows[i].body });
			/* What look_for_uid() reads. */
			fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
			                                             .body = OBJECT });
			rc = verb_call(&f, verbs[v], wait_limit(), &err);
			ck_assert_msg(rc == -1 && (err.code == ERR_UNAVAILABLE ||
			                           err.code == ERR_ABORTED),
			              "%s %d %s: %d %s", verbs[v], rows[i].status, rows[i].body, rc,
			              err.msg);
			kube_fake_stop(&f);
		}
}
END_TEST

START_TEST(a_refusal_is_believed_when_it_comes_twice_and_nothing_may_have_been_done)
{
	static const char *const verbs[] = { "GET", "POST", "DELETE" };
	static const char no[] = STATUS("Forbidden", "no");
	static const struct {
		const char *what;
		struct fake_reply replies[3];
		enum err_code get, change; /* of a GET, of the others; OK: success */
	} rows[] = {
		{ "403 once", { { .status = 403, .body = no, .times = 1 } }, ERR_OK, ERR_OK },
		{ "not served once",
		  { { .status = 404, .body = "404 page not found", .times = 1 } },
		  ERR_OK,
		  ERR_OK },
		{ "401 twice", { { .status = 401, .body = no, .times = 2 } }, ERR_OK, ERR_OK },
		{ "403", { { .status = 403, .body = no } }, ERR_PERMISSION, ERR_PERMISSION },
		{ "401",
		  { { .status = 401, .body = no } },
		  ERR_UNAUTHENTICATED,
		  ERR_UNAUTHENTICATED },
		{ "422", { { .status = 422, .body = no } }, ERR_INVALID, ERR_INVALID },
		{ "429, then 422",
		  { { .status = 429, .body = "x", .times = 1 }, { .status = 422, .body = no } },
		  ERR_INVALID,
		  ERR_INVALID },
		{ "503, then 422",
		  { { .status = 503, .body = no, .times = 1 }, { .status = 422, .body = no } },
		  ERR_INVALID,
		  ERR_UNAVAILABLE },
		{ "503, then 403",
		  { { .status = 503, .body = no, .times = 1 }, { .status = 403, .body = no } },
		  ERR_PERMISSION,
		  ERR_UNAVAILABLE },
		{ "a proxy's 403, then 422",
		  { { .status = 403, .body = "<html>", .times = 1 },
		    { .status = 422, .body = no } },
		  ERR_INVALID,
		  ERR_UNAVAILABLE },
		{ "403, then no answer",
		  { { .status = 403, .body = no, .times = 1 }, { .hang = true } },
		  ERR_UNAVAILABLE,
		  ERR_UNAVAILABLE },
		{ "403, and no time for a second try",
		  { { .status = 403, .body = no, .headers = "Retry-After: 30\r\n" } },
		  ERR_UNAVAILABLE,
		  ERR_UNAVAILABLE },
	};
	for (size_t v = 0; v < ARRAY_LEN(verbs); v++)
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			enum err_code want = v ? rows[i].change : rows[i].get;
			struct kube_fake f;
			struct err err = ERR_INIT;
			kube_fake_start(&f, NULL);
			for (size_t j = 0; j < 3; j++) {
				struct fake_reply reply = rows[i].replies[j];
				reply.on = verb_path(verbs[v]);
				reply.body = reply.body ? reply.body : OBJECT;
				fake_http_on(f.server, reply);
			}
			IGNORE_RESULT(verb_call(
				&f, verbs[v],
				deadline_in_ms(rows[i].replies[1].hang ? 3000 : 20000), &err));
			ck_assert_msg(err.code == want, "%s, %s: %s %s", verbs[v], rows[i].what,
			              err_code_name(err.code), err.msg);
			kube_fake_stop(&f);
		}
}
END_TEST

START_TEST(a_group_is_absent_when_the_list_of_groups_says_so)
{
	static const struct {
		const char *what, *body;
		int status, rc;
	} rows[] = {
		{ "there",
		  "{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"apps\"},{\"name\":"
		  "\"storage.dpu.nvidia.com\"}]}",
		  200, KUBE_EXISTS },
		{ "absent", "{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"apps\"}]}", 200,
		  0 },
		{ "no list", "{\"kind\":\"APIGroupList\"}", 200, -1 },
		{ "another list", "{\"kind\":\"List\",\"groups\":[]}", 200, -1 },
		{ "a page", "<html>", 200, -1 },
		{ "a proxy's 404", "404 page not found", 404, -1 },
		{ "refused", STATUS("Forbidden", "no"), 403, -1 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_fake f;
		struct err err = ERR_INIT;
		int rc;
		kube_fake_start(&f, NULL);
		fake_http_on(f.server, (struct fake_reply) { .on = "GET /apis",
		                                             .status = rows[i].status,
		                                             .body = rows[i].body });
		rc = kube_find_group(f.kube, &kind_volume, wait_limit(), &err);
		ck_assert_msg(rc == rows[i].rc, "%s: %d %s", rows[i].what, rc, err.msg);
		kube_fake_stop(&f);
	}
}
END_TEST

struct canceller {
	struct cancel cancel;
	struct kube *kube;
	int ms;
};

static void *cancel_after(void *arg)
{
	struct canceller *c = arg;
	usleep((unsigned)c->ms * 1000);
	cancel_set(&c->cancel);
	return NULL;
}

START_TEST(a_cancelled_caller_leaves_a_request_and_a_pause_at_once)
{
	static const struct {
		const char *what;
		struct fake_reply reply;
	} rows[] = {
		{ "request", { .hang = true } },
		{ "pause", { .status = 429, .headers = "Retry-After: 3600\r\n", .body = "{}" } },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int rc;
		struct kube_fake f;
		struct err err = ERR_INIT;
		struct json *ret = NULL;
		struct canceller c = { .cancel = CANCEL_INIT, .ms = 150 };
		struct fake_reply reply = rows[i].reply;
		struct kube_tuning patient = { .attempt_ms = NEVER_MS };
		struct deadline d = deadline_never();
		pthread_t t;
		d.cancel = &c.cancel;
		reply.on = "GET *";
		kube_fake_start(&f, &patient);
		fake_http_on(f.server, reply);
		pthread_create(&t, NULL, cancel_after, &c);
		rc = kube_get(f.kube, &kind_volume, "ns", "a", d, &ret, &err);
		ck_assert_msg(rc == -1 && err.code == ERR_CANCELLED, "%s: %s", rows[i].what,
		              err.msg);
		pthread_join(t, NULL);
		cancel_destroy(&c.cancel);
		kube_fake_stop(&f);
	}
}
END_TEST

struct getter {
	struct kube *kube;
	struct err err;
};

static void *get_thread(void *arg)
{
	struct getter *g = arg;
	struct json *ret = NULL;
	ck_assert_int_eq(kube_get(g->kube, &kind_volume, "ns", "a", wait_limit(), &ret, &g->err),
	                 -1);
	return NULL;
}

START_TEST(freeing_the_client_ends_requests_of_other_threads)
{
	struct getter g;
	struct kube_fake f;
	struct kube_tuning patient = { .attempt_ms = 20000 };
	pthread_t t;
	kube_fake_start(&f, &patient);
	g = (struct getter) { .kube = f.kube, .err = ERR_INIT };
	fake_http_on(f.server, (struct fake_reply) { .on = "GET *", .hang = true });
	pthread_create(&t, NULL, get_thread, &g);
	ck_assert(fake_http_wait(f.server, "GET " VOLUMES "/a", 1));
	f.kube = kube_free(f.kube);
	pthread_join(t, NULL);
	ck_assert_int_eq(g.err.code, ERR_CANCELLED);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(requests_are_limited_per_second)
{
	struct kube_fake f;
	struct err err = ERR_INIT;
	kube_fake_start(&f, NULL);
	kube_limiter_destroy(&f.kube->limiter);
	kube_limiter_init(&f.kube->limiter, 1.0 / 3600, 2);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET *", .body = OBJECT });
	for (int i = 0; i < 3; i++) {
		struct json *ret AUTO(json_free) = NULL;
		struct deadline d = i < 2 ? wait_limit() : deadline_in_ms(100);
		/* The third one's turn would come in an hour. */
		ck_assert_int_eq(kube_get(f.kube, &kind_volume, "ns", "a", d, &ret, &err),
		                 i < 2 ? 0 : -1);
	}
	ck_assert_uint_eq(fake_http_count(f.server, "GET *"), 2);
	kube_fake_stop(&f);
}
END_TEST

SUITE_TIMEOUT("kube_client", 60, a_list_by_a_field_asks_for_it,
              get_returns_the_object_or_that_there_is_none,
              a_name_of_any_bytes_stays_a_part_of_the_path,
              create_names_version_kind_and_field_manager_and_writes_integers_exactly,
              patch_is_a_merge_patch,
              a_patch_without_answer_leaves_a_doubt_that_is_no_doubt_of_the_object,
              a_change_is_given_up_soon_at_first_and_then_waited_for,
              delete_carries_the_uid_and_tells_another_object_from_a_conflict,
              the_deletion_of_a_state_spares_what_has_changed,
              list_goes_page_by_page_and_survives_an_expired_token,
              of_a_page_one_object_is_parsed_at_a_time,
              a_page_that_is_too_large_is_asked_for_in_smaller_ones,
              what_is_no_list_is_never_an_empty_one,
              list_starts_again_when_an_expired_token_has_no_successor,
              a_single_page_is_asked_for_as_its_token_says,
              what_passes_is_tried_again_and_a_post_only_when_it_cannot_have_acted,
              a_server_that_has_just_started_may_refuse_once_what_is_allowed,
              retry_after_is_waited_for_within_the_deadline_only,
              what_was_sent_once_and_not_again_had_no_answer,
              an_api_server_that_is_away_is_unavailable_and_comes_back,
              a_refused_token_is_read_again_once, an_answer_that_is_not_the_object_proves_nothing,
              a_group_is_absent_when_the_list_of_groups_says_so,
              a_refusal_is_believed_when_it_comes_twice_and_nothing_may_have_been_done,
              a_cancelled_caller_leaves_a_request_and_a_pause_at_once,
              freeing_the_client_ends_requests_of_other_threads, requests_are_limited_per_second);
