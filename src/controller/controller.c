/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all operations share: their deadline, how texts name an object, and what codes and failure
 * texts mean. Owns nothing; any thread.
 */
#include "controller/controller.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

struct deadline controller_deadline(const struct controller *c, struct deadline d)
{
	int wait = c->wait_timeout_ms ? c->wait_timeout_ms : CONTROLLER_WAIT_TIMEOUT_MS;

	return deadline_clamp(deadline_reserve(d, 1000, 5), wait);
}

const char *object_ref(const struct controller *c, const struct kube_kind *kind, const char *name,
                       char buf[OBJECT_REF_MAX])
{
	snprintf(buf, OBJECT_REF_MAX, "%s %s/%s", kind->kind, c->namespace, name);
	return buf;
}

bool code_is_open(enum err_code code)
{
	return code == ERR_CANCELLED || code == ERR_DEADLINE || code == ERR_UNAVAILABLE ||
	       code == ERR_ABORTED;
}

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = text; (at = strcasestr(at, word)); at += n)
		if ((at == text || !isalnum((unsigned char)at[-1])) &&
		    !isalnum((unsigned char)at[n]))
			return true;
	return false;
}

bool speaks_of_exhaustion(const char *text)
{
	static const char *const words[] = {
		"capacity",  "quota",        "space",   "full",
		"exhausted", "insufficient", "no free", "limit reached",
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (has_word(text, words[i]))
			return true;
	return false;
}
