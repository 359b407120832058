/* SPDX-License-Identifier: Apache-2.0 */
/* The version of a kind that the client requests, and its error if it can use none. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "kube/kube_follow.h"
#include "test/lib/kube_fake.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define GROUP "storage.dpu.nvidia.com"
#define PATH(version) "/apis/" GROUP "/" version "/namespaces/ns/dpuvolumes"
#define DOCUMENT(version) "GET /openapi/v3/apis/" GROUP "/" version
#define GROUPS(versions)                                                                       \
	"{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[{\"name\":\"apps\","     \
	"\"versions\":[{\"groupVersion\":\"apps/v1\",\"version\":\"v1\"}]},{\"name\":\"" GROUP \
	"\",\"versions\":[" versions "]}]}"
#define VERSION(v) "{\"groupVersion\":\"" GROUP "/" v "\",\"version\":\"" v "\"}"
#define SCHEMA(version, field)                                                                    \
	"{\"components\":{\"schemas\":{\"a\":{\"properties\":{\"spec\":{\"properties\":{\"" field \
	"\":{\"type\":\"string\"}}}},\"x-kubernetes-group-version-kind\":[{\"group\":\"" GROUP    \
	"\",\"kind\":\"DPUVolume\",\"version\":\"" version "\"}]}}}}"
#define NOT_SERVED .status = 404, .type = "text/plain", .body = "404 page not found\n"
#define OBJECT                                                                       \
	"{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\"," \
	"\"uid\":\"u\",\"resourceVersion\":\"5\"}}"

static bool serves(const struct json *schema, struct str *lacks)
{
	if (json_at(schema, "properties.spec.properties.size"))
		return true;
	str_add(lacks, "spec.size is missing");
	return false;
}

static const struct kube_kind volume = { .group = GROUP,
	                                 .version = "v1alpha1",
	                                 .plural = "dpuvolumes",
	                                 .kind = "DPUVolume",
	                                 .serves = serves };

static void on(struct kube_fake *f, const char *request, const char *body)
{
	fake_http_on(f->server, (struct fake_reply) { .on = request, .body = body });
}

static void not_served(struct kube_fake *f, const char *request)
{
	fake_http_on(f->server, (struct fake_reply) { .on = request, NOT_SERVED });
}

/* A server that serves only v1beta1, with this OpenAPI document. */
static void start_beta(struct kube_fake *f, const char *document)
{
	kube_fake_start(f, NULL);
	not_served(f, "GET " PATH("v1alpha1") "*");
	not_served(f, "POST " PATH("v1alpha1"));
	not_served(f, DOCUMENT("v1alpha1"));
	on(f, "GET /apis", GROUPS(VERSION("v1beta1")));
	on(f, DOCUMENT("v1beta1"), document);
	on(f, "GET " PATH("v1beta1") "/a", OBJECT);
}

static int get(struct kube_fake *f, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;

	return kube_get(f->kube, &volume, "ns", "a", wait_limit(), &object, err);
}

START_TEST(a_later_version_with_the_same_fields_is_used)
{
	struct err err = ERR_INIT;
	struct kube_fake f;

	start_beta(&f, SCHEMA("v1beta1", "size"));
	for (int i = 0; i < 3; i++)
		ck_assert_msg(get(&f, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(fake_http_count(f.server, "GET " PATH("v1alpha1") "*"), 1);
	ck_assert_uint_eq(fake_http_count(f.server, "GET /apis"), 1);
	ck_assert_uint_eq(fake_http_count(f.server, "GET " PATH("v1beta1") "/a"), 3);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(an_object_is_created_in_the_version_of_its_path)
{
	struct json *object AUTO(json_free) = json_object(), *made AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	char *sent AUTO(free) = NULL;
	struct kube_fake f;

	start_beta(&f, SCHEMA("v1beta1", "size"));
	on(&f, "POST " PATH("v1beta1"), OBJECT);
	json_set_str(json_sub(object, "metadata"), "name", "a");
	ck_assert_msg(kube_create(f.kube, &volume, "ns", object, wait_limit(), &made, &err) == 0,
	              "%s", err.msg);
	sent = fake_http_last(f.server, "POST " PATH("v1beta1"));
	ck_assert_ptr_nonnull(strstr(sent, "\"apiVersion\":\"" GROUP "/v1beta1\""));
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_schema_is_that_of_the_version_in_use)
{
	struct json *schema AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	struct kube_fake f;

	start_beta(&f, SCHEMA("v1beta1", "size"));
	ck_assert_msg(kube_schema(f.kube, &volume, wait_limit(), &schema, &err) == 0, "%s",
	              err.msg);
	kube_fake_stop(&f);
}
END_TEST

static void followed(void *arg, enum kube_follow_event event, const char *text, size_t n)
{
	(void)arg, (void)event, (void)text, (void)n;
}

START_TEST(a_watch_goes_over_to_the_version_by_itself)
{
	struct kube_fake f;

	start_beta(&f, SCHEMA("v1beta1", "size"));
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " PATH("v1beta1") "?watch=1*",
	                                             .stream = true });
	(void)kube_follow(f.kube, &volume, "ns", followed, NULL);
	ck_assert(fake_http_wait_streams(f.server, "GET " PATH("v1beta1") "?watch=1*", 1));
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_version_that_is_withdrawn_and_one_that_returns)
{
	struct err err = ERR_INIT;
	struct kube_fake f;

	start_beta(&f, SCHEMA("v1beta1", "size"));
	ck_assert_msg(get(&f, &err) == 0, "%s", err.msg);
	fake_http_forget(f.server);
	not_served(&f, "GET " PATH("v1beta1") "/a");
	on(&f, "GET /apis", GROUPS(VERSION("v1") "," VERSION("v1alpha1")));
	on(&f, DOCUMENT("v1alpha1"), SCHEMA("v1alpha1", "other"));
	on(&f, "GET " PATH("v1alpha1") "/a", OBJECT);
	ck_assert_msg(get(&f, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(fake_http_count(f.server, DOCUMENT("v1")), 0);
	kube_fake_stop(&f);
}
END_TEST

static const struct {
	const char *what, *groups, *document;
	const char *text;
} rows[] = {
	{ "another field", GROUPS(VERSION("v2")), SCHEMA("v2", "length"),
	  "get dpuvolumes." GROUP ": the API server serves no version of API group " GROUP
	  " that this driver can use (v2: spec.size is missing; expected v1alpha1, or a version "
	  "with the same fields); install a driver version for this version of DPF" },
	{ "the group has no such kind", GROUPS(VERSION("v2")), "{}",
	  "does not serve dpuvolumes of API group " GROUP "/v1alpha1" },
	{ "no group", "{\"kind\":\"APIGroupList\",\"groups\":[]}", "{}",
	  "does not serve dpuvolumes of API group " GROUP "/v1alpha1" },
	{ "no list of groups", "{\"kind\":\"Table\"}", "{}",
	  "does not serve dpuvolumes of API group " GROUP "/v1alpha1" },
	{ "no JSON in place of a schema", GROUPS(VERSION("v2")), "<html>",
	  "does not serve dpuvolumes of API group " GROUP "/v1alpha1" },
};

START_TEST(without_a_usable_version_the_text_names_what_is_served)
{
	struct err err = ERR_INIT;
	struct kube_fake f;

	kube_fake_start(&f, NULL);
	not_served(&f, "GET " PATH("v1alpha1") "/a");
	on(&f, "GET /apis", rows[_i].groups);
	on(&f, DOCUMENT("v2"), rows[_i].document);
	ck_assert_int_eq(get(&f, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, rows[_i].text), "%s: %s",
	              rows[_i].what, err.msg);
	ck_assert_uint_eq(fake_http_count(f.server, "GET " PATH("v2") "*"), 0);
	kube_fake_stop(&f);
}
END_TEST

/* The names become parts of a URL. */
START_TEST(a_version_with_an_invalid_name_is_not_requested)
{
	struct err err = ERR_INIT;
	struct kube_fake f;

	kube_fake_start(&f, NULL);
	not_served(&f, "GET " PATH("v1alpha1") "/a");
	on(&f, "GET /apis",
	   GROUPS(VERSION("v2/../v3?x=") "," VERSION("v 4") "," VERSION("v1beta1")));
	on(&f, DOCUMENT("v1beta1"), SCHEMA("v1beta1", "size"));
	on(&f, "GET " PATH("v1beta1") "/a", OBJECT);
	ck_assert_msg(get(&f, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(fake_http_count(f.server, "GET /openapi/*"), 1);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(what_was_refused_is_read_again)
{
	struct err err = ERR_INIT;
	struct kube_fake f;

	kube_fake_start(&f, NULL);
	not_served(&f, "GET " PATH("v1alpha1") "/a");
	fake_http_on(f.server, (struct fake_reply) { .on = "GET /apis", .status = 500 });
	ck_assert_int_eq(get(&f, &err), -1);
	err_clear(&err);
	fake_http_forget(f.server);
	not_served(&f, "GET " PATH("v1alpha1") "/a");
	on(&f, "GET /apis", GROUPS(VERSION("v2") "," VERSION("v1beta1")));
	on(&f, DOCUMENT("v2"), SCHEMA("v2", "length"));
	on(&f, DOCUMENT("v1beta1"), SCHEMA("v1beta1", "size"));
	on(&f, "GET " PATH("v1beta1") "/a", OBJECT);
	ck_assert_msg(get(&f, &err) == 0, "%s", err.msg);
	kube_fake_stop(&f);
}
END_TEST

SUITE("kube version", a_later_version_with_the_same_fields_is_used,
      an_object_is_created_in_the_version_of_its_path, a_schema_is_that_of_the_version_in_use,
      a_watch_goes_over_to_the_version_by_itself, a_version_that_is_withdrawn_and_one_that_returns,
      LOOP(without_a_usable_version_the_text_names_what_is_served, ARRAY_LEN(rows)),
      a_version_with_an_invalid_name_is_not_requested, what_was_refused_is_read_again);
