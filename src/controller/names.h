/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derives names of Kubernetes objects from CSI's names. Because clusters store these names, the
 * result for a given input must never change.
 */
#pragma once

#include <stdbool.h>

#define OBJECT_NAME_MAX 253
#define LABEL_VALUE_MAX 63

/*
 * Writes the name of the DPUVolume for a CreateVolume name; this is also the volume id. It is the
 * name itself if that is a valid object name, else "v-" and the name's 128-bit FNV-1 in hex.
 */
void volume_object_name(const char *name, char ret[OBJECT_NAME_MAX + 1]);
/*
 * Writes the name of the DPUVolumeAttachment of a volume on a node: "<node>-<volume>", or "va-" and
 * the FNV-1 of both if that is too long. Returns false if the name is not valid, so that no such
 * object can exist.
 */
bool attachment_object_name(const char *node, const char *volume, char ret[OBJECT_NAME_MAX + 1]);
/*
 * Writes the label value for an object's name: the name itself, or "h-" and its FNV-1 in hex if a
 * label cannot hold the name (longer than 63 characters, or not a DNS name). Two names may have the
 * same value, so compare the spec of an object found by its label.
 */
void label_value(const char *name, char ret[LABEL_VALUE_MAX + 1]);
