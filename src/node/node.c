/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node object and the publish context's parser. Owns the guard, the jobs and the asides;
 * everything else is borrowed.
 */
#include "node/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/aside.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "volume/context_keys.h"
#include "common/keyed_hash.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "node/guard.h"
#include "node/job.h"

#define DEFAULT_FORMATS 2
/* NodeGetInfo waits twice at most, and kubelet is to register the driver within two seconds. */
#define DEFAULT_HOST_WAIT_MS 750
/* kubelet gives a stage two minutes: one that waits for two slow tools has half of them left. */
#define JOB_TURN_MS 60000

static int read_boot_id(const char *proc_root, char ret[BOOT_ID_SIZE], struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/sys/kernel/random/boot_id", proc_root);
	char *id AUTO(free) = NULL;

	if (file_read_line(path, BOOT_ID_SIZE - 1, &id, err))
		return -1;
	if (str_empty(id))
		return err_set(err, ERR_UNAVAILABLE, "%s is empty", path);
	snprintf(ret, BOOT_ID_SIZE, "%s", id);
	return 0;
}

int node_boot_id(const struct node *n, char ret[BOOT_ID_SIZE], struct err *err)
{
	if (*n->boot_id) {
		memcpy(ret, n->boot_id, BOOT_ID_SIZE);
		return 0;
	}
	if (read_boot_id(n->o.proc_root, ret, err) == 0)
		return 0;
	err_wrap(err, "the boot's id cannot be read");
	return err_recode(err, ERR_UNAVAILABLE);
}

void node_init(struct node *n, const struct node_options *o)
{
	struct err later = ERR_INIT; /* node_boot_id() tells it */

	*n = (struct node) { .o = *o,
		             .guard = guard_new(),
		             .recovery = aside_new(),
		             .preparer = aside_new(),
		             .counter = aside_new() };
	if (o->own_looks)
		snprintf(n->token, sizeof(n->token), "%016" PRIx64, hash_key_random().k0);
	if (o->proc_root)
		IGNORE_RESULT(read_boot_id(o->proc_root, n->boot_id, &later));
	if (str_empty(n->o.virtiofs_type))
		n->o.virtiofs_type = "virtiofs";
	if (!n->o.max_formats)
		n->o.max_formats = DEFAULT_FORMATS;
	if (!n->o.host_wait_ms)
		n->o.host_wait_ms = DEFAULT_HOST_WAIT_MS;
	n->jobs = jobs_new(n->o.max_formats, n->o.job_turn_ms ? n->o.job_turn_ms : JOB_TURN_MS);
}

void node_wait_jobs(struct node *n, struct deadline d)
{
	struct err err = ERR_INIT;

	if (!jobs_wait(n->jobs, deadline_in_ms(0), &err))
		return;
	log_event(LOG_INFO, "waiting for tools before stopping", "running", err.msg, NULL);
	err_clear(&err);
	if (jobs_wait(n->jobs, d, &err))
		log_event(LOG_WARNING,
		          "stopping while tools run; they end with the container, and the next "
		          "stage of their volumes on this node repeats them",
		          "running", err.msg, NULL);
}

bool node_wait_host(const struct node *n, struct deadline d)
{
	return aside_wait(n->recovery, d) && aside_wait(n->preparer, d) &&
	       aside_wait(n->counter, d) && !atomic_load(&n->walks);
}

void node_clear(struct node *n)
{
	n->recovery = aside_free(n->recovery);
	n->preparer = aside_free(n->preparer);
	n->counter = aside_free(n->counter);
	n->guard = guard_free(n->guard);
	n->jobs = jobs_free(n->jobs);
}

bool publish_context_given(const struct kvs *map)
{
	return !str_empty(kvs_get(map, PUBLISH_PCI_ADDRESS));
}

enum emulation publish_context_emulation(const struct kvs *map, enum emulation otherwise)
{
	bool nsid = !str_empty(kvs_get(map, PUBLISH_NVME_NSID));
	bool tag = !str_empty(kvs_get(map, PUBLISH_VIRTIOFS_TAG));

	if (nsid == tag)
		return otherwise;
	return tag ? EMULATION_VIRTIOFS : EMULATION_NVME;
}

static int parse_nvme(const struct kvs *map, struct device_want *want, struct err *err)
{
	const char *nsid = kvs_get(map, PUBLISH_NVME_NSID);
	const char *capacity = kvs_get(map, PUBLISH_CAPACITY);
	struct err ignored = ERR_INIT;
	uint64_t n = 0;

	if (str_empty(nsid))
		return err_set(err, ERR_INVALID, "PublishContext.nvmeNsID: field is required");
	if (parse_u64("", nsid, &n, &ignored) || n == 0 || n > UINT32_MAX)
		return err_set(err, ERR_INVALID,
		               "PublishContext.nvmeNsID contains invalid NVME NS ID");
	want->nsid = (uint32_t)n;
	want->uuid = kvs_get_or(map, PUBLISH_NVME_UUID, "");
	if (str_empty(capacity))
		return 0;
	return parse_u64("PublishContext." PUBLISH_CAPACITY, capacity, &want->capacity, err);
}

/* The capacity is a quota of the share: the device has no size that could be compared. */
static int parse_virtiofs(const struct kvs *map, struct device_want *want, struct err *err)
{
	want->tag = kvs_get_or(map, PUBLISH_VIRTIOFS_TAG, "");
	if (!*want->tag)
		return err_set(err, ERR_INVALID, "PublishContext.virtioFSTag: field is required");
	if (device_tag_check(want->tag, err))
		return err_wrap(err, "PublishContext.virtioFSTag");
	/* The DPU has no VFs that share files. */
	want->function = DEVICE_FUNCTION_PF;
	return 0;
}

int publish_context_parse(const struct kvs *map, enum emulation expected, struct device_want *ret,
                          struct err *err)
{
	struct device_want want = {
		.volume_id = "", /* error texts of the callers name it already */
		.pci = kvs_get_or(map, PUBLISH_PCI_ADDRESS, ""),
		.vuid = kvs_get_or(map, PUBLISH_FUNC_VUID, ""),
		.uuid = "",
		.emulation = publish_context_emulation(map, expected),
	};

	if (str_empty(want.pci))
		return err_set(err, ERR_INVALID,
		               "PublishContext.pciDeviceAddress: field is required");
	if (!str_empty(kvs_get(map, PUBLISH_NVME_NSID)) &&
	    !str_empty(kvs_get(map, PUBLISH_VIRTIOFS_TAG)))
		return err_set(
			err, ERR_INVALID,
			"PublishContext: nvmeNsID and virtioFSTag are both given; a volume is "
			"an NVMe namespace or a virtio-fs share");
	if (want.emulation == EMULATION_VIRTIOFS ? parse_virtiofs(map, &want, err)
	                                         : parse_nvme(map, &want, err))
		return -1;
	*ret = want;
	return 0;
}
