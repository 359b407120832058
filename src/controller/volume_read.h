/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One volume, read for a call that names it by its id. Each function is a GET, or none.
 */
#pragma once

#include "common/deadline.h"
#include "controller/controller.h"
#include "dpf/dpu_volume.h"

/*
 * *ret points into *ret_object, which the caller frees. NOT_FOUND names the DPUVolume that there is
 * not; an id that no object can have is not asked for.
 */
int volume_read(const struct controller *c, const char *id, struct deadline d,
                struct json **ret_object, struct dpu_volume *ret, struct err *err) MUST_CHECK;
/*
 * What the API server's cache shows, which may be older than what any other read has said: 0,
 * KUBE_ABSENT, which is no proof that there is none, or -1.
 */
int volume_read_cached(const struct controller *c, const char *id, struct deadline d,
                       struct json **ret_object, struct err *err) MUST_CHECK;
/* NOT_FOUND: nobody has got this id yet. For volumes never bound and nowhere attached. */
int volume_refuse_unbound(const struct controller *c, const char *id, struct err *err) MUST_CHECK;
