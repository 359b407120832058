/* SPDX-License-Identifier: Apache-2.0 */
/* The volume that is to be attached, and what the request says of it. */
#pragma once

#include "controller/publish.h"
#include "dpf/dpu_volume.h"
#include "volume/volume_params.h"

/*
 * Reads the volume and refuses what it does not allow. *ret points into *ret_object, which the
 * caller frees, also after an error. One GET, from the API server's cache, where nothing is
 * refused; what the cache would have refused is read once more, from etcd.
 */
int publish_volume(const struct controller *c, const struct attach_request *r, struct deadline d,
                   struct json **ret_object, struct dpu_volume *ret,
                   struct volume_params *ret_params, struct err *err) MUST_CHECK;
