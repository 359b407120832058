/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are stored in PersistentVolumes, VolumeAttachments and StorageClasses of running
 * clusters, so they must never change. Names without the driver's prefix come from the Go plugin.
 */
#pragma once

#define DRIVER_PREFIX "csi.snap.nvidia.com/"

/* StorageClass parameters. */
#define PARAM_POLICY "policy"
#define PARAM_FUNCTION_TYPE "functionType"       /* used in the volume context, too */
#define PARAM_HOTPLUG_FUNCTION "hotplugFunction" /* used in the volume context, too */
#define PARAM_EMULATION DRIVER_PREFIX "emulation"
#define PARAM_FORMAT_POLICY DRIVER_PREFIX "formatPolicy"
#define PARAM_BLOCK_SIZE DRIVER_PREFIX "blockSize"
#define PARAM_INODE_SIZE DRIVER_PREFIX "inodeSize"
#define PARAM_BYTES_PER_INODE DRIVER_PREFIX "bytesPerInode"
#define PARAM_NUMBER_OF_INODES DRIVER_PREFIX "numberOfInodes"
#define PARAM_EXT4_BIGALLOC DRIVER_PREFIX "ext4BigAlloc"
#define PARAM_EXT4_CLUSTER_SIZE DRIVER_PREFIX "ext4ClusterSize"
/* Settings of the disk's request queue, named as in sysfs. */
#define PARAM_IO_SCHEDULER DRIVER_PREFIX "ioScheduler"
#define PARAM_NR_REQUESTS DRIVER_PREFIX "nrRequests"
#define PARAM_READ_AHEAD_KB DRIVER_PREFIX "readAheadKb"
#define PARAM_RQ_AFFINITY DRIVER_PREFIX "rqAffinity"
/* Encryption on the node. */
#define PARAM_ENCRYPTION DRIVER_PREFIX "encryption"
#define PARAM_ENCRYPTION_KDF DRIVER_PREFIX "encryptionKdf"
#define PARAM_ALLOW_DISCARDS DRIVER_PREFIX "allowDiscards"
#define PARAM_SIDECAR_PREFIX "csi.storage.k8s.io/" /* keys of external-provisioner */
/* external-provisioner moves its value to the filesystem of the capability. */
#define PARAM_FSTYPE PARAM_SIDECAR_PREFIX "fstype"
#define PARAM_PVC_NAME PARAM_SIDECAR_PREFIX "pvc/name"
#define PARAM_PVC_NAMESPACE PARAM_SIDECAR_PREFIX "pvc/namespace"
#define PARAM_PV_NAME PARAM_SIDECAR_PREFIX "pv/name"
#define PARAM_EPHEMERAL PARAM_SIDECAR_PREFIX "ephemeral"
#define CONTEXT_PROVISIONER_IDENTITY "storage.kubernetes.io/csiProvisionerIdentity"

/* Keys of the node-stage and node-expand secrets. */
#define SECRET_PASSPHRASE "encryption-passphrase"
#define SECRET_PASSPHRASE_PREVIOUS "encryption-passphrase-previous"

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
#define PUBLISH_ATTACHMENT_CREATED DRIVER_PREFIX "attachmentCreated"
#define PUBLISH_FORMAT_NODE DRIVER_PREFIX "formatNode"

/*
 * Annotations of a DPUVolume, for values that have no field in the CR. In addition, each prefixed
 * StorageClass key is an annotation of the same name.
 */
#define ANNOTATION_NAME DRIVER_PREFIX "name"              /* the name in CreateVolume, unchanged */
#define ANNOTATION_ACCESS_TYPE DRIVER_PREFIX "accessType" /* "mount" or "block" */
#define ANNOTATION_FUNCTION_TYPE DRIVER_PREFIX "functionType" /* "vf" or "pf" */
#define ANNOTATION_HOTPLUG DRIVER_PREFIX "hotplugFunction"    /* "true" or "false" */
#define ANNOTATION_CONTEXT_FUNCTION \
	DRIVER_PREFIX "functionInContext"          /* "true": named in the StorageClass */
#define ANNOTATION_REQUEST DRIVER_PREFIX "request" /* a hash of the fields of spec, as requested */
#define ANNOTATION_PVC_NAME DRIVER_PREFIX "pvcName"
#define ANNOTATION_PVC_NAMESPACE DRIVER_PREFIX "pvcNamespace"
#define ANNOTATION_PV_NAME DRIVER_PREFIX "pvName"
#define LABEL_MANAGED_BY "app.kubernetes.io/managed-by" /* value: the driver's name */
/*
 * Labels of a DPUVolumeAttachment, to find the attachments of a volume or node; see label_value().
 */
#define LABEL_VOLUME DRIVER_PREFIX "volume"
#define LABEL_NODE DRIVER_PREFIX "node"
