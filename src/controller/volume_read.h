/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one volume for a call that has its id. Each function sends one GET, or none. */
#pragma once

#include "common/deadline.h"
#include "controller/controller.h"
#include "dpf/dpu_volume.h"

/*
 * Reads the volume. *ret points into *ret_object, which the caller frees. NOT_FOUND names the
 * missing DPUVolume; no request is sent for an id that is not a valid object name.
 */
int volume_read(const struct controller *c, const char *id, struct deadline d,
                struct json **ret_object, struct dpu_volume *ret, struct err *err) MUST_CHECK;
/*
 * Reads from the API server's cache, whose data may be older than any other read. Returns 0,
 * KUBE_ABSENT (which does not prove absence), or -1.
 */
int volume_read_cached(const struct controller *c, const char *id, struct deadline d,
                       struct json **ret_object, struct err *err) MUST_CHECK;
/*
 * Sets NOT_FOUND, because no client has this id yet: the volume was never bound and is not
 * attached.
 */
int volume_refuse_unbound(const struct controller *c, const char *id, struct err *err) MUST_CHECK;
