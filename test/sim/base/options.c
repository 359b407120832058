/* SPDX-License-Identifier: Apache-2.0 */
/* The options as one table: name, kind, member of the struct, help. --help prints it. */
#include "test/sim/base/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

enum option_kind { FLAG, NUMBER, BYTES, TEXT, LIST, LISTEN, HELP, VERSION, HEADING };

struct option_row {
	const char *name, *argument;
	enum option_kind kind;
	size_t offset;
	const char *help;
};

#define AT(member) offsetof(struct sim_options, member)

static const struct option_row rows[] = {
	{ NULL, NULL, HEADING, 0, "The API server" },
	{ "listen", "ADDRESS:PORT", LISTEN, 0,
	  "where to serve HTTP; port 0 takes a free one (127.0.0.1:0)" },
	{ "port-file", "FILE", TEXT, AT(port_file),
	  "write the port to FILE once requests are served" },
	{ "write-kubeconfig", "FILE", TEXT, AT(kubeconfig),
	  "write a kubeconfig for this server to FILE" },
	{ "token", "TEXT", TEXT, AT(token), "every request must carry this bearer token" },
	{ "history", "N", NUMBER, AT(history), "events kept for watches that come back (10000)" },
	{ "bookmark-ms", "MS", NUMBER, AT(bookmark_ms),
	  "time between two bookmarks of a watch (60000)" },
	{ "no-watch-list", NULL, FLAG, AT(no_watch_list),
	  "refuse sendInitialEvents, as an API server without the feature WatchList" },
	{ "growing-volumes", NULL, FLAG, AT(growing_volumes),
	  "the CRD lets spec.resources of a DPUVolume grow, and DPF follows; otherwise it is immutable" },
	{ "storage-version", "VERSION", LIST, AT(storage_versions),
	  "a served version of storage.dpu.nvidia.com, VERSION-FIELD: without that field of DPUVolumes; repeatable (v1alpha1)" },
	{ NULL, NULL, HEADING, 0, "The world" },
	{ "namespace", "NAME", TEXT, AT(namespace),
	  "namespace of the seeded objects (nvidia-storage)" },
	{ "node", "NAME", LIST, AT(nodes),
	  "a host with a DPU: makes a Node, a DPUNode and a DPU; repeatable" },
	{ "seed", NULL, FLAG, AT(seed),
	  "make DPUStorageVendor example-vendor and DPUStoragePolicy example-policy" },
	{ "seed-file", "FILE", LIST, AT(seed_files),
	  "create the objects in FILE (JSON: one object, a list of them, or a List); repeatable" },
	{ NULL, NULL, HEADING, 0, "DPF" },
	{ "kubeconfig", "FILE", TEXT, AT(api),
	  "run DPF against the objects of that API server; this one only shows a copy of them" },
	{ "no-dpf", NULL, FLAG, AT(no_dpf), "an API server only, without DPF" },
	{ "dpf", "VERSION", TEXT, AT(dpf),
	  "26, or 25.7: other texts, no Events, one NVMe subsystem whose nsids count up (26)" },
	{ "dpf-rate", "N", NUMBER, AT(dpf_rate),
	  "DPF sends at most N writes a second, after a burst of half as many more; 0: any (0; real: 20)" },
	{ "dpf-back-off-ms", "MS", NUMBER, AT(back_off_ms),
	  "longest pause before DPF repeats what ended with an error (200; real: 1000000)" },
	{ "bind-delay-ms", "MS", NUMBER, AT(bind_delay_ms),
	  "a volume is bound this long after it was scheduled (0)" },
	{ "attach-delay-ms", "MS", NUMBER, AT(attach_delay_ms),
	  "an attachment is ready this late (0)" },
	{ "detach-delay-ms", "MS", NUMBER, AT(detach_delay_ms),
	  "an attachment is gone this late (0)" },
	{ "delete-delay-ms", "MS", NUMBER, AT(delete_delay_ms), "a volume is gone this late (0)" },
	{ "capacity-unit", "BYTES", BYTES, AT(capacity_unit),
	  "the storage rounds capacities up to a multiple of this (1)" },
	{ "attachment-metadata", "KEY=VALUE", LIST, AT(attachment_metadata),
	  "an entry of status.attachmentMetadata; repeatable" },
	{ "vfs", "N", NUMBER, AT(vfs), "virtual functions of each node's SNAP PF (4)" },
	{ "hotplug-slots", "N", NUMBER, AT(hotplug_slots),
	  "hot-plug slots of each node's DPU (0)" },
	{ "short-pci-address", NULL, FLAG, AT(short_pci),
	  "publish PCI addresses without the domain" },
	{ NULL, NULL, HEADING, 0, "The fabric: loop devices below a sysfs tree (needs root)" },
	{ "no-fabric", NULL, FLAG, AT(no_fabric),
	  "no devices: attachments get addresses of functions that are not there" },
	{ "state", "DIR", TEXT, AT(state),
	  "where <node>/sys, <node>/dev and the images are (/var/tmp/snap-sim); not on a nodev mount" },
	{ "no-multipath", NULL, FLAG, AT(no_multipath), "the tree of nvme_core.multipath=N" },
	{ "sector-size", "N", NUMBER, AT(sector_size),
	  "logical block size of the devices, 512 or 4096 (512)" },
	{ "hide-uuid", NULL, FLAG, AT(hide_uuid), "the kernel shows no uuid attribute" },
	{ "bind-vfs", NULL, FLAG, AT(bind_vfs),
	  "the VFs are bound to the nvme driver from the start" },
	{ "no-vfs", NULL, FLAG, AT(no_vfs), "sriov_numvfs is 0 until somebody writes to it" },
	{ "no-virtiofs-tags", NULL, FLAG, AT(no_virtiofs_tags),
	  "the kernel shows no tags below /sys/fs/virtiofs, as one before 6.9" },
	{ "blacklist-virtio", NULL, FLAG, AT(blacklist_virtio),
	  "hot-plugged virtio-fs functions are bound only when asked, as where virtio_pci is blacklisted" },
	{ NULL, NULL, HEADING, 0, "Other" },
	{ "v", "N", NUMBER, AT(verbosity), "1: what DPF and the fabric do, 2: every request (0)" },
	{ "version", NULL, VERSION, 0, "print the version" },
	{ "help", NULL, HELP, 0, "print this" },
};

void options_default(struct sim_options *o)
{
	*o = (struct sim_options) { .address = xstrdup("127.0.0.1"),
		                    .namespace = xstrdup("nvidia-storage"),
		                    .state = xstrdup("/var/tmp/snap-sim"),
		                    .dpf = xstrdup("26"),
		                    .back_off_ms = 200,
		                    .capacity_unit = 1,
		                    .vfs = 4,
		                    .sector_size = 512,
		                    .history = 10000,
		                    .bookmark_ms = 60000 };
}

bool options_old_dpf(const struct sim_options *o)
{
	return str_eq(o->dpf, "25.7");
}

void options_clear(struct sim_options *o)
{
	free(o->address);
	free(o->port_file);
	free(o->kubeconfig);
	free(o->token);
	free(o->api);
	free(o->namespace);
	free(o->state);
	free(o->dpf);
	strs_clear(&o->storage_versions);
	strs_clear(&o->nodes);
	strs_clear(&o->seed_files);
	strs_clear(&o->attachment_metadata);
}

static void print_help(void)
{
	puts("snap-sim: a Kubernetes API server, DPF's storage controllers and a DPU for tests\n\n"
	     "Serves the part of the Kubernetes API that the snap-csi driver uses, behaves as DPF\n"
	     "does, and shows attached volumes as loop devices below a sysfs tree.\n\n"
	     "  snap-sim --node worker-1 --seed --write-kubeconfig sim.kubeconfig\n\n"
	     "Ends on SIGTERM or SIGINT and takes its devices along.");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct option_row *row = &rows[i];
		char *left AUTO(free) =
			row->kind == HEADING
				? NULL
				: xasprintf("%s%s %s", strlen(row->name) == 1 ? " -" : "--",
		                            row->name, row->argument ? row->argument : "");

		if (!left)
			printf("\n%s\n", row->help);
		else
			printf("  %-32s %s\n", left, row->help);
	}
}

static const struct option_row *find(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].name && strlen(rows[i].name) == n &&
		    strncmp(rows[i].name, name, n) == 0)
			return &rows[i];
	return NULL;
}

static int set_listen(struct sim_options *o, const char *value, struct err *err)
{
	const char *colon = strrchr(value, ':');
	uint64_t port;

	if (!colon || colon == value)
		return err_set(err, ERR_INVALID, "--listen: \"%s\" is not ADDRESS:PORT", value);
	if (parse_u64("--listen", colon + 1, &port, err))
		return -1;
	if (port > 65535)
		return err_set(err, ERR_INVALID, "--listen: there is no port %s", colon + 1);
	free(o->address);
	o->address = xstrndup(value, (size_t)(colon - value));
	o->port = (unsigned)port;
	return 0;
}

static int set_number(const struct option_row *row, void *place, const char *value, struct err *err)
{
	char *what AUTO(free) = xasprintf("--%s", row->name);
	uint64_t n;

	if (parse_u64(what, value, &n, err))
		return -1;
	if (row->kind == BYTES) {
		*(uint64_t *)place = n ? n : 1;
		return 0;
	}
	if (n > 1000000000)
		return err_set(err, ERR_INVALID, "%s: %s is too large", what, value);
	*(unsigned *)place = (unsigned)n;
	return 0;
}

static int set(struct sim_options *o, const struct option_row *row, const char *value,
               struct err *err)
{
	void *place = (char *)o + row->offset;

	switch (row->kind) {
	case FLAG:
		*(bool *)place = true;
		return value ? parse_bool(row->name, value, place, err) : 0;
	case NUMBER:
	case BYTES:
		return set_number(row, place, value, err);
	case TEXT:
		free(*(char **)place);
		*(char **)place = xstrdup(value);
		return 0;
	case LIST:
		strs_add(place, value);
		return 0;
	case LISTEN:
		return set_listen(o, value, err);
	case HELP:
	case VERSION:
	case HEADING:
		break;
	}
	return 0;
}

static int check(const struct sim_options *o, struct err *err)
{
	if (o->sector_size != 512 && o->sector_size != 4096)
		return err_set(err, ERR_INVALID, "--sector-size: %u is neither 512 nor 4096",
		               o->sector_size);
	if (!o->vfs || o->vfs > 250)
		return err_set(err, ERR_INVALID, "--vfs: %u is not between 1 and 250", o->vfs);
	if (o->hotplug_slots > 31)
		return err_set(err, ERR_INVALID, "--hotplug-slots: %u is above 31",
		               o->hotplug_slots);
	if (!str_eq(o->dpf, "26") && !options_old_dpf(o))
		return err_set(err, ERR_INVALID, "--dpf: \"%s\" is neither 26 nor 25.7", o->dpf);
	if (!o->bookmark_ms)
		return err_set(err, ERR_INVALID, "--bookmark-ms: must be above 0");
	for (size_t i = 0; i < o->nodes.n; i++)
		if (!dns1123_subdomain(o->nodes.v[i]))
			return err_set(err, ERR_INVALID, "--node: \"%s\" is no Kubernetes name",
			               o->nodes.v[i]);
	for (size_t i = 0; i < o->attachment_metadata.n; i++)
		if (!strchr(o->attachment_metadata.v[i], '='))
			return err_set(err, ERR_INVALID,
			               "--attachment-metadata: \"%s\" is not KEY=VALUE",
			               o->attachment_metadata.v[i]);
	if (o->api && (o->seed || o->seed_files.n || o->no_dpf))
		return err_set(
			err, ERR_INVALID,
			"--kubeconfig cannot be combined with --seed, --seed-file or --no-dpf; create the objects on that server");
	return dns1123_subdomain(o->namespace)
	               ? 0
	               : err_set(err, ERR_INVALID, "--namespace: \"%s\" is no Kubernetes name",
	                         o->namespace);
}

int options_parse(int argc, char **argv, struct sim_options *ret, enum options_end *end,
                  struct err *err)
{
	options_default(ret);
	*end = OPTIONS_GO;
	for (int i = 1; i < argc; i++) {
		const char *name =
			argv[i] + (argv[i][0] == '-') + (argv[i][0] == '-' && argv[i][1] == '-');
		size_t n = strcspn(name, "=");
		const struct option_row *row = argv[i][0] == '-' ? find(name, n) : NULL;
		const char *value = name[n] ? name + n + 1 : NULL;

		if (!row)
			return err_set(err, ERR_INVALID, "unknown option %s; --help lists them",
			               argv[i]);
		if (row->kind == HELP || row->kind == VERSION) {
			*end = OPTIONS_DONE;
			if (row->kind == HELP)
				print_help();
			else
				puts("snap-sim " SNAP_CSI_VERSION);
			return 0;
		}
		if (!value && row->argument) {
			if (++i == argc)
				return err_set(err, ERR_INVALID, "--%s needs %s", row->name,
				               row->argument);
			value = argv[i];
		}
		if (set(ret, row, value, err))
			return -1;
	}
	return check(ret, err);
}
