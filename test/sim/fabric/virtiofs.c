/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder on each function, and its daemon. A folder belongs to a volume and may be on functions
 * of several nodes at once, each with its own daemon.
 */
#include "test/sim/fabric/virtiofs.h"

#include <signal.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/sim/base/sim.h"

char *virtiofs_folder(const struct fabric *f, const char *ns, const char *volume)
{
	return xasprintf("%s/shares/%s.%s", f->state.path, ns, volume);
}

void virtiofs_new(struct function *fn, const struct fabric_namespace *n)
{
	fn->fs = xcalloc(1, sizeof(*fn->fs));
	fn->fs->ns = xstrdup(n->ns);
	fn->fs->volume = xstrdup(n->volume);
	snprintf(fn->fs->tag, sizeof(fn->fs->tag), "%s", n->tag);
}

void virtiofs_free(struct function *fn)
{
	if (!fn->fs)
		return;
	free(fn->fs->ns);
	free(fn->fs->volume);
	free(TAKE(fn->fs));
}

int virtiofs_serve(struct function *fn, struct err *err)
{
	const struct fabric *f = fn->host->fabric;
	char *folder AUTO(free) = virtiofs_folder(f, fn->fs->ns, fn->fs->volume);

	if (!fn->fs->taken)
		return 0;
	return daemon_start(&fn->fs->daemon, fn->host->root, fn->fs->tag, folder, err);
}

void virtiofs_end(struct function *fn)
{
	daemon_end(&fn->fs->daemon);
}

/* ---- the switch ---- */

static struct function *find(const struct fabric *f, const char *volume, const char *node)
{
	for (const struct host *h = f->hosts; h; h = h->next) {
		if (node && !str_eq(node, h->name))
			continue;
		for (size_t i = 0; i < h->n; i++) {
			const struct virtiofs *fs = h->functions[i].fs;

			if (fs && fs->taken && str_eq(fs->volume, volume))
				return &h->functions[i];
		}
	}
	return NULL;
}

static int restart(struct function *fn, struct err *err)
{
	virtiofs_end(fn);
	return virtiofs_serve(fn, err);
}

int virtiofs_do(struct fabric *f, const char *volume, const char *node, const char *what,
                struct err *err)
{
	WITH_LOCK(&f->lock);
	static const struct {
		const char *what;
		int signal;
	} rows[] = {
		{ "kill", SIGKILL }, { "stop", SIGSTOP }, { "continue", SIGCONT }, { "restart", 0 }
	};
	struct function *fn = find(f, volume, node);

	if (!fn)
		return err_set(err, ERR_NOT_FOUND,
		               "volume %s is on no bound virtio-fs function%s%s", volume,
		               node ? " of node " : "", node ? node : "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!str_eq(rows[i].what, what))
			continue;
		sim_log("%s: the daemon of tag %s: %s", fn->host->name, fn->fs->tag, what);
		return rows[i].signal ? daemon_signal(&fn->fs->daemon, rows[i].signal, err)
		                      : restart(fn, err);
	}
	return err_set(err, ERR_INVALID, "\"%s\" is none of kill, stop, continue, restart", what);
}
