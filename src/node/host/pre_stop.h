/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --pre-stop, for the preStop hook of the node's pod: waits while kubelet still needs the driver to
 * take volumes down, which ended pods have left. Asks neither kubelet nor an API; a process of its
 * own beside the driver, which serves on meanwhile.
 *
 * A volume is on its way out when it is published for a pod of which no process is left, or staged
 * and published for no pod. Of a pod that lives nothing is waited for: an update of the driver lets
 * pods and their mounts go on. A pod between two tries of a container that crashes lives, since its
 * sandbox does. What a pod has mounted that is just about to start is waited for, too, until it has
 * started.
 */
#pragma once

#include "common/deadline.h"
#include "common/str.h"

struct pre_stop_options {
	const char *proc_root, *kubelet_dir, *driver;
};

enum {
	/* The processes of pods are not to be seen: the pod has no hostPID. Nothing is known. */
	PRE_STOP_BLIND = 1,
	PRE_STOP_LEFT = 2, /* the time is over, and `left` is still to be taken down */
};

/* 0: what is on its way out has been added to `ret`, by its path; PRE_STOP_BLIND; or -1. */
int pre_stop_scan(const struct pre_stop_options *o, struct strs *ret, struct err *err) MUST_CHECK;
/* 0: nothing is on its way out (any more). */
int pre_stop_wait(const struct pre_stop_options *o, struct deadline d, struct strs *left,
                  struct err *err) MUST_CHECK;
