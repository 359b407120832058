/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage of volumes (backing) and the functions that attachments hold (placement). The
 * controllers' thread changes the lists, and does so under dpf->lock, because HTTP threads read
 * them under it. Devices belong to the fabric.
 */
#include "test/sim/dpf/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "test/sim/dpf/queue.h"
#include "test/sim/dpf/references.h"
#include "test/sim/fabric/fabric.h"
#include "test/sim/kinds/object.h"

struct backing *backing_find(struct dpf *d, const char *ns, const char *volume)
{
	for (struct backing *b = d->backings; b; b = b->next)
		if (str_eq(b->ns, ns) && str_eq(b->volume, volume))
			return b;
	return NULL;
}

/* A parameter that DPF's key/value volumes need, and no others have. */
#define KEY_VALUE "status.state.parameters.memos_subsystem_nqn"

struct backing *backing_new(struct dpf *d, const struct json *volume, uint64_t bytes)
{
	const char *vendor = json_str(volume, "status.state.selectedDPUStorageVendorName");
	struct backing *b = xcalloc(1, sizeof(*b));

	b->ns = xstrdup(object_namespace(volume));
	b->volume = xstrdup(object_name(volume));
	b->vendor = xstrdup(vendor ? vendor : "");
	b->bytes = bytes;
	object_uuid(b->uuid);
	if (str_eq(json_str(volume, "spec.volumeMode"), "Block"))
		b->nsid = options_old_dpf(d->options) ? ++d->last_nsid : 1;
	b->key_value = b->nsid && json_at(volume, KEY_VALUE);
	WITH_LOCK(&d->lock);
	b->next = d->backings;
	d->backings = b;
	return b;
}

int backing_remove(struct dpf *d, struct backing *b, struct err *err)
{
	if (d->sim->fabric && fabric_remove_image(d->sim->fabric, b->ns, b->volume, err))
		return -1;
	{
		WITH_LOCK(&d->lock);
		struct backing **at = &d->backings;

		while (*at != b)
			at = &(*at)->next;
		*at = b->next;
	}
	free(b->ns);
	free(b->volume);
	free(b->vendor);
	free(b);
	return 0;
}

struct placement *placement_find(struct dpf *d, const char *ns, const char *attachment)
{
	for (struct placement *p = d->placements; p; p = p->next)
		if (str_eq(p->ns, ns) && str_eq(p->attachment, attachment))
			return p;
	return NULL;
}

static bool is_taken(const struct dpf *d, const char *node, enum function_kind kind, unsigned index)
{
	for (const struct placement *p = d->placements; p; p = p->next)
		if (str_eq(p->node, node) && p->kind == kind && p->index == index)
			return true;
	return false;
}

static enum function_kind kind_of(const struct json *attachment)
{
	struct err err = ERR_INIT;
	bool hotplug = false;

	if (str_eq(json_str(attachment, "spec.functionType"), "vf"))
		return FUNCTION_VF;
	return json_get_bool(attachment, "spec.hotplugFunction", &hotplug, &err) == 0 && hotplug
	               ? FUNCTION_HOTPLUG
	               : FUNCTION_PF;
}

static const char *const kind_names[] = {
	[FUNCTION_VF] = "vf",
	[FUNCTION_PF] = "static pf",
	[FUNCTION_HOTPLUG] = "hot-plug pf",
};

/* The name of the device and "tag", as in DPF, or the name from a fault. */
static void set_tag(struct dpf *d, struct placement *p)
{
	struct dpf_fault fault;

	if (p->nsid)
		return;
	if (faults_dpf(d->sim->faults, FAULT_TAG, p->attachment, p->volume, &fault))
		snprintf(p->tag, sizeof(p->tag), "%.36s", fault.value);
	else
		snprintf(p->tag, sizeof(p->tag), "%stag", p->name);
}

static unsigned count_functions(const struct dpf *d, enum function_kind kind)
{
	return kind == FUNCTION_VF        ? d->options->vfs
	       : kind == FUNCTION_HOTPLUG ? d->options->hotplug_slots
	                                  : 1;
}

static void set_nguid(struct placement *p)
{
	char *to = p->uuid;

	for (const char *from = p->uuid; *from; from++)
		if (*from != '-')
			*to++ = *from;
	*to = '\0';
}

int placement_take(struct dpf *d, const struct json *attachment, const struct backing *b,
                   struct placement **ret, struct err *err)
{
	const char *node = object_text(attachment, "spec.dpuNodeName");
	enum function_kind kind = kind_of(attachment);
	unsigned index = 0, n = count_functions(d, kind);
	struct placement *p;

	while (index < n && is_taken(d, node, kind, index))
		index++;
	if (index == n)
		return err_set(err, ERR_EXHAUSTED,
		               "no free function: all %u of kind %s on DPUNode %s are in use", n,
		               kind_names[kind], node);
	p = xcalloc(1, sizeof(*p));
	p->ns = xstrdup(object_namespace(attachment));
	p->attachment = xstrdup(object_name(attachment));
	p->node = xstrdup(node);
	p->volume = xstrdup(b->volume);
	p->kind = kind;
	p->index = index;
	p->nsid = b->nsid;
	object_uuid(p->uuid);
	p->key_value = b->key_value;
	if (p->key_value)
		set_nguid(p);
	snprintf(p->name, sizeof(p->name), "nvme-%.8s", b->uuid);
	set_tag(d, p);
	WITH_LOCK(&d->lock);
	p->next = d->placements;
	d->placements = p;
	*ret = p;
	return 0;
}

void placement_move(struct dpf *d, struct placement *p)
{
	unsigned n = count_functions(d, p->kind), index = p->index;

	do
		index = (index + 1) % n;
	while (index != p->index && is_taken(d, p->node, p->kind, index));
	p->moves = true;
	WITH_LOCK(&d->lock);
	p->index = index;
}

/* A function of the node is free: checks the node's waiting attachments. */
static void enqueue_waiting(struct dpf *d, const char *node)
{
	for (const struct reference *r = references_next(d, NULL); r; r = references_next(d, r))
		if (str_eq(r->node, node) && !placement_find(d, r->ns, r->attachment))
			queue_add(d, RES(ATTACHMENTS), r->ns, r->attachment);
}

void placement_give_back(struct dpf *d, struct placement *p)
{
	{
		WITH_LOCK(&d->lock);
		struct placement **at = &d->placements;

		while (*at != p)
			at = &(*at)->next;
		*at = p->next;
	}
	free(p->ns);
	free(p->attachment);
	free(p->node);
	free(p->volume);
	free(p);
}

void placement_release(struct dpf *d, struct placement *p)
{
	char *node AUTO(free) = xstrdup(p->node);

	placement_give_back(d, p);
	enqueue_waiting(d, node);
}

static struct fabric_namespace namespace_of(const struct placement *p)
{
	return (struct fabric_namespace) { .node = p->node,
		                           .kind = p->kind,
		                           .index = p->index,
		                           .ns = p->ns,
		                           .volume = p->volume,
		                           .nsid = p->nsid,
		                           .tag = *p->tag ? p->tag : NULL,
		                           .uuid = p->uuid,
		                           .key_value = p->key_value };
}

static void set_device(struct dpf *d, struct placement *p, bool device)
{
	WITH_LOCK(&d->lock);
	p->device = device;
}

int placement_show(struct dpf *d, struct placement *p, struct err *err)
{
	struct fabric_namespace n = namespace_of(p);
	const struct backing *b = backing_find(d, p->ns, p->volume);

	/* Only a hot-plugged function can be a virtio-fs device. */
	if (!d->sim->fabric || p->device || (n.tag && n.kind != FUNCTION_HOTPLUG))
		return 0;
	if (!b)
		return err_set(err, ERR_UNAVAILABLE, "the volume has no storage");
	n.bytes = b->bytes;
	if (fabric_show(d->sim->fabric, &n, err))
		return -1;
	set_device(d, p, true);
	return 0;
}

int placement_hide(struct dpf *d, struct placement *p, struct err *err)
{
	struct fabric_namespace n = namespace_of(p);

	if (!d->sim->fabric || !p->device)
		return 0;
	if (fabric_hide(d->sim->fabric, &n, err))
		return -1;
	set_device(d, p, false);
	return 0;
}

void placement_pci(const struct dpf *d, const struct placement *p, char buf[16])
{
	char bdf[16];

	function_bdf(p->kind, p->index, bdf);
	snprintf(buf, 16, "%s", d->options->short_pci ? bdf + strlen("0000:") : bdf);
}

void placement_vuid(const struct placement *p, char buf[32])
{
	function_vuid(p->node, p->kind, p->index, buf);
}

static int set_bytes(struct dpf *d, const char *volume, uint64_t bytes, char **ret_ns,
                     struct err *err)
{
	WITH_LOCK(&d->lock);
	for (struct backing *b = d->backings; b; b = b->next) {
		if (!str_eq(b->volume, volume))
			continue;
		if (bytes < b->bytes)
			return err_set(err, ERR_INVALID,
			               "volume %s has %" PRIu64 " bytes: it can only grow", volume,
			               (uint64_t)b->bytes);
		b->bytes = bytes;
		*ret_ns = xstrdup(b->ns);
		return 0;
	}
	return err_set(err, ERR_NOT_FOUND, "no bound volume is named %s", volume);
}

int backing_resize(struct dpf *d, const char *volume, uint64_t bytes, struct err *err)
{
	char *ns AUTO(free) = NULL;

	if (set_bytes(d, volume, bytes, &ns, err))
		return -1;
	return d->sim->fabric ? fabric_grow(d->sim->fabric, ns, volume, bytes, err) : 0;
}

static struct json *volume_json(const struct backing *b)
{
	struct json *o = json_object();

	json_set_str(o, "namespace", b->ns);
	json_set_str(o, "name", b->volume);
	json_set_str(o, "vendor", b->vendor);
	json_set_int(o, "nsid", b->nsid);
	json_set_str(o, "uuid", b->uuid);
	json_set_int(o, "bytes", (int64_t)(uint64_t)b->bytes);
	return o;
}

static struct json *attachment_json(const struct placement *p)
{
	struct json *o = json_object();
	char bdf[16], vuid[32];

	function_bdf(p->kind, p->index, bdf);
	function_vuid(p->node, p->kind, p->index, vuid);
	json_set_str(o, "namespace", p->ns);
	json_set_str(o, "name", p->attachment);
	json_set_str(o, "node", p->node);
	json_set_str(o, "volume", p->volume);
	json_set_str(o, "function", kind_names[p->kind]);
	json_set_str(o, "pciAddress", bdf);
	json_set_str(o, "funcVUID", vuid);
	if (*p->tag)
		json_set_str(o, "filesystemTag", p->tag);
	json_set_bool(o, "device", p->device);
	return o;
}

struct json *placement_json(struct dpf *d)
{
	struct json *o = json_object(), *volumes = json_array(), *attachments = json_array();

	WITH_LOCK(&d->lock);
	for (const struct backing *b = d->backings; b; b = b->next)
		json_append(volumes, volume_json(b));
	for (const struct placement *p = d->placements; p; p = p->next)
		json_append(attachments, attachment_json(p));
	json_set(o, "volumes", volumes);
	json_set(o, "attachments", attachments);
	return o;
}
