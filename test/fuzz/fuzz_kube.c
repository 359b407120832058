/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that an API server, or an impostor, can send: the first byte chooses a watch line, a body
 * with a Status, a quantity, a kubeconfig, a schema or a time; the rest is the text. A list token
 * is returned by a caller.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dpf/dpu_attachment.h"
#include "controller/list_token.h"
#include "dpf/dpu_volume.h"
#include "dpf/dpu_volume_schema.h"
#include "dpf/quantity.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "inspect/api_object.h"
#include "kube/kube_event.h"
#include "kube/kube_yaml.h"
#include "common/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void decode(const struct json *object)
{
	struct dpu_attachment a;
	struct dpu_volume v;
	struct err err = ERR_INIT;

	IGNORE_RESULT(dpu_volume_decode(object, &v, &err));
	err_clear(&err);
	IGNORE_RESULT(dpu_attachment_decode(object, &a, &err));
}

static void body(const char *text, size_t n)
{
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	char *copy AUTO(free) = xmalloc(n + 1);

	memcpy(copy, text, n);
	kube_blank_unread(copy, n);
	if (json_parse("body", copy, n, &object, &err) == 0) {
		free(json_print(object));
		decode(object);
	}
}

static void watch_line(const char *text, size_t n)
{
	struct kube_event e;

	if (kube_event_scan(text, n, &e))
		body(e.object.at, e.object.n);
}

static void number(const char *text, size_t n)
{
	struct err err = ERR_INIT;
	int64_t bytes;

	(void)n;
	if (quantity_parse("q", text, &bytes, &err) == 0 && bytes < 0)
		abort();
}

static void yaml(const char *text, size_t n)
{
	struct json *tree AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	IGNORE_RESULT(kube_yaml_parse("kubeconfig", text, n, &tree, &err));
}

static void yaml_object(const char *text, size_t n)
{
	struct json *tree AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	IGNORE_RESULT(kube_yaml_parse_object("object", text, n, &tree, &err));
}

static void schema(const char *text, size_t n)
{
	struct str why AUTO(str_clear) = STR_INIT(1000);
	struct json *tree AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	if (json_parse("schema", text, n, &tree, &err) == 0 && !dpu_volume_may_grow(tree, &why) &&
	    !why.len)
		abort();
}

static void date(const char *text, size_t n)
{
	const struct api_eye eye = { .now = 1800000000 };
	const struct volume_attachment a = { .name = "va", .node = "n1" };
	struct json *object AUTO(json_free) = json_object(), *facts AUTO(json_free) = NULL;

	(void)n;
	json_set_str(json_sub(object, "metadata"), "creationTimestamp", text);
	facts = api_volume_attachment_facts(&eye, object, &a, "n1");
	if (api_seconds(facts, "age") < -1)
		abort();
}

/*
 * Only a token that this driver has issued is accepted, and any token of an API server survives the
 * round trip.
 */
static void token(const char *text, size_t n)
{
	struct arena arena = ARENA_INIT(1 << 20);
	const char *made = list_token_make("ns", text, &arena);
	const char *read = list_token_read("ns", made, &arena);
	const char *foreign = list_token_read("ns", text, &arena);

	if (n && (!read || strcmp(read, text) != 0))
		abort();
	if (n && foreign && strcmp(list_token_make("ns", foreign, &arena), text) != 0)
		abort();
	arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const parsers[])(const char *,
	                               size_t) = { watch_line,  body,   number, yaml,
		                                   yaml_object, schema, date,   token };
	char *text AUTO(free) = NULL;

	if (n < 1)
		return 0;
	text = xmalloc(n);
	memcpy(text, data + 1, n - 1);
	text[n - 1] = '\0';
	parsers[data[0] % ARRAY_LEN(parsers)](text, n - 1);
	return 0;
}
