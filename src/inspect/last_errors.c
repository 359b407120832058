/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the last errors of volumes from the file that the running driver writes (common/failing.h).
 * Adds `lastError` to a volume, and for each volume that fails now a finding before all others.
 * Reads the file on a separate thread, because a disk may hang. Sends no request.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/detached.h"
#include "common/failing.h"
#include "common/mem.h"
#include "inspect/inspect.h"

#define FAILING_S (FAILING_FORGOTTEN_NS / INT64_C(1000000000))

/* Shared by the caller and the thread. */
struct last_errors {
	char *path;
	struct failing_error *v;
	size_t n;
	int rc;
	struct err err;
};

static void last_errors_add(void *arg, const struct failing_error *e)
{
	struct last_errors *box = arg;

	box->v = xrealloc(box->v, (box->n + 1) * sizeof(*box->v));
	box->v[box->n++] = *e;
}

static void last_errors_main(void *arg)
{
	struct last_errors *box = arg;

	box->rc = failing_read(box->path, last_errors_add, box, &box->err);
}

static void last_errors_free(void *arg)
{
	struct last_errors *box = arg;

	free(box->path);
	free(box->v);
	free(box);
}

static int64_t seconds_since(int64_t then)
{
	int64_t now = time(NULL);

	return then > now ? 0 : now - then;
}

static void last_errors_set(struct inspect_report *r, const struct failing_error *e)
{
	struct json *facts = json_sub(inspect_volume(r, e->volume), "lastError");

	json_set_str(facts, "call", e->call);
	json_set_str(facts, "code", err_code_name(e->err.code));
	json_set_str(facts, "text", e->err.msg);
	json_set_int(facts, "count", (int64_t)e->count);
	json_set_int(facts, "since", seconds_since(e->first));
	json_set_int(facts, "age", seconds_since(e->last));
}

#define RETRIED "; kubelet or the sidecar retries the call"

/* The next step of an error's kind. An error without a kind has that of its method and code. */
static const char *const steps_of_kinds[] = {
	[ERR_KIND_WRONG_DEVICE] =
		"the function that the text names has another volume's device: change no data on "
		"it; compare the DPUVolumeAttachment of the volume (status.dpu) with the function, "
		"and read the logs of DPF's storage controllers" RETRIED,
	[ERR_KIND_HAS_DATA] =
		"find the owner of the data before you change the disk: the volume's own data have "
		"another fsType than its StorageClass; if the volume has never held data, clear "
		"the disk with blkdiscard -z; for any other data ask the administrator of the "
		"storage backend" RETRIED,
	[ERR_KIND_HELD] =
		"on the node, end the processes, mounts and loop devices that the text names, "
		"unless they have ended since" RETRIED,
	[ERR_KIND_WRONG_PASSPHRASE] =
		"correct encryption-passphrase in the Secret that the StorageClass names for the "
		"stage (csi.storage.k8s.io/node-stage-secret-name); without the right passphrase "
		"the data cannot be read" RETRIED,
};

/* The first row that applies is the next step. */
static const struct {
	const char *call;   /* a prefix of the method's name */
	enum err_code code; /* ERR_OK: every code */
	const char *next;
} steps[] = {
	{ "NodeGetVolumeStats", ERR_OK,
	  "read dmesg of the node, and check the DPU: the volume answers when its device and its "
	  "server do; if the device was detached, end the pods that use the volume" },
	{ "CreateVolume", ERR_INVALID,
	  "correct what the text names (the parameters of a StorageClass cannot be changed: delete "
	  "it and create it again under the same name; its volumes stay)" RETRIED },
	{ "ControllerPublishVolume", ERR_EXHAUSTED,
	  "delete a pod that uses another volume on that node, or run the pod of this volume on "
	  "another node" RETRIED },
	{ "ControllerPublishVolume", ERR_PRECONDITION,
	  "if another node has the volume, delete the pod there; if no pod is left there, list the "
	  "VolumeAttachments of the volume (kubectl get volumeattachments)" RETRIED },
	{ "NodeStageVolume", ERR_PRECONDITION,
	  "correct what the text names; format no disk by hand before its UUID is that of the "
	  "DPUVolumeAttachment" RETRIED },
	{ "NodeStageVolume", ERR_ABORTED,
	  "wait until the process that the text names has ended" RETRIED },
	{ "NodeUn", ERR_UNAVAILABLE, /* NodeUnpublishVolume and NodeUnstageVolume */
	  "on the node, end the processes that the text names; if the text names a device that does "
	  "not answer, read dmesg" RETRIED },
	{ "Node", ERR_DEADLINE,
	  "read dmesg of the node, and check that the DPU shows the device and that the device "
	  "answers" RETRIED },
	{ "", ERR_DEADLINE,
	  "check that the API server answers and that DPF works on the object that the text "
	  "names" RETRIED },
	{ "", ERR_OK,
	  "docs/troubleshoot/error-texts.md lists the cause and the next step for this text" RETRIED },
};

static const char *next_step(const struct failing_error *e)
{
	size_t i = 0;

	if (e->err.kind)
		return steps_of_kinds[e->err.kind];
	while (!str_has_prefix(e->call, steps[i].call) ||
	       (steps[i].code != ERR_OK && steps[i].code != e->err.code))
		i++;
	return steps[i].next;
}

static void last_errors_report(struct inspect_report *r, const struct failing_error *e)
{
	char *object AUTO(free) = xasprintf("volume %s", e->volume);
	char since[64], last[64];

	inspect_finding(r, object, next_step(e),
	                "%s fails with %s: %s (failed calls: %llu, the first %s ago, the last %s "
	                "ago)",
	                e->call, err_code_name(e->err.code), e->err.msg,
	                (unsigned long long)e->count, inspect_age(seconds_since(e->first), since),
	                inspect_age(seconds_since(e->last), last));
}

/* Adds the newest error first, because its alert or Event is the latest. */
static void last_errors_take(struct inspect_report *r, const struct inspect_options *o,
                             const struct last_errors *box)
{
	for (size_t i = box->n; i-- > 0;) {
		const struct failing_error *e = &box->v[i];

		if (!inspect_wants(o, e->volume))
			continue;
		last_errors_set(r, e);
		if (seconds_since(e->last) <= FAILING_S)
			last_errors_report(r, e);
	}
}

void inspect_last_errors(struct inspect_report *r, const struct inspect_options *o,
                         struct deadline d)
{
	struct last_errors *box = xcalloc(1, sizeof(*box));
	struct detached *thread;
	struct err err = ERR_INIT;

	box->path = xasprintf("%s/" FAILING_FILE, o->flags.plugin_dir);
	thread = detached_start(last_errors_main, last_errors_free, box, &err);
	if (!thread) {
		last_errors_free(box);
		inspect_finding(r, "this host", "end processes that are not needed", "%s", err.msg);
		return;
	}
	if (!detached_wait(thread, d))
		inspect_finding(r, "this host",
		                "read the kernel log (dmesg) for errors of the disk of that folder",
		                "reading %s/" FAILING_FILE
		                " does not finish: the last errors are not shown",
		                o->flags.plugin_dir);
	else if (box->rc)
		inspect_finding(r, "this host",
		                "remove the file: the driver writes it again with its next error",
		                "the last errors cannot be read: %s", box->err.msg);
	else
		last_errors_take(r, o, box);
	detached_put(thread);
}

/*
 * An older error may still be the reason why a volume stays staged. The file has only the calls of
 * one driver, so another driver (for example, another replica of the controller) may have served a
 * successful call since.
 */
void inspect_find_old_errors(struct inspect_report *r, const struct inspect_options *o)
{
	bool requested = o->volume_id || o->resolved;

	json_foreach (v, json_at(r->tree, "volumes")) {
		const struct json *e = json_member(v, "lastError"), *node = json_member(v, "node");
		char *object AUTO(free) = NULL;
		struct err ignored = ERR_INIT;
		int64_t age = 0;
		char buf[64];

		if (!e || json_get_i64(e, "age", &age, &ignored) || age <= FAILING_S ||
		    (!requested && !json_count(json_member(node, "staged")) &&
		     !json_count(json_member(node, "records"))))
			continue;
		object = xasprintf("volume %s", json_str(v, "id"));
		inspect_finding(
			r, object,
			"kubelet has sent no call for it since: check its pods and kubelet's "
			"log",
			"its last call, %s, failed %s ago with %s: %s", json_str(e, "call"),
			inspect_age(age, buf), json_str(e, "code"), json_str(e, "text"));
	}
}
