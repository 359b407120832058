/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provenance of a DPUVolume: the CreateVolume request that created it, in its spec, label and
 * annotations. They are written from a request, compared with a later one, and turned back into the
 * volume context. Pure functions.
 */
#pragma once

#include "dpf/dpu_volume.h"
#include "common/str.h"
#include "controller/request.h"

struct json *provenance_encode(const struct controller *c, const char *object_name,
                               const struct volume_request *r);

enum provenance_owner {
	PROVENANCE_OWN,   /* ours, made for this name */
	PROVENANCE_OTHER, /* made for another name that maps to the same object */
	/* The Go plugin's or made by hand: compatible when it fits, never deleted by CreateVolume. */
	PROVENANCE_UNMARKED,
};
enum provenance_owner provenance_owner(const struct controller *c, const struct dpu_volume *v,
                                       const char *name);

/*
 * Would the request have made this volume, leaving its size aside? False: `why` says what differs,
 * "policy is gold, asked for is silver".
 */
bool provenance_fits(const struct dpu_volume *v, const struct volume_request *r, struct str *why);
/*
 * Does the volume's size suit the request? PROVENANCE_SIZE_WRONG: it was asked for with this very
 * range and has another size; PROVENANCE_SIZE_OTHER: it was asked for with another range. `why` as
 * above.
 */
enum provenance_size { PROVENANCE_SIZE_FITS, PROVENANCE_SIZE_WRONG, PROVENANCE_SIZE_OTHER };
enum provenance_size provenance_size(const struct dpu_volume *v, const struct volume_request *r,
                                     struct str *why);
/*
 * Does the request allow the volume's size? While the capacity is not known, the requested size
 * counts. Bytes; 0: no limit.
 */
bool provenance_capacity_fits(const struct dpu_volume *v, int64_t required, int64_t limit);

/* The kind of the volume, by its volumeMode, which volumes of others have too. */
enum emulation provenance_emulation(const struct dpu_volume *v);
/* The value of an annotation, or NULL: not recorded. */
const char *provenance_get(const struct dpu_volume *v, const char *annotation);
/* 0, or -1 (INVALID_ARGUMENT): the volume was made for the other access type. */
int provenance_check_type(const struct dpu_volume *v, enum access_type type, struct err *err)
	MUST_CHECK;
/* Do the volume's access modes allow this use? The same, or a narrower one. */
bool provenance_allows(const struct dpu_volume *v, const struct volume_cap *cap);

/*
 * The volume context, in the arena. For an unmarked volume the driver's own keys come from `asked`
 * (may be NULL).
 */
struct kvs provenance_context(const struct dpu_volume *v, const struct kvs *asked,
                              struct arena *arena);
