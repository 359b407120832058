/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DPUVolumeAttachment in a file. Its writer is not trusted: its names are checked as
 * an API server would, its device as the node does (node/context.h).
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
	char fault[ERR_MSG_MAX]; /* why it cannot be judged: only is.key may be used; "" */
};

/*
 * `what` names the text in errors. INVALID_ARGUMENT: it is not one DPUVolumeAttachment, or one with
 * names that no object can have.
 */
int attachment_parse(const char *what, const char *text, size_t n, struct attachment_file *ret,
                     struct err *err) MUST_CHECK;
/*
 * An object of the API server, whose kind is known. Takes the tree over. One that cannot be judged
 * still has its key (name, uid, node, volume, deletion): `fault` says why it is not ready.
 */
void attachment_take(struct json *tree, struct attachment_file *ret);
/* The same from a file, "-": standard input. At most 1 MiB. */
int attachment_file_read(const char *path, struct attachment_file *ret, struct err *err) MUST_CHECK;
void attachment_file_clear(struct attachment_file *f);
DEFINE_AUTO_VALUE(struct attachment_file, attachment_file_clear);
/* May it be attached? False: `why` says what is missing. */
bool attachment_is_ready(const struct attachment_file *f, struct str *why);
