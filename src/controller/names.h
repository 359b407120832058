/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From CSI's names to those of Kubernetes objects. Ids and attachment names live in clusters:
 * neither function may ever give another answer.
 */
#pragma once

#include <stdbool.h>

#define OBJECT_NAME_MAX 253
#define LABEL_VALUE_MAX 63

/*
 * The DPUVolume of a CreateVolume name, which is also the volume id: the name itself when
 * Kubernetes takes it, else "v-" and the 128-bit FNV-1 of it in hex.
 */
void volume_object_name(const char *name, char ret[OBJECT_NAME_MAX + 1]);
/*
 * The DPUVolumeAttachment of a volume on a node: "<node>-<volume>", or "va-" and the FNV-1 of both
 * when that is too long. False: Kubernetes takes no such name, so there can be no such object.
 */
bool attachment_object_name(const char *node, const char *volume, char ret[OBJECT_NAME_MAX + 1]);
/*
 * The value of a label that stands for an object's name: the name itself, or "h-" and the FNV-1 of
 * it in hex when a label cannot hold it (longer than 63, or no DNS name). Two names may share one:
 * the label finds, the spec tells.
 */
void label_value(const char *name, char ret[LABEL_VALUE_MAX + 1]);
