/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Releases memory after large answers. A tree needs up to 40 times the size of its text, in small
 * pieces that malloc() would keep permanently. A trim goes through all of malloc()'s pieces, so it
 * runs at most once in TRIM_MS, and again after the last answer, when the caller has freed the
 * tree. All functions except kube_trim_soon() run on the HTTP engine's thread.
 */
#include "kube/kube_priv.h"

#include <malloc.h>

#define LARGE (256 * 1024) /* size in bytes of one operation's answers */
#define TRIM_MS 1000

static void trim_later(struct kube *k)
{
	http_timer_set(k->http, &k->trim, monotonic_ns() + TRIM_MS * INT64_C(1000000));
}

static void trim(void *arg)
{
	struct kube *k = arg;
	malloc_trim(0);
	if (k->trim_again)
		trim_later(k);
	k->trim_again = false;
}

static void asked(void *arg)
{
	struct kube *k = arg;
	if (k->trim.set)
		k->trim_again = true;
	else
		trim_later(k);
}

void kube_trim_soon(struct kube *k, size_t bytes)
{
	if (bytes >= LARGE)
		http_post(k->http, asked, k);
}

void kube_trim_init(struct kube *k)
{
	k->trim = (struct http_timer) { .fn = trim, .arg = k };
}
