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

/* A dash joins words: "user-space" does not speak of space. */
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
 * DPF's conditions have no field for it, so this is the one place where words of others decide. A
 * gRPC error that a vendor's plugin gave, and that was printed into the message, has a code. Other
 * texts have to say what is used up: "space" and "full" alone are said of logs and daemons too. To
 * miss one costs little, since UNAVAILABLE is retried as well; a wrong one ends a claim's try.
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
	/* What is said of queues and rates as well counts together with a word for storage. */
	static const char *const of_anything[] = { "is full", "limit reached" };
	static const char *const storage[] = { "pool", "storage", "vendor", "volumes" };
	const char *code = strstr(text, rpc);

	if (code)
		return strncmp(code + strlen(rpc), exhausted, strlen(exhausted)) == 0;
	return has_any(text, words, ARRAY_LEN(words)) ||
	       (has_any(text, of_anything, ARRAY_LEN(of_anything)) &&
	        has_any(text, storage, ARRAY_LEN(storage)));
}
