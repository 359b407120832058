/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl's functions, for the files that pass requests to it. They are in a table, because the
 * library is loaded at run time, with the first engine: a node without a controller never loads it.
 */
#pragma once

#include <curl/curl.h>

/* curl/typecheck-gcc.h turns these into macros; the table needs the functions' types. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define CURL_FUNCTIONS(X)       \
	X(global_init);         \
	X(easy_init);           \
	X(easy_reset);          \
	X(easy_cleanup);        \
	X(easy_setopt);         \
	X(easy_getinfo);        \
	X(easy_strerror);       \
	X(multi_init);          \
	X(multi_cleanup);       \
	X(multi_setopt);        \
	X(multi_add_handle);    \
	X(multi_remove_handle); \
	X(multi_perform);       \
	X(multi_poll);          \
	X(multi_timeout);       \
	X(multi_fdset);         \
	X(multi_info_read);     \
	X(version_info);        \
	X(slist_append);        \
	X(slist_free_all);

/*
 * curl.easy_init() is curl_easy_init(). All members are set after transfer_library() has returned
 * 0.
 */
struct curl_functions {
#define X(name) __typeof__(curl_##name) *name
	CURL_FUNCTIONS(X)
#undef X
};

extern struct curl_functions curl;
