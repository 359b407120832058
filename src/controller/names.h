/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of Kubernetes objects from CSI's names. They are stored in clusters, so no function here
 * may ever give another answer to the same question.
 */
#pragma once

#include <stdbool.h>

#define OBJECT_NAME_MAX 253
#define LABEL_VALUE_MAX 63

/*
 * The DPUVolume of a CreateVolume name, which is also the volume id: the name itself when
 * it is a valid object name, else "v-" and its 128-bit FNV-1 in hex.
 */
void volume_object_name(const char *name, char ret[OBJECT_NAME_MAX + 1]);
/*
 * The DPUVolumeAttachment of a volume on a node: "<node>-<volume>", or "va-" and the FNV-1 of both
 * when that is too long. False: the name is not valid, so no such object can exist.
 */
bool attachment_object_name(const char *node, const char *volume, char ret[OBJECT_NAME_MAX + 1]);
/*
 * The value of a label that stands for an object's name: the name itself, or "h-" and its FNV-1
 * in hex when a label cannot hold it (longer than 63, or no DNS name). Two names may have the same
 * value, so compare the spec of an object that was found by its label.
 */
void label_value(const char *name, char ret[LABEL_VALUE_MAX + 1]);
