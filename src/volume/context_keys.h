/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that live in PersistentVolumes, VolumeAttachments and StorageClasses of running
 * clusters: none may ever change. Those without our prefix are the ones of the Go plugin.
 */
#pragma once

#define DRIVER_PREFIX "csi.snap.nvidia.com/"

/* StorageClass parameters. */
#define PARAM_POLICY "policy"
#define PARAM_FUNCTION_TYPE "functionType"       /* also in the volume context */
#define PARAM_HOTPLUG_FUNCTION "hotplugFunction" /* also in the volume context */
#define PARAM_EMULATION DRIVER_PREFIX "emulation"
#define PARAM_FORMAT_POLICY DRIVER_PREFIX "formatPolicy"
#define PARAM_BLOCK_SIZE DRIVER_PREFIX "blockSize"
#define PARAM_INODE_SIZE DRIVER_PREFIX "inodeSize"
#define PARAM_BYTES_PER_INODE DRIVER_PREFIX "bytesPerInode"
#define PARAM_NUMBER_OF_INODES DRIVER_PREFIX "numberOfInodes"
#define PARAM_EXT4_BIGALLOC DRIVER_PREFIX "ext4BigAlloc"
#define PARAM_EXT4_CLUSTER_SIZE DRIVER_PREFIX "ext4ClusterSize"
#define PARAM_SIDECAR_PREFIX "csi.storage.k8s.io/" /* external-provisioner's own */
/* external-provisioner makes the filesystem of the capability of it, and takes it away. */
#define PARAM_FSTYPE PARAM_SIDECAR_PREFIX "fstype"
#define PARAM_PVC_NAME PARAM_SIDECAR_PREFIX "pvc/name"
#define PARAM_PVC_NAMESPACE PARAM_SIDECAR_PREFIX "pvc/namespace"
#define PARAM_PV_NAME PARAM_SIDECAR_PREFIX "pv/name"
#define PARAM_EPHEMERAL PARAM_SIDECAR_PREFIX "ephemeral"
#define CONTEXT_PROVISIONER_IDENTITY "storage.kubernetes.io/csiProvisionerIdentity"

/* Volume context. */
#define CONTEXT_POLICY_NAME "storagePolicyName"
#define CONTEXT_VENDOR_NAME "storageVendorName"
#define CONTEXT_VENDOR_PLUGIN "storageVendorPluginName"

/* Publish context. */
#define PUBLISH_VOLUME_NAME "nv-volumeName"
#define PUBLISH_ATTACHMENT_NAME "nv-volumeAttachmentName"
#define PUBLISH_PCI_ADDRESS "nv-pciDeviceAddress"
#define PUBLISH_NVME_NSID "nv-nvmeNsID"
#define PUBLISH_NVME_UUID "nv-nvmeUUID"
#define PUBLISH_FUNC_VUID "nv-funcVUID"
#define PUBLISH_VIRTIOFS_TAG "nv-virtioFsTag"
#define PUBLISH_CAPACITY DRIVER_PREFIX "capacityBytes"
#define PUBLISH_ATTACHMENT_UID DRIVER_PREFIX "attachmentUID"

/*
 * Annotations on a DPUVolume: what the CR has no field for. Besides these, each prefixed
 * StorageClass key is an annotation under its own name.
 */
#define ANNOTATION_NAME DRIVER_PREFIX "name"              /* the name of CreateVolume, verbatim */
#define ANNOTATION_ACCESS_TYPE DRIVER_PREFIX "accessType" /* "mount" or "block" */
#define ANNOTATION_FUNCTION_TYPE DRIVER_PREFIX "functionType" /* "vf" or "pf" */
#define ANNOTATION_HOTPLUG DRIVER_PREFIX "hotplugFunction"    /* "true" or "false" */
#define ANNOTATION_CONTEXT_FUNCTION \
	DRIVER_PREFIX "functionInContext" /* "true": the StorageClass named it */
#define ANNOTATION_PVC_NAME DRIVER_PREFIX "pvcName"
#define ANNOTATION_PVC_NAMESPACE DRIVER_PREFIX "pvcNamespace"
#define ANNOTATION_PV_NAME DRIVER_PREFIX "pvName"
#define LABEL_MANAGED_BY "app.kubernetes.io/managed-by" /* value: the driver's name */
/* Labels of a DPUVolumeAttachment, for finding those of a volume or node; see label_value(). */
#define LABEL_VOLUME DRIVER_PREFIX "volume"
#define LABEL_NODE DRIVER_PREFIX "node"
