/* SPDX-License-Identifier: Apache-2.0 */
/* snap-sim's command line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/str.h"

struct sim_options {
	char *address; /* from --listen, without the port */
	unsigned port;
	char *port_file, *kubeconfig, *token, *api; /* NULL: not given */
	bool no_watch_list, growing_volumes;
	struct strs storage_versions; /* as served_set() takes them */
	char *namespace;
	struct strs nodes;
	bool seed;
	struct strs seed_files;
	bool no_dpf;
	char *dpf; /* its version, "26" or "25.7" */
	unsigned dpf_rate, back_off_ms;
	unsigned bind_delay_ms, attach_delay_ms, detach_delay_ms, delete_delay_ms;
	struct strs attachment_metadata; /* "key=value" */
	uint64_t capacity_unit;
	unsigned vfs, hotplug_slots;
	bool short_pci;
	bool no_fabric, no_multipath, hide_uuid, bind_vfs, no_vfs, no_virtiofs_tags,
		blacklist_virtio;
	char *state;
	unsigned sector_size;
	unsigned history, bookmark_ms, verbosity;
};

enum options_end { OPTIONS_GO, OPTIONS_DONE }; /* DONE: --help or --version was printed */
/* INVALID_ARGUMENT names the option. The caller clears *ret, even after an error. */
int options_parse(int argc, char **argv, struct sim_options *ret, enum options_end *end,
                  struct err *err) MUST_CHECK;
/* Whether DPF behaves as 25.7 did. */
bool options_old_dpf(const struct sim_options *o);
void options_default(struct sim_options *o);
void options_clear(struct sim_options *o);
