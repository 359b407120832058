/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a DPUVolumeAttachment from a file. The author of the file is not trusted: names are checked
 * as by an API server, and the device as by the node (node/context.h).
 */
#pragma once

#include "common/cleanup.h"
#include "common/str.h"
#include "dpf/dpu_attachment.h"
#include "volume/volume_params.h"

struct attachment_file {
	struct json *tree;
	struct dpu_attachment is; /* points into the tree */
	enum emulation kind;
	/* why the object is invalid, so that only is.key may be used; "": it is valid */
	char fault[ERR_MSG_MAX];
};

/*
 * Parses the text, which `what` names in errors. INVALID_ARGUMENT: the text is not exactly one
 * DPUVolumeAttachment, or has names that no object can have.
 */
int attachment_parse(const char *what, const char *text, size_t n, struct attachment_file *ret,
                     struct err *err) MUST_CHECK;
/*
 * Reads an object from the API server, whose kind is known, and takes ownership of its tree. An
 * invalid object still has its key (name, UID, node, volume, deletion), and `fault` has the reason.
 */
void attachment_take(struct json *tree, struct attachment_file *ret);
/* Like attachment_parse(), for a file of at most 1 MiB; "-" is standard input. */
int attachment_file_read(const char *path, struct attachment_file *ret, struct err *err) MUST_CHECK;
void attachment_file_clear(struct attachment_file *f);
DEFINE_AUTO_VALUE(struct attachment_file, attachment_file_clear);
/* Returns true if it may be attached. Otherwise `why` lists what is missing. */
bool attachment_is_ready(const struct attachment_file *f, struct str *why);
