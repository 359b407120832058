/* SPDX-License-Identifier: Apache-2.0 */
/* See kube_fake.h. Owns a directory below $TMPDIR or /tmp. */
#include "test/lib/kube_fake.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"

const struct kube_kind kind_volume = { .group = "storage.dpu.nvidia.com",
	                               .version = "v1alpha1",
	                               .plural = "dpuvolumes",
	                               .kind = "DPUVolume" };

/*
 * Only the pauses between attempts are short. The timeouts for answers stay as in a cluster: on a
 * busy machine the scripted server is slow too, and a client that stops waiting opens a second
 * watch, into which no test pushes events.
 */
static const struct kube_tuning short_pauses = {
	.watch_backoff_ms = 20,
	.watch_backoff_most_ms = 100,
	.mistake_ms = 20,
	.page = 2,
};

/* Requests within 20 ms share one check of the files (kube_config_get()). */
#define CREDENTIALS_LOOK_US 25000

void kube_fake_file(struct kube_fake *f, const char *name, const char *text)
{
	struct err err = ERR_INIT;
	char *path AUTO(free) = xasprintf("%s/%s", f->dir, name);
	ck_assert_msg(file_replace(path, text, strlen(text), 0600, &err) == 0, "%s", err.msg);
	usleep(CREDENTIALS_LOOK_US);
}

void kube_fake_config(struct kube_fake *f, const char *url, const char *cluster, const char *user)
{
	char *text AUTO(free) = xasprintf("apiVersion: v1\n"
	                                  "kind: Config\n"
	                                  "current-context: c\n"
	                                  "contexts:\n"
	                                  "- name: c\n"
	                                  "  context: {cluster: k, user: u}\n"
	                                  "clusters:\n"
	                                  "- name: k\n"
	                                  "  cluster:\n"
	                                  "    server: %s\n%s"
	                                  "users:\n"
	                                  "- name: u\n"
	                                  "  user:\n"
	                                  "    ignored: 1\n%s",
	                                  url, cluster, user);
	kube_fake_file(f, "kubeconfig", text);
}

static char left_over[64]; /* the directory, until it is removed */

/* Also called at exit, because a failing assertion ends the test's process. */
static void directory_remove(void)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	if (!left_over[0] || dir_list(left_over, &names, &err))
		return;
	for (size_t i = 0; i < names.n; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", left_over, names.v[i]);
		unlink(path);
	}
	rmdir(left_over);
	left_over[0] = 0;
}

static void directory_make(struct kube_fake *f)
{
	static bool registered;
	const char *tmp = getenv("TMPDIR");
	directory_remove();
	snprintf(f->dir, sizeof(f->dir), "%s/kube-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(f->dir));
	snprintf(left_over, sizeof(left_over), "%s", f->dir);
	snprintf(f->kubeconfig, sizeof(f->kubeconfig), "%s/kubeconfig", f->dir);
	if (!registered)
		atexit(directory_remove);
	registered = true;
}

void kube_fake_start(struct kube_fake *f, const struct kube_tuning *tuning)
{
	struct kube_options options = { .kubeconfig = f->kubeconfig, .user_agent = "snap-csi/1.0" };
	struct err err = ERR_INIT;

	directory_make(f);
	f->server = fake_http_start();
	kube_fake_config(f, fake_http_url(f->server), "", "    token: token-1\n");
	ck_assert_msg(kube_new_tuned(&options, tuning ? tuning : &short_pauses, &f->kube, &err) ==
	                      0,
	              "%s", err.msg);
}

void kube_fake_stop(struct kube_fake *f)
{
	f->kube = kube_free(f->kube);
	fake_http_stop(f->server);
	directory_remove();
}
