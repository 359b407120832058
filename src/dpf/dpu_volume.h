/* SPDX-License-Identifier: Apache-2.0 */
/* DPUVolume of DPF (storage.dpu.nvidia.com/v1alpha1): its JSON as a plain struct, and back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "kube/kube.h"
#include "common/kv.h"

extern const struct kube_kind dpu_volume_kind;

/* accessModes, as bits. */
enum {
	DPU_READ_WRITE_ONCE = 1,
	DPU_READ_ONLY_MANY = 2,
	DPU_READ_WRITE_MANY = 4,
};

/* Strings and trees point into the decoded object; strings are "" and trees NULL when absent. */
struct dpu_volume {
	const char *name, *uid;
	bool deleting;
	const struct json *labels, *annotations;
	const char *policy;
	const struct json *parameters;
	unsigned access_modes;
	int64_t requested, limit; /* bytes; limit 0: none */
	bool block; /* volumeMode Block: emulated NVMe; else a filesystem shared by virtio-fs */
	const char *phase, *vendor, *vendor_plugin;
	int64_t capacity; /* of what the vendor made, in bytes; 0 while unknown */
};

/*
 * -1 (UNAVAILABLE, since only others can repair it) when a member has the wrong type; *ret has all
 * other members.
 */
int dpu_volume_decode(const struct json *object, struct dpu_volume *ret, struct err *err)
	MUST_CHECK;
bool dpu_volume_is_bound(const struct dpu_volume *v);
/* Is it bound, or was it once? CreateVolume answers no sooner, so before nobody has its id. */
bool dpu_volume_was_bound(const struct dpu_volume *v);

struct dpu_volume_spec {
	const char *policy;
	struct kvs parameters;
	unsigned access_modes;
	int64_t requested, limit; /* limit 0: none */
	bool block;
};

/* A new object of that name; the caller adds labels and annotations. */
struct json *dpu_volume_encode(const char *name, const struct dpu_volume_spec *spec);
/* Sets what is asked for, in an object or a patch; limit 0: leaves that alone. */
void dpu_volume_set_size(struct json *object, int64_t requested, int64_t limit);
/* The bit of "ReadWriteOnce", ...; 0 for any other word. */
unsigned dpu_access_mode(const char *word);
/* "ReadWriteOnce, ReadOnlyMany" into buf; returns buf. */
const char *dpu_access_modes_text(unsigned modes, char buf[64]);
