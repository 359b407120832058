/* SPDX-License-Identifier: Apache-2.0 */
/* Every maximum of this program, in one place. Bytes unless the name says otherwise. */
#pragma once

/*
 * The wire. CSI allows 128 bytes for a string and 4 KiB for a map, unless a field says otherwise;
 * paths, names and secrets may be longer here.
 */
#define LIMIT_RPC_MESSAGE (1024 * 1024)   /* one request */
#define LIMIT_RPC_REPLY (4 * 1024 * 1024) /* one answer: clients of gRPC take no more */
#define LIMIT_RPC_ARENA (8 * 1024 * 1024) /* memory that one request may unpack to */
#define LIMIT_RPC_METADATA (16 * 1024)    /* HTTP/2 headers of one call */
/*
 * Calls that run or wait at the same time, a thread each: the 2,000 claims of a big controller, or
 * several calls for each of a node's 250 volumes. One that waits costs 29 KB, so all of them 120
 * MB.
 */
#define LIMIT_RPC_CALLS 4096
#define LIMIT_RPC_STREAMS 2048     /* of them on one connection: a sidecar has one only */
#define LIMIT_RPC_CONNECTIONS 1024 /* open at the same time */
#define LIMIT_RPC_OWN_PLACES 8     /* connections beyond that, for --probe */
#define LIMIT_DESCRIPTORS 16384    /* that this process may have, unless the host says less */
#define LIMIT_RPC_PREFACE_MS 5000  /* a client sends the HTTP/2 preface by then */
#define LIMIT_RPC_ACK_MS 10000     /* and acknowledges the server's SETTINGS */
#define LIMIT_RPC_UNREAD_MS 60000  /* and reads something of the answers that wait for it */
#define LIMIT_RPC_HEADER_BLOCK (32 * 1024) /* headers of one call, encoded */
#define LIMIT_RPC_BUDGET 1000              /* frames of a connection that serve no call */
#define LIMIT_RPC_MESSAGE_MS 10000         /* a call's message is complete by then */
/*
 * Calls whose message is not complete yet: 15 KB each, and what has come of the message. Of a burst
 * gRPC reports all calls before it reports the first message, so these are as many as may run.
 */
#define LIMIT_RPC_INCOMPLETE LIMIT_RPC_CALLS
/* What has come of such messages, of all clients: 2,000 CreateVolumes of 3 KB are 6 MB. */
#define LIMIT_RPC_UNFINISHED (16 * 1024 * 1024)
#define LIMIT_FIELD_PATH 4096 /* with a NUL, as PATH_MAX */
#define LIMIT_FIELD_NODE_ID 256
#define LIMIT_FIELD_NAME 253   /* volume_id, name: a DPUVolume name */
#define LIMIT_FIELD_TOKEN 1024 /* where a page of a list begins: has a name in it */
#define LIMIT_FIELD_MAP (4 * 1024)
#define LIMIT_FIELD_SECRETS (64 * 1024)
#define LIMIT_FIELD_MOUNT_FLAGS (4 * 1024) /* all flags of one mount together */
#define LIMIT_FIELD_REASON (4 * 1024)      /* why kubelet refuses the driver */
#define LIMIT_FIELD_STRING 128             /* any other string */

/* The Kubernetes API. */
#define LIMIT_HTTP_BODY (32 * 1024 * 1024)      /* one response to snap-sim's mirror */
#define LIMIT_HTTP_WATCH_LINE (4 * 1024 * 1024) /* one watch event */
#define LIMIT_KUBE_ANSWER (4 * 1024 * 1024)     /* one answer; etcd takes objects of 1.5 MiB */
#define LIMIT_HTTP_IN_FLIGHT 90                 /* requests that libcurl has at the same time */
#define LIMIT_KUBE_PAGE 500                     /* objects in one page of a list */
#define LIMIT_KUBE_FILE (1024 * 1024)           /* token, CA, kubeconfig */

/* The host. */
#define LIMIT_SYSFS_ATTR (64 * 1024)       /* one attribute; VPD is the longest */
#define LIMIT_SPAWN_OUTPUT (64 * 1024)     /* what is kept of a child's output */
#define LIMIT_MOUNTINFO (64 * 1024 * 1024) /* /proc/<pid>/mountinfo */
