/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts DPF's DPUVolume (storage.dpu.nvidia.com/v1alpha1) from JSON to a plain struct, and back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "kube/kube.h"
#include "common/kv.h"

extern const struct kube_kind dpu_volume_kind;

/* The access modes, as bits. */
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
	bool block; /* volumeMode Block: emulated NVMe; otherwise a share by virtio-fs */
	const char *phase, *vendor, *vendor_plugin;
	/* capacity of the volume that the vendor has created, in bytes; 0: not yet known */
	int64_t capacity;
};

/*
 * Returns -1 if a member has the wrong type; *ret has all other members. The code is UNAVAILABLE,
 * because the driver cannot repair the object.
 */
int dpu_volume_decode(const struct json *object, struct dpu_volume *ret, struct err *err)
	MUST_CHECK;
bool dpu_volume_is_bound(const struct dpu_volume *v);
/*
 * Returns true if the volume is bound, or was bound at some time. Before that, CreateVolume does
 * not return, so no client has the volume's id.
 */
bool dpu_volume_was_bound(const struct dpu_volume *v);

struct dpu_volume_spec {
	const char *policy;
	struct kvs parameters;
	unsigned access_modes;
	int64_t requested, limit; /* limit 0: none */
	bool block;
};

/* Returns a new object of that name; the caller adds labels and annotations. */
struct json *dpu_volume_encode(const char *name, const struct dpu_volume_spec *spec);
/* Sets the requested size in an object or a patch. With limit 0 the limit stays unchanged. */
void dpu_volume_set_size(struct json *object, int64_t requested, int64_t limit);
/* Returns the bit of "ReadWriteOnce", ...; 0 for any other string. */
unsigned dpu_access_mode(const char *word);
/* Writes "ReadWriteOnce, ReadOnlyMany" to buf; returns buf. */
const char *dpu_access_modes_text(unsigned modes, char buf[64]);
