/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a volume capability. Checks that its fields are present, in the Go plugin's order and
 * words, then applies the rules of volume_cap.c. Copies no strings.
 */
#include "volume/volume_cap_csi.h"

#include "common/str.h"

static int mount_from_csi(const Csi__V1__VolumeCapability__MountVolume *wire, const char *field,
                          struct arena *arena, struct volume_cap *cap, struct err *err)
{
	const char **flags;

	if (!wire)
		return err_set(err, ERR_INVALID, "%s.Mount: field is required", field);
	cap->type = ACCESS_MOUNT;
	cap->fs_type = str_empty(wire->fs_type) ? "" : wire->fs_type;
	cap->mount_group = str_empty(wire->volume_mount_group) ? "" : wire->volume_mount_group;
	cap->n_mount_flags = wire->n_mount_flags;
	flags = arena_alloc(arena, (wire->n_mount_flags + 1) * sizeof(*flags));
	for (size_t i = 0; i < wire->n_mount_flags; i++)
		flags[i] = wire->mount_flags[i];
	cap->mount_flags = flags;
	return 0;
}

static int type_from_csi(const Csi__V1__VolumeCapability *wire, const char *field,
                         struct arena *arena, struct volume_cap *cap, struct err *err)
{
	if (wire->access_type_case == CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT)
		return mount_from_csi(wire->mount, field, arena, cap, err);
	if (wire->access_type_case != CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK)
		return err_set(err, ERR_INVALID, "%s.AccessType: field is required", field);
	if (!wire->block)
		return err_set(err, ERR_INVALID, "%s.Block: field is required", field);
	cap->type = ACCESS_BLOCK;
	return 0;
}

int volume_cap_shape_from_csi(const Csi__V1__VolumeCapability *wire, const char *field,
                              struct arena *arena, struct volume_cap *ret, struct err *err)
{
	struct volume_cap cap = { .fs_type = "", .mount_group = "" };

	if (!wire)
		return err_set(err, ERR_INVALID, "%s: field is required", field);
	if (!wire->access_mode || !wire->access_mode->mode)
		return err_set(err, ERR_INVALID, "%s.AccessMode: field is required", field);
	cap.mode = (enum access_mode)(int)wire->access_mode->mode;
	if (type_from_csi(wire, field, arena, &cap, err))
		return -1;
	*ret = cap;
	return 0;
}

int volume_cap_from_csi(const Csi__V1__VolumeCapability *wire, const char *field,
                        enum emulation emulation, struct arena *arena, struct volume_cap *ret,
                        struct err *err)
{
	struct volume_cap cap;

	if (volume_cap_shape_from_csi(wire, field, arena, &cap, err) ||
	    volume_cap_check(&cap, emulation, field, err))
		return -1;
	*ret = cap;
	return 0;
}
