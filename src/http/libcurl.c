/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libcurl when the first engine is created, and reports the loaded version. */
#include "http/libcurl.h"

#include <dlfcn.h>
#include <pthread.h>

#include "common/mem.h"
#include "http/http_curl.h"

struct curl_functions curl;

static char *curl_missing; /* why it could not be loaded, or NULL */

static void *curl_symbol(void *library, const char *name)
{
	void *symbol = dlsym(library, name);
	if (!symbol && !curl_missing)
		curl_missing = xasprintf("libcurl.so.4 has no %s", name);
	return symbol;
}

static void curl_load(void)
{
	void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *why = dlerror();
		curl_missing = xstrdup(why ? why : "libcurl.so.4 cannot be loaded");
		return;
	}
#define X(name) *(void **)&curl.name = curl_symbol(library, "curl_" #name)
	CURL_FUNCTIONS(X)
#undef X
	if (!curl_missing && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		curl_missing = xstrdup("libcurl cannot be initialised");
}

int transfer_library(struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, curl_load);
	if (!curl_missing)
		return 0;
	return err_set(err, ERR_UNAVAILABLE,
	               "libcurl is needed to talk to Kubernetes (Debian package libcurl4): %s",
	               curl_missing);
}

void http_library(struct str *ret)
{
	const curl_version_info_data *info;
	struct err missing = ERR_INIT;

	if (transfer_library(&missing)) {
		str_add(ret, "none (a controller needs it)");
		return;
	}
	info = curl.version_info(CURLVERSION_NOW);
	str_addf(ret, "%s with %s", info->version,
	         info->ssl_version ? info->ssl_version : "no TLS");
}
