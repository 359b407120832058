/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "snap-csi-plugin host": volumes on a host without kubelet, one command and one process each. What
 * is attached is read from a file, a DPUVolumeAttachment as kubectl prints it; no API is asked.
 */
#pragma once

/* Exit statuses. */
enum host_status {
	HOST_DONE = 0,
	HOST_FAILED = 1,    /* stderr says why */
	HOST_USAGE = 2,     /* the command line cannot be read */
	HOST_NOT_READY = 3, /* the attachment is not ready yet: stderr says what is missing */
};

/* argv[0] is the word "host"; the command follows. Returns the exit status. */
int host_main(int argc, char *argv[]);
