/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host list: prints the state files, and each volume's health from the node. Skips a state file of
 * another boot, because its volume is no longer mounted.
 */
#include "host/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/json.h"
#include "common/mem.h"
#include "host/character.h"

static char *list_path(const struct host_args *a, const struct host_state *is)
{
	return *is->mount ? xstrdup(is->mount) : host_link_path(a, is->volume);
}

static void list_probe_health(struct host_node *h, const struct host_args *a,
                              const struct host_state *is, struct health *ret)
{
	struct err err = ERR_INIT;

	if (host_volume_health(&h->node, a, is, ret, &err) == 0)
		return;
	*ret = (struct health) { .n = 1,
		                 .v = { { .status = HEALTH_DEGRADED, .reason = "Unknown" } } };
	snprintf(ret->v[0].message, sizeof(ret->v[0].message), "%.*s",
	         (int)sizeof(ret->v[0].message) - 1, err.msg);
}

static void list_add_line(const struct host_args *a, const struct host_state *is,
                          const struct health *h, struct str *said)
{
	char *where AUTO(free) = list_path(a, is);

	str_addf(said, "%s\t%s\t%s\t%s\t%s\n", is->volume,
	         is->kind == EMULATION_VIRTIOFS ? is->tag : is->device, is->pci, where,
	         h->n ? h->v[0].reason : "ok");
	for (size_t i = 0; i < h->n; i++)
		str_addf(said, "\t%s: %s\n", h->v[i].reason, h->v[i].message);
}

static void list_add_object(const struct host_args *a, const struct host_state *is,
                            const struct health *h, struct json *list)
{
	char *where AUTO(free) = list_path(a, is);
	struct json *object = json_object(), *faults = json_array();
	char since[32] = "";
	time_t seconds = (time_t)is->since;
	struct tm utc;

	if (gmtime_r(&seconds, &utc))
		strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", &utc);
	json_set_str(object, "volume", is->volume);
	json_set_str(object, "attachment", is->attachment);
	json_set_str(object, "node", is->node);
	json_set_str(object, "kind", emulation_name(is->kind));
	json_set_str(object, "pciAddress", is->pci);
	json_set_str(object, is->kind == EMULATION_VIRTIOFS ? "tag" : "device",
	             is->kind == EMULATION_VIRTIOFS ? is->tag : is->device);
	json_set_str(object, *is->mount ? "mount" : "link", where);
	json_set_str(object, "since", since);
	json_set_bool(object, "readOnly", is->read_only);
	if (is->key_value)
		json_set_bool(object, "keyValue", true);
	for (size_t i = 0; i < h->n; i++) {
		struct json *fault = json_object();

		json_set_str(fault, "status",
		             h->v[i].status == HEALTH_INACCESSIBLE ? "inaccessible" : "degraded");
		json_set_str(fault, "reason", h->v[i].reason);
		json_set_str(fault, "message", h->v[i].message);
		json_append(faults, fault);
	}
	json_set(object, "faults", faults);
	json_append(list, object);
}

static int list_volume(struct host_node *h, const struct host_args *a, const char *name,
                       struct str *said, struct json *list, struct err *err)
{
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct health health;
	int rc = host_state_read(a->state_dir, h->boot, name, &is, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	list_probe_health(h, a, &is, &health);
	if (a->json)
		list_add_object(a, &is, &health, list);
	else
		list_add_line(a, &is, &health, said);
	return 0;
}

int host_list(const struct host_args *a, struct str *said, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct json *list AUTO(json_free) = json_array();
	struct host_node h;
	int rc = host_node_begin(&h, a, EMULATION_NVME, false, "", err);

	if (!rc)
		rc = host_state_list(a->state_dir, &names, err);
	for (size_t i = 0; !rc && i < names.n; i++)
		rc = list_volume(&h, a, names.v[i], said, list, err);
	if (!rc && a->json) {
		char *text AUTO(free) = json_print_shown(list);

		str_addf(said, "%s\n", text);
	}
	host_node_end(&h);
	return rc;
}
