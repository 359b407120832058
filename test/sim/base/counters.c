/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON tree of numbers under one mutex; verbs and resources are few. */
#include "test/sim/base/counters.h"

#include "common/mem.h"

struct counters {
	pthread_mutex_t lock;
	struct json *tree; /* under lock */
};

struct counters *counters_new(void)
{
	struct counters *c = xcalloc(1, sizeof(*c));

	pthread_mutex_init(&c->lock, NULL);
	c->tree = json_object();
	return c;
}

struct counters *counters_free(struct counters *c)
{
	if (!c)
		return NULL;
	json_free(c->tree);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

void counters_count(struct counters *c, const char *verb, const char *resource)
{
	struct err err = ERR_INIT;
	struct json *of_verb;
	int64_t n = 0;

	WITH_LOCK(&c->lock);
	of_verb = json_sub(c->tree, verb);
	if (json_member(of_verb, resource) &&
	    json_get_i64(json_member(of_verb, resource), "", &n, &err))
		abort(); /* the tree holds integers only */
	json_set_int(of_verb, resource, n + 1);
}

struct json *counters_json(struct counters *c)
{
	WITH_LOCK(&c->lock);
	return json_copy(c->tree);
}

void counters_reset(struct counters *c)
{
	WITH_LOCK(&c->lock);
	json_free(c->tree);
	c->tree = json_object();
}
