/* SPDX-License-Identifier: Apache-2.0 */
/* The volume to be attached, and the fields of the request that concern it. */
#pragma once

#include "controller/publish.h"
#include "dpf/dpu_volume.h"
#include "volume/volume_params.h"

/*
 * Reads the volume and refuses uses that the volume does not allow. *ret points into *ret_object,
 * which the caller frees, even after an error. Sends one GET, answered from the API server's cache,
 * if the volume is accepted; before a refusal, re-reads the volume from etcd.
 */
int publish_volume(const struct controller *c, const struct attach_request *r, struct deadline d,
                   struct json **ret_object, struct dpu_volume *ret,
                   struct volume_params *ret_params, struct err *err) MUST_CHECK;
