/* SPDX-License-Identifier: Apache-2.0 */
/* Every maximum of this program, in one place. Bytes unless the name says otherwise. */
#pragma once

/*
 * Limits of RPC messages. CSI allows 128 bytes for a string and 4 KiB for a map, unless a field
 * says otherwise; paths, names and secrets may be longer here.
 */
#define LIMIT_RPC_MESSAGE (1024 * 1024)   /* one request */
#define LIMIT_RPC_REPLY (4 * 1024 * 1024) /* one answer; gRPC clients accept no more */
#define LIMIT_RPC_ARENA (8 * 1024 * 1024) /* size that one request may have when unpacked */
#define LIMIT_RPC_METADATA (16 * 1024)    /* HTTP/2 headers of one call */
/*
 * Calls that run or wait at the same time, each on its own thread. This is enough for 2,000 claims
 * on a large controller, or for several calls for each of a node's 250 volumes. A waiting call
 * takes 29 KB, so all calls together take 120 MB.
 */
#define LIMIT_RPC_CALLS 4096
#define LIMIT_RPC_STREAMS 2048     /* calls on one connection; a sidecar has only one connection */
#define LIMIT_RPC_CONNECTIONS 1024 /* open at the same time */
#define LIMIT_RPC_OWN_PLACES 8     /* connections beyond that limit, for --probe */
#define LIMIT_DESCRIPTORS 16384    /* of this process, unless the host's limit is lower */
#define LIMIT_RPC_PREFACE_MS 5000  /* until a client has sent the HTTP/2 preface */
#define LIMIT_RPC_ACK_MS 10000     /* until the client has acknowledged the server's SETTINGS */
#define LIMIT_RPC_UNREAD_MS 60000  /* until the client has read some of its pending answers */
#define LIMIT_RPC_HEADER_BLOCK (32 * 1024) /* headers of one call, encoded */
#define LIMIT_RPC_BUDGET 1000              /* frames that serve no call, per connection */
#define LIMIT_RPC_MESSAGE_MS 10000         /* until a call's message is complete */
/*
 * Calls whose message is not complete yet. Each takes 15 KB, plus the received part of the message.
 * In a burst gRPC reports all calls before the first message, so the limit equals that of running
 * calls.
 */
#define LIMIT_RPC_INCOMPLETE LIMIT_RPC_CALLS
/* Received parts of incomplete messages, of all clients: 2,000 CreateVolumes of 3 KB are 6 MB. */
#define LIMIT_RPC_UNFINISHED (16 * 1024 * 1024)
#define LIMIT_FIELD_PATH 4096 /* including the NUL, as PATH_MAX */
#define LIMIT_FIELD_NODE_ID 256
#define LIMIT_FIELD_NAME 253   /* volume_id, name: a DPUVolume name */
#define LIMIT_FIELD_TOKEN 1024 /* token for a page of a list; contains a name */
#define LIMIT_FIELD_MAP (4 * 1024)
#define LIMIT_FIELD_SECRETS (64 * 1024)
#define LIMIT_FIELD_MOUNT_FLAGS (4 * 1024) /* sum of all flags of one mount */
#define LIMIT_FIELD_REASON (4 * 1024)      /* kubelet's reason for rejecting the driver */
#define LIMIT_FIELD_STRING 128             /* any other string */
/*
 * Limit of a health message in an answer: a longer message makes Kubernetes 1.37 reject the whole
 * status of the pod or claim.
 */
#define LIMIT_HEALTH_MESSAGE 1024

/* The Kubernetes API. */
#define LIMIT_HTTP_BODY (32 * 1024 * 1024)      /* one response to snap-sim's mirror */
#define LIMIT_HTTP_WATCH_LINE (4 * 1024 * 1024) /* one watch event */
#define LIMIT_KUBE_ANSWER (4 * 1024 * 1024)     /* one answer; etcd takes objects of 1.5 MiB */
#define LIMIT_HTTP_IN_FLIGHT 90                 /* concurrent requests through libcurl */
#define LIMIT_KUBE_PAGE 500                     /* objects in one page of a list */
#define LIMIT_KUBE_FILE (8 * 1024 * 1024)       /* token, CA, kubeconfig */

/* Files and output on the host. */
#define LIMIT_SYSFS_ATTR (64 * 1024)       /* one attribute; VPD is the longest */
#define LIMIT_SPAWN_OUTPUT (64 * 1024)     /* part of a child's output that is kept */
#define LIMIT_MOUNTINFO (64 * 1024 * 1024) /* /proc/<pid>/mountinfo */
