/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all operations: their deadline, the name of an object in messages, and the meaning of
 * codes and failure messages. Owns nothing; any thread.
 */
#include "controller/controller.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"

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

int open_error(struct err *err)
{
	return code_is_open(err->code) ? -1 : err_recode(err, ERR_UNAVAILABLE);
}

/* A dash is part of a word: "user-space" does not mention space. */
static bool is_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_';
}

static bool has_words(const char *text, const char *words)
{
	size_t n = strlen(words);

	for (const char *at = text; (at = strcasestr(at, words)); at += n)
		if ((at == text || !is_of_word(at[-1])) && !is_of_word(at[n]))
			return true;
	return false;
}

static bool has_any(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (has_words(text, words[i]))
			return true;
	return false;
}

/*
 * DPF's conditions have no field for exhaustion, so this function has to interpret foreign
 * messages; no other code does. A gRPC error of a vendor's plugin that was printed into the message
 * contains a code. Other messages have to name the exhausted resource, because "space" and "full"
 * on their own also occur in messages about logs and daemons. A missed message costs little,
 * because UNAVAILABLE is also retried; a false match ends a claim's attempt.
 */
bool speaks_of_exhaustion(const char *text)
{
	static const char rpc[] = "rpc error: code = ", exhausted[] = "ResourceExhausted ";
	static const char *const words[] = {
		"no capacity",     "not enough capacity", "insufficient capacity",
		"out of capacity", "capacity exceeded",   "capacity is exhausted",
		"quota exceeded",  "exceeded quota",      "exceeds quota",
		"vendor full",     "no free function",    "resource exhausted",
	};
	/*
	 * Words that are also used for queues and rates count only in combination with a word for
	 * storage.
	 */
	static const char *const of_anything[] = { "is full", "limit reached" };
	static const char *const storage[] = { "pool", "storage", "vendor", "volumes" };
	const char *code = strstr(text, rpc);

	if (code)
		return strncmp(code + strlen(rpc), exhausted, strlen(exhausted)) == 0;
	return has_any(text, words, ARRAY_LEN(words)) ||
	       (has_any(text, of_anything, ARRAY_LEN(of_anything)) &&
	        has_any(text, storage, ARRAY_LEN(storage)));
}
