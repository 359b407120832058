/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provenance of a DPUVolume is the CreateVolume request that created it, recorded in its spec,
 * label and annotations. These functions write it from a request, compare it with a later request,
 * and return the volume context from it. Pure functions.
 */
#pragma once

#include "dpf/dpu_volume.h"
#include "common/str.h"
#include "controller/request.h"

struct json *provenance_encode(const struct controller *c, const char *object_name,
                               const struct volume_request *r);

enum provenance_owner {
	PROVENANCE_OWN,   /* created by this driver, for this name */
	PROVENANCE_OTHER, /* by this driver, for another name that maps to the same object */
	/*
	 * Created by the Go plugin or by hand: may be used if it fits the request, but is never
	 * deleted by CreateVolume.
	 */
	PROVENANCE_UNMARKED,
};
enum provenance_owner provenance_owner(const struct controller *c, const struct dpu_volume *v,
                                       const char *name);

/*
 * Returns true if the object was created for a request with exactly this policy, size, modes and
 * vendor parameters, whatever its spec has now. Returns false for an object that does not record
 * the request.
 */
bool provenance_is_of_request(const struct dpu_volume *v, const struct volume_request *r);
/*
 * Returns true if the request would have created this volume, apart from its size. If not, `why`
 * names the difference: "policy: have gold, requested silver".
 */
bool provenance_fits(const struct dpu_volume *v, const struct volume_request *r, struct str *why);
/*
 * Compares the volume's size with the request. PROVENANCE_SIZE_WRONG: it was requested with exactly
 * this range and has a different size. PROVENANCE_SIZE_OTHER: it was requested with a different
 * range. `why` as for provenance_fits().
 */
enum provenance_size { PROVENANCE_SIZE_FITS, PROVENANCE_SIZE_WRONG, PROVENANCE_SIZE_OTHER };
enum provenance_size provenance_size(const struct dpu_volume *v, const struct volume_request *r,
                                     struct str *why);
/*
 * Returns true if the range allows the volume's size, or, while its capacity is not known, its
 * requested size. Bytes; 0: no limit.
 */
bool provenance_capacity_fits(const struct dpu_volume *v, int64_t required, int64_t limit);

/*
 * Returns the kind of the volume, by its volumeMode, which the volumes of other creators also have.
 */
enum emulation provenance_emulation(const struct dpu_volume *v);
/* Returns the value of an annotation, or NULL if it is not recorded. */
const char *provenance_get(const struct dpu_volume *v, const char *annotation);
/* Returns 0, or -1 (INVALID_ARGUMENT) if the volume was created for the other access type. */
int provenance_check_type(const struct dpu_volume *v, enum access_type type, struct err *err)
	MUST_CHECK;
/* Returns true if the volume's access modes allow this use: the same use, or a narrower one. */
bool provenance_allows(const struct dpu_volume *v, const struct volume_cap *cap);

/*
 * Returns the volume context, in the arena. For an unmarked volume, the driver's own keys have the
 * values from `asked` (may be NULL).
 */
struct kvs provenance_context(const struct dpu_volume *v, const struct kvs *asked,
                              struct arena *arena);
