/* SPDX-License-Identifier: Apache-2.0 */
/* The label selector of one list of attachments, for as many calls as fit into a URL. */
#pragma once

#include "common/cleanup.h"
#include "common/str.h"
#include "controller/attachment_lists.h"

struct attachment_selector {
	enum attachment_listed which;
	size_t name_bytes; /* in the encoding of a URL */
	struct str text;
};

/* To be freed by attachment_selector_clear(). */
struct attachment_selector attachment_selector_new(enum attachment_listed which);
void attachment_selector_clear(struct attachment_selector *s);
DEFINE_AUTO_VALUE(struct attachment_selector, attachment_selector_clear);

/*
 * Adds a volume or node; a selector for attachments without labels takes any number. Returns false
 * if the name does not fit; nothing was added then. The first name always fits.
 */
bool attachment_selector_add(struct attachment_selector *s, const char *name);
/*
 * Ends the selector and returns its text, which lives as long as `s`. Add nothing after this call.
 */
const char *attachment_selector_end(struct attachment_selector *s);
