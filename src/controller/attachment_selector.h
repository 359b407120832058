/* SPDX-License-Identifier: Apache-2.0 */
/* The label selector of one list of attachments, for as many calls as an address has room for. */
#pragma once

#include "common/cleanup.h"
#include "common/str.h"
#include "controller/attachment_lists.h"

struct attachment_selector {
	enum attachment_listed which;
	size_t name_bytes; /* as an address has them */
	struct str text;
};

/* To be freed by attachment_selector_clear(). */
struct attachment_selector attachment_selector_new(enum attachment_listed which);
void attachment_selector_clear(struct attachment_selector *s);
DEFINE_AUTO_VALUE(struct attachment_selector, attachment_selector_clear);

/*
 * One more volume or node; without labels there is room for any. False: there is no room, and
 * nothing was added. The first one has room.
 */
bool attachment_selector_add(struct attachment_selector *s, const char *name);
/* Nothing is added behind this. The text lives as long as s. */
const char *attachment_selector_end(struct attachment_selector *s);
