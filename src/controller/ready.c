/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether the controller is ready. It sends requests to the API server, because an open
 * watch does not prove permissions.
 */
#include "controller/ready.h"

#include "controller/attachment_index.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"

/* No volume has this name, because the provisioner's names consist of its prefix and a uid. */
#define NOBODYS_NAME "snap-csi-readiness"

static int check_kind_served(const struct controller *c, const struct kube_kind *kind,
                             struct deadline d, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;

	return kube_get(c->kube, kind, c->namespace, NOBODYS_NAME, d, &object, err) < 0 ? -1 : 0;
}

int controller_check_api(const struct controller *c, struct deadline d, struct err *err)
{
	if (check_kind_served(c, &dpu_volume_kind, d, err) ||
	    check_kind_served(c, &dpu_attachment_kind, d, err))
		return -1;
	return 0;
}

int controller_check_attachments(const struct controller *c, struct err *err)
{
	if (!c->attachments)
		return 0;
	return attachment_index_ready(c->attachments, deadline_in_ms(0), err) < 0 ? -1 : 0;
}
