/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single objects of the API server as facts of a report: what a person asks for, and what the
 * driver believes of it by its own rules. Values of parameters and contexts are left out. Pure.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#include "controller/controller.h"
#include "dpf/core_volume.h"

/* What the facts are measured by. */
struct api_eye {
	const struct controller *c;
	time_t now;
	bool all; /* conditions of ready objects, too */
};

/* New roots. */
struct json *api_volume_facts(const struct api_eye *e, const struct json *object);
/* kind: of its volume. */
struct json *api_attachment_facts(const struct api_eye *e, const struct json *object,
                                  enum emulation kind);
struct json *api_persistent_volume_facts(const struct persistent_volume *pv);
/* node: the id of its node; NULL: not known, its name stands for it. */
struct json *api_volume_attachment_facts(const struct api_eye *e, const struct json *object,
                                         const struct volume_attachment *a, const char *node);

/* Members of facts: seconds (-1: absent), a bool (false: absent), a text ("": absent). */
int64_t api_seconds(const struct json *facts, const char *name);
bool api_is(const struct json *facts, const char *name);
const char *api_text(const struct json *facts, const char *name);
