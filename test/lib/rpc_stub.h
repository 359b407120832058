/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services for tests of the RPC server: the real Identity, and a Node whose NodeStageVolume acts on
 * its staging_target_path:
 *   ""            answers at once
 *   "sleep:MS"    waits, ends early when the call is cancelled
 *   "busy:MS"     waits, even when cancelled
 *   "gate"        waits for stub_open(), even when cancelled
 *   "deadline"    OUT_OF_RANGE "left=<ms>" ("left=never")
 *   "peer"        OUT_OF_RANGE "pid=<pid>"
 *   "odd-text"    INVALID_ARGUMENT with a newline, a percent sign and UTF-8
 *   "length"      OUT_OF_RANGE "length=<of volume_id>"
 *   "contexts"    OUT_OF_RANGE "k=v;..." of volume_context
 *   "nothing"     returns success without an answer
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "rpc/rpc.h"
#include "rpc/rpc_server.h"

#define STAGE "/csi.v1.Node/NodeStageVolume"
#define PROBE "/csi.v1.Identity/Probe"

struct stub {
	struct rpc_service services[2];
	struct keylock *locks;
	_Atomic int running;   /* handlers that run now */
	_Atomic int cancelled; /* handlers that were cancelled */
	_Atomic int entered;   /* handlers that were called so far */
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool open; /* under the lock */
};

void stub_init(struct stub *stub);
void stub_clear(struct stub *stub);
/* Releases all calls that wait at the gate; later ones do not wait. */
void stub_open(struct stub *stub);
/* The malloc'ed bytes of a NodeStageVolumeRequest. */
uint8_t *stub_request(const char *volume_id, const char *what, size_t *ret_n);
