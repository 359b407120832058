/* SPDX-License-Identifier: Apache-2.0 */
/* Which results are retried and when; kube_retry.h has the rules. Pure functions. */
#include "kube/kube_retry.h"

#include <string.h>

#include "common/str.h"

#define FIRST_MS 100
#define MOST_MS 5000
#define ATTEMPTS 6        /* about 3 s in all */
#define ATTEMPTS_ASKED 10 /* if the server specifies the pause; as in client-go */
#define ASKED_MOST_S 30

int kube_backoff_ms(unsigned failures, int first_ms, int most_ms)
{
	int64_t ms = first_ms;
	for (unsigned i = 1; i < failures && ms < most_ms; i++)
		ms *= 2;
	if (ms > most_ms)
		ms = most_ms;
	return (int)(ms * 3 / 4 + arc4random_uniform((uint32_t)(ms / 2 + 1)));
}

int kube_asked_ms(const struct http_result *result)
{
	int s = result->retry_after_s;
	int ms = s < 0 ? 0 : (s > ASKED_MOST_S ? ASKED_MOST_S : s) * 1000;
	return ms + (int)arc4random_uniform((uint32_t)(ms / 4 + 1));
}

enum again {
	NEVER,
	SAFE_ONLY, /* every method except POST, because the server may have executed the request */
	ALWAYS,
};

static enum again retry_of_status(int status)
{
	switch (status) {
	case 429:
	case 503:
		return ALWAYS;
	case 500:
	case 502:
	case 504:
		return SAFE_ONLY;
	default:
		return NEVER;
	}
}

static enum again retry_of_result(const struct http_result *result)
{
	switch (result->end) {
	case HTTP_ANSWERED:
		return retry_of_status(result->status);
	case HTTP_NOT_SENT:
		return ALWAYS;
	case HTTP_DEADLINE:
		return result->sent ? SAFE_ONLY : ALWAYS;
	case HTTP_CUT:
	case HTTP_RETIRED:
		return SAFE_ONLY;
	case HTTP_CANCELLED:
	case HTTP_TOO_LARGE:
	default:
		return NEVER;
	}
}

int kube_retry_ms(const char *method, const struct http_result *result, unsigned attempt)
{
	enum again again = retry_of_result(result);
	unsigned attempts = result->retry_after_s > 0 ? ATTEMPTS_ASKED : ATTEMPTS;
	if (again == NEVER || attempt >= attempts || (again == SAFE_ONLY && str_eq(method, "POST")))
		return -1;
	return kube_asked_ms(result) + kube_backoff_ms(attempt, FIRST_MS, MOST_MS);
}

bool kube_passes_by_itself(const struct err *err)
{
	return err->code == ERR_UNAVAILABLE || err->code == ERR_ABORTED ||
	       err->code == ERR_DEADLINE || err->code == ERR_CANCELLED;
}
