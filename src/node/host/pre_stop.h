/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --pre-stop, for the preStop hook of the node's pod: waits while kubelet still needs the driver to
 * unmount volumes of terminated pods. Uses neither kubelet nor an API. Runs in its own process
 * beside the driver, which continues to serve.
 *
 * It waits for a volume that is published for a pod without any process, and for a volume that is
 * staged but published for no pod. It does not wait for volumes of a running pod, because pods and
 * their mounts stay during an update of the driver. A pod whose container crashes repeatedly counts
 * as running, because its sandbox runs. If a pod is about to start, the wait for its volume
 * ends when the pod has started.
 */
#pragma once

#include "common/deadline.h"
#include "common/str.h"

struct pre_stop_options {
	const char *proc_root, *kubelet_dir, *driver;
};

enum {
	/*
	 * The processes of pods are not visible, because the driver's pod has no hostPID. The
	 * result is unknown.
	 */
	PRE_STOP_BLIND = 1,
	PRE_STOP_LEFT = 2, /* the deadline has passed, and `left` lists the remaining volumes */
};

/*
 * Scans once and adds the paths of volumes to wait for to `ret`. Returns 0, PRE_STOP_BLIND or -1.
 */
int pre_stop_scan(const struct pre_stop_options *o, struct strs *ret, struct err *err) MUST_CHECK;
/*
 * Waits. Returns 0 if there is no volume to wait for (any more), otherwise PRE_STOP_BLIND,
 * PRE_STOP_LEFT or -1.
 */
int pre_stop_wait(const struct pre_stop_options *o, struct deadline d, struct strs *left,
                  struct err *err) MUST_CHECK;
