/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "snap-csi-plugin host": attaches volumes on a host without kubelet. Each command is one process.
 * It reads the volume from a file, a DPUVolumeAttachment as printed by kubectl; only `host watch`
 * uses an API server.
 */
#pragma once

/* Exit statuses. */
enum host_status {
	HOST_DONE = 0,
	HOST_FAILED = 1,    /* stderr has the reason */
	HOST_USAGE = 2,     /* the command line is invalid */
	HOST_NOT_READY = 3, /* the attachment is not ready yet; stderr lists what is missing */
};

/* Runs the command that follows argv[0], which is the word "host". Returns the exit status. */
int host_main(int argc, char *const argv[]);
