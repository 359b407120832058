/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts single objects of the API server to facts of a report: their fields, and the results of
 * the driver's own rules for them. Values of parameters and contexts are omitted. Pure functions.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#include "controller/controller.h"
#include "dpf/core_event.h"
#include "dpf/core_volume.h"

/* The reference with which the functions below compare objects. */
struct api_eye {
	const struct controller *c;
	time_t now;
	bool all; /* also show the conditions of ready objects */
	/*
	 * By how many seconds the newest creationTimestamp is later than `now`; NULL: not needed.
	 */
	int64_t *ahead;
};

/* Each function returns a new root. */
struct json *api_volume_facts(const struct api_eye *e, const struct json *object);
/* `kind` is the function type of the attachment's volume. */
struct json *api_attachment_facts(const struct api_eye *e, const struct json *object,
                                  enum emulation kind);
struct json *api_dpu_node_facts(const struct api_eye *e, const struct json *object);
struct json *api_dpu_facts(const struct api_eye *e, const struct json *object);
/* The texts are cut, like those of errors. */
struct json *api_warning_facts(const struct api_eye *e, const struct core_event *event);
struct json *api_persistent_volume_facts(const struct persistent_volume *pv);
/*
 * `node` is the id of the VolumeAttachment's node; NULL if not known, the node's name is then used
 * instead.
 */
struct json *api_volume_attachment_facts(const struct api_eye *e, const struct json *object,
                                         const struct volume_attachment *a, const char *node);

/* Return members of facts: seconds (absent: -1), a bool (absent: false), a string (absent: ""). */
int64_t api_seconds(const struct json *facts, const char *name);
bool api_is(const struct json *facts, const char *name);
const char *api_text(const struct json *facts, const char *name);
