/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every failure of CreateVolume: its answer, and the objects that it leaves in the API. The same
 * table is in test/reports/error-paths.md; this program fails if the two differ (UPDATE_DOCS=1
 * writes the file).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "test/lib/controller_door.h"
#include "test/lib/doc_table.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define GOOD                                                                           \
	"{\"name\":\"pvc-1\",\"capacity_range\":{\"required_bytes\":1073741824},"      \
	"\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"}," \
	"\"mount\":{\"fs_type\":\"ext4\"}}],\"parameters\":{\"policy\":\"gold\"}}"
#define MINE                                                                                  \
	"{\"metadata\":{\"name\":\"pvc-1\",\"labels\":{\"app.kubernetes.io/managed-by\":"     \
	"\"csi.snap.nvidia.com\"},\"annotations\":{\"csi.snap.nvidia.com/name\":\"pvc-1\"}}," \
	"\"spec\":{\"dpuStoragePolicyName\":\"gold\",\"accessModes\":[\"ReadWriteOnce\"],"    \
	"\"resources\":{\"requests\":{\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"}}"
#define V "dpuvolumes"
#define A "dpuvolumeattachments"
#define CONDITION(type, status, reason, message)                                \
	"{\"type\":\"" type "\",\"status\":\"" status "\",\"reason\":\"" reason \
	"\",\"message\":\"" message "\"}"
#define PENDING(conditions) "{\"status\":{\"phase\":\"Pending\",\"conditions\":[" conditions "]}}"
#define BOUND(size)                                                                              \
	"{\"status\":{\"phase\":\"Bound\",\"state\":{\"volumeInfo\":{\"capacity\":{\"storage\":" \
	"\"" size "\"}}}}}"
#define NO_VENDOR CONDITION("Scheduled", "False", "Pending", "no DPUStorageVendor fits policy gold")
#define FAILURE(text) PENDING(CONDITION("Bound", "False", "Failure", text))
#define AWAY CONDITION("Ready", "False", "Pending", "backend away")
#define FORBIDDEN(verb) "dpuvolumes is forbidden: cannot " verb

static void on_create(const char *patch)
{
	fake.on_create = fake_json(patch);
}

/* ---- worlds ---- */

static void mine_earlier(const char *patch)
{
	fake_put(V, MINE);
	fake_change_text(V, "pvc-1", patch ? patch : "{}");
}
static void empty(void)
{
}
static void create_forbidden(void)
{
	fake_refuse("create", V, ERR_PERMISSION, FORBIDDEN("create"));
}
static void nothing_allowed(void)
{
	create_forbidden();
	fake_refuse("get", V, ERR_PERMISSION, FORBIDDEN("get"));
}
static void not_served(void)
{
	const char *text = "API group storage.dpu.nvidia.com/v1alpha1 is not served";

	fake.no_group = true;
	fake_refuse("create", V, ERR_PRECONDITION, text);
	fake_refuse("get", V, ERR_PRECONDITION, text);
}
static void not_served_but_its_group_is(void)
{
	mine_earlier(NULL);
	not_served();
	fake.no_group = false;
}
static void invalid_for_crd(void)
{
	fake_refuse("create", V, ERR_INVALID, "spec.parameters: Invalid value");
}
static void quota(void)
{
	fake_refuse("create", V, ERR_EXHAUSTED, "exceeded quota: volumes");
}
static void server_away(void)
{
	fake_refuse("create", V, ERR_UNAVAILABLE, "connection refused");
}
static void conflict(void)
{
	fake_refuse("create", V, ERR_ABORTED, "conflict");
}
static void token_expired(void)
{
	fake_refuse("create", V, ERR_UNAUTHENTICATED, "the token was refused");
}
static void watch_forbidden(void)
{
	fake_refuse("watch", V, ERR_PERMISSION, FORBIDDEN("watch"));
}
static void watch_forbidden_and_held(void)
{
	watch_forbidden();
	fake.hold = true;
}
static void lost_then_forbidden(void)
{
	fake.lost_creates = 1;
	fake_refuse_after(1, "create", V, ERR_PERMISSION, FORBIDDEN("create"));
}
static void lost_then_invalid(void)
{
	fake.lost_creates = 1;
	fake_refuse_after(1, "create", V, ERR_INVALID, "denied by a webhook");
}
static void lost_and_not_readable(void)
{
	fake.lost_creates = 1;
	fake_refuse("get", V, ERR_PERMISSION, FORBIDDEN("get"));
}
static void never_bound(void)
{
	on_create(PENDING(NO_VENDOR));
}
static void silent(void)
{
}
static void caller_leaves(void)
{
	never_bound();
	fake.end = ERR_CANCELLED;
}
static void no_capacity_known(void)
{
	on_create("{\"status\":{\"phase\":\"Bound\"}}");
}
static void not_ready(void)
{
	on_create("{\"status\":{\"phase\":\"Bound\",\"state\":{\"volumeInfo\":{\"capacity\":{"
	          "\"storage\":\"1Gi\"}}},\"conditions\":[" CONDITION("Ready", "False", "Pending",
	                                                              "backend away") "]}}");
}
static void old_ready(void)
{
	on_create("{\"status\":{\"phase\":\"Bound\",\"state\":{\"volumeInfo\":{\"capacity\":{"
	          "\"storage\":\"1Gi\"}}},\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\","
	          "\"observedGeneration\":7}]}}");
}
#define EVENT(name, type, at, uid, message)                                                        \
	"{\"metadata\":{\"name\":\"" name "\"},\"involvedObject\":{\"uid\":\"" FAKE_UID uid        \
	"\"},\"type\":\"" type "\",\"reason\":\"ProvisioningFailed\",\"lastTimestamp\":\"2026-01-" \
	"01T00:00:" at "Z\",\"message\":\"" message "\"}"
#define CLAIM_FAILED "Event from PVC ns/p in cluster ns/c1: failed: rpc error: code = "
#define VENDOR_FULL CLAIM_FAILED "ResourceExhausted desc = no space left on lvstore"
#define EVENT_FULL "; Event ProvisioningFailed: " VENDOR_FULL
#define IN_TIME "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 "
#define IS_FULL "is not bound (phase Pending): Bound=Unknown (Pending)" EVENT_FULL
#define UNBOUND                                                                               \
	PENDING("{\"type\":\"Scheduled\",\"status\":\"True\"}," CONDITION("Bound", "Unknown", \
	                                                                  "Pending", ""))
/* Puts the newest Warning about the object with that number. */
static void vendor_refuses(const char *number)
{
	char *event AUTO(free) = xasprintf(EVENT("a", "Warning", "02", "%s", VENDOR_FULL), number);

	fake_put("events", event);
}
/* The event is number 1, the volume is number 2. */
static void full(void)
{
	vendor_refuses("0002");
	on_create(UNBOUND);
}
/* By another driver, which has taken over in between. */
static void full_then_bound(void)
{
	full();
	fake.before_delete = BOUND("1Gi");
}
static void full_and_written(void)
{
	full();
	fake.before_delete = "{\"metadata\":{\"finalizers\":[\"x\"]}}";
}
static void full_and_always_written(void)
{
	full();
	fake.never_as_it_was = true;
}
static void full_and_doubtful(void)
{
	full();
	fake.may_come = true;
}
static void full_and_held(void)
{
	full();
	fake.hold = true;
}
static void full_and_undeletable(void)
{
	full();
	fake_refuse("delete", V, ERR_PERMISSION, FORBIDDEN("delete"));
}
static void full_and_unlistable(void)
{
	full();
	fake_refuse("list", A, ERR_UNAVAILABLE, "connection refused");
}
static void full_and_attached(void)
{
	vendor_refuses("0003");
	fake_put(A, "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"dpuVolumeName\":\"pvc-1\","
	            "\"dpuNodeName\":\"n1\"}}");
	on_create(UNBOUND);
}
static void failure(void)
{
	on_create(FAILURE("the PVC was lost"));
}
static void failure_full(void)
{
	on_create(FAILURE("no capacity left"));
}
static void too_big(void)
{
	on_create(BOUND("3Gi"));
}
static void too_small(void)
{
	on_create(BOUND("1Mi"));
}
static void malformed(void)
{
	on_create("{\"status\":{\"phase\":7}}");
}
static void deleted_meanwhile(void)
{
	never_bound();
	fake_then(V, "pvc-1", NULL);
}
static void marked_meanwhile(void)
{
	fake_then(V, "pvc-1", "{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}");
}
static void earlier_going(void)
{
	mine_earlier("{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}");
}
static void earlier_other_policy(void)
{
	mine_earlier("{\"spec\":{\"dpuStoragePolicyName\":\"silver\"}}");
}
static void earlier_other_size(void)
{
	mine_earlier("{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"512Mi\"}}}}");
}
static void earlier_other_type(void)
{
	mine_earlier("{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/accessType\":"
	             "\"block\"}}}");
}
static void earlier_pending(void)
{
	mine_earlier(NULL);
}
static void earlier_other_mode(void)
{
	mine_earlier("{\"spec\":{\"accessModes\":[\"ReadOnlyMany\"]}}");
}
static void earlier_more_parameters(void)
{
	mine_earlier("{\"spec\":{\"parameters\":{\"pool\":\"p1\"}}}");
}
static void earlier_other_function(void)
{
	mine_earlier(
		"{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/functionType\":\"pf\"}}}");
}
static void earlier_other_key(void)
{
	mine_earlier("{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/formatPolicy\":"
	             "\"never\"}}}");
}
static void earlier_virtiofs(void)
{
	mine_earlier("{\"spec\":{\"volumeMode\":\"Filesystem\"}}");
}
static void earlier_other_name(void)
{
	mine_earlier("{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/name\":\"PVC-1\"}}}");
}
static void earlier_full(void)
{
	vendor_refuses("0002");
	mine_earlier(UNBOUND);
}
static void begun_by_go_full(void)
{
	vendor_refuses("0002");
	mine_earlier("{\"metadata\":{\"annotations\":null,\"labels\":null}}");
	fake_change_text(V, "pvc-1", UNBOUND);
}
static void bound_then_full(void)
{
	vendor_refuses("0002");
	mine_earlier(BOUND("1Gi"));
	fake_change_text(V, "pvc-1", "{\"status\":{\"conditions\":[" AWAY "]}}");
}
/* It was returned to a caller, and DPF has reset its phase since. */
static void once_bound(void)
{
	mine_earlier(BOUND("1Gi"));
	fake_change_text(V, "pvc-1", "{\"status\":{\"phase\":\"Pending\"}}");
}
static void once_bound_then_full(void)
{
	vendor_refuses("0002");
	once_bound();
}
static void once_bound_and_quota(void)
{
	once_bound();
	fake_refuse("create", V, ERR_PERMISSION, "dpuvolumes is forbidden: exceeded quota");
}
static void earlier_bound_too_big(void)
{
	mine_earlier("{\"spec\":{\"resources\":{\"limits\":{\"storage\":\"2Gi\"}}}}");
	fake_change_text(V, "pvc-1", BOUND("3Gi"));
}
#define PV_NAME "{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/pvName\":\"pvc-1\"}}}"
static void kubernetes_bound_too_big(void)
{
	earlier_bound_too_big();
	fake_change_text(V, "pvc-1", PV_NAME);
}
static void kubernetes_bound_too_big_in_use(void)
{
	kubernetes_bound_too_big();
	fake_put(A, "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"dpuVolumeName\":\"pvc-1\","
	            "\"dpuNodeName\":\"n1\"}}");
}
static void kubernetes_bound_too_big_by_hand(void)
{
	kubernetes_bound_too_big();
	fake_change_text(V, "pvc-1", "{\"metadata\":{\"labels\":null}}");
}
static void kubernetes_bound_too_small(void)
{
	mine_earlier(BOUND("1Mi"));
	fake_change_text(V, "pvc-1", PV_NAME);
}
static void earlier_gets_too_big(void)
{
	mine_earlier("{\"spec\":{\"resources\":{\"limits\":{\"storage\":\"2Gi\"}}}}");
	fake_then(V, "pvc-1", BOUND("3Gi"));
}
static void earlier_bound_loses_size(void)
{
	mine_earlier("{\"spec\":{\"resources\":{\"limits\":{\"storage\":\"2Gi\"}}},"
	             "\"status\":{\"phase\":\"Bound\"}}");
	fake_then(V, "pvc-1", BOUND("3Gi"));
}
static void kubernetes_bound_loses_size(void)
{
	earlier_bound_loses_size();
	fake_change_text(V, "pvc-1", PV_NAME);
}
/* The events are numbers 1 to 3, the volume is number 4. */
static void vendor_is_full(void)
{
	fake_put("events", EVENT("a", "Warning", "02", "0004", VENDOR_FULL));
	fake_put("events", EVENT("b", "Warning", "01", "0004", CLAIM_FAILED "Internal desc = x"));
	fake_put("events", EVENT("c", "Normal", "03", "0004", "provisioning"));
	on_create(UNBOUND);
}
static void vendor_was_full(void)
{
	fake_put("events", EVENT("a", "Warning", "01", "0004", VENDOR_FULL));
	fake_put("events", EVENT("b", "Warning", "02", "0004", CLAIM_FAILED "Internal desc = x"));
	fake_put("events", EVENT("c", "Warning", "03", "0009", VENDOR_FULL));
	on_create(UNBOUND);
}
static void vendor_is_full_and_events_are_forbidden(void)
{
	vendor_is_full();
	fake_refuse("list", "events", ERR_PERMISSION, "no");
}
static void vendor_is_full_and_events_are_not_answered(void)
{
	vendor_is_full();
	fake_refuse("list", "events", ERR_UNAVAILABLE, "no");
}
static void claim_exceeds_quota(void)
{
	on_create(PENDING(
		CONDITION("Bound", "False", "Error", "claims is forbidden: exceeded quota: q")));
}
static void no_dpu(void)
{
	on_create(PENDING(CONDITION("Bound", "False", "Error", "no DPU")));
}
#define SILVER "\"spec\":{\"dpuStoragePolicyName\":\"silver\"}"
static void admission_changes_policy(void)
{
	fake.admission = "{" SILVER "}";
}
static void admission_changes_size(void)
{
	fake.admission = "{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"512Mi\"}}}}";
}
static void admission_changes_modes(void)
{
	fake.admission = "{\"spec\":{\"accessModes\":[\"ReadOnlyMany\"]}}";
}
static void admission_changes_volume_mode(void)
{
	fake.admission = "{\"spec\":{\"volumeMode\":\"Filesystem\"}}";
}
static void admission_changes_parameter(void)
{
	fake.admission = "{\"spec\":{\"parameters\":{\"pool\":\"p2\"}}}";
}
static void admission_changes_function(void)
{
	fake.admission =
		"{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/functionType\":\"pf\"}}}";
}
static void admission_changes_policy_and_is_held(void)
{
	admission_changes_policy();
	fake.hold = true;
}
static void admission_changes_policy_and_it_is_written(void)
{
	admission_changes_policy();
	fake.never_as_it_was = true;
}
static void admission_changes_policy_and_it_is_bound(void)
{
	fake.admission = "{" SILVER ",\"status\":{\"phase\":\"Bound\",\"state\":{\"volumeInfo\":{"
			 "\"capacity\":{\"storage\":\"1Gi\"}}}}}";
}
static void admission_changes_policy_and_answer_is_lost(void)
{
	admission_changes_policy();
	fake.lost_creates = 1;
}
static void bound_and_answer_is_lost(void)
{
	admission_changes_policy_and_it_is_bound();
	fake.lost_creates = 1;
}
/* Like a volume that was returned to a caller and has grown. */
static void bound_and_grown_and_answer_is_lost(void)
{
	fake.admission =
		"{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"5Gi\"}}},\"status\":{"
		"\"phase\":\"Bound\",\"state\":{\"volumeInfo\":{\"capacity\":{\"storage\":\"5Gi\"}}}}}";
	fake.lost_creates = 1;
}
static void earlier_and_create_forbidden(void)
{
	mine_earlier(PENDING(NO_VENDOR));
	create_forbidden();
}
static void unreadable(void)
{
	mine_earlier(NULL);
	fake_refuse("get", V, ERR_UNAVAILABLE, "connection refused");
}
static void comes_and_goes(void)
{
	mine_earlier(NULL);
	fake.comes_and_goes = true;
}

static struct keylock *locks;
static struct keylock_hold *hold;
static void busy(void)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(keylock_take(locks, "pvc-1", "DeleteVolume", &hold, &err), 0);
}

/* ---- the table ---- */

enum left { NOTHING, PENDING_VOLUME, BOUND_VOLUME, GOING, ANOTHERS, UNKNOWN };
static const char *const left_words[] = {
	"nothing",
	"the DPUVolume; the retry uses it",
	"the DPUVolume, bound; the retry returns it when it is ready",
	"the DPUVolume, being deleted",
	"the earlier DPUVolume, unchanged",
	"unknown; the retry determines it",
};

#define ONLY_READ                                                                     \
	"VolumeCapabilities: a new volume has no filesystem, and a read-only volume " \
	"(ReadOnlyMany) never gets one; request ReadWriteOnce, or let readers claim a volume that has been written before (docs/reference/parameters.md, Volumes for readers)"

#define SHARE "\"csi.snap.nvidia.com/emulation\":\"virtiofs\""
#define LIMIT "{\"required_bytes\":1073741824,\"limit_bytes\":2147483648}"
/* Like a request of external-provisioner with --extra-create-metadata. */
#define KUBERNETES(range)                                                               \
	"{\"capacity_range\":" range ",\"parameters\":{\"csi.storage.k8s.io/pv/name\":" \
	"\"pvc-1\"}}"
#define TOO_BIG "its size is 3221225472 (requested: at least 1073741824, limit 2147483648)"
#define UNKNOWN_OWNER                                                    \
	"DPUVolume dpf/pvc-1 was created for this request, but " TOO_BIG \
	". Another client may have received it: delete it if it is not in use"

static const struct row {
	const char *what;
	const char *patch; /* of the good request */
	void (*world)(void);
	enum err_code code;
	enum left left;
	const char *text;
} rows[] = {
	/* Refused by the RPC handler: the API server receives no request. */
	{ "no name", "{\"name\":null}", empty, ERR_INVALID, NOTHING, "Name: field is required" },
	{ "no capabilities", "{\"volume_capabilities\":null}", empty, ERR_INVALID, NOTHING,
	  "VolumeCapabilities: field is required" },
	{ "a capability without access mode", "{\"volume_capabilities\":[{\"mount\":{}}]}", empty,
	  ERR_INVALID, NOTHING, "VolumeCapabilities[0].AccessMode: field is required" },
	{ "a capability without access type",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"}}]}", empty,
	  ERR_INVALID, NOTHING, "VolumeCapabilities[0].AccessType: field is required" },
	{ "an unknown filesystem",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},"
	  "\"mount\":{\"fs_type\":\"ntfs\"}}]}",
	  empty, ERR_INVALID, NOTHING,
	  "VolumeCapabilities[0].Mount.FsType: unsupported filesystem \"ntfs\", supported are "
	  "ext4, ext3, xfs, btrfs" },
	{ "virtiofs for an NVMe volume",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"MULTI_NODE_MULTI_WRITER\"},"
	  "\"mount\":{\"fs_type\":\"virtiofs\"}}]}",
	  empty, ERR_INVALID, NOTHING,
	  "VolumeCapabilities[0].Mount.FsType: the volume is NVMe, which gets ext4, ext3, xfs or "
	  "btrfs, not virtiofs; write csi.snap.nvidia.com/emulation: virtiofs into the StorageClass "
	  "for a directory that the DPU shares" },
	{ "several writers of one filesystem",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"MULTI_NODE_MULTI_WRITER\"},"
	  "\"mount\":{}}]}",
	  empty, ERR_INVALID, NOTHING,
	  "VolumeCapabilities[0].AccessMode: MULTI_NODE_MULTI_WRITER needs a raw block volume "
	  "(volumeMode: Block): ext4 is not a cluster filesystem; writing to it while other nodes "
	  "have it mounted would destroy it" },
	{ "one writer and several readers of one filesystem",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},"
	  "\"mount\":{}},{\"access_mode\":{\"mode\":\"MULTI_NODE_READER_ONLY\"},\"mount\":{}}]}",
	  empty, ERR_INVALID, NOTHING,
	  "VolumeCapabilities: a filesystem that is written on one node cannot be mounted "
	  "on others at the same time; request one access mode, or raw block (volumeMode: Block)" },
	{ "an unsupported filesystem",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"MULTI_NODE_READER_ONLY\"},"
	  "\"mount\":{}}]}",
	  empty, ERR_INVALID, NOTHING, ONLY_READ },
	{ "an unsupported filesystem, for one node",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"MULTI_NODE_READER_ONLY\"},"
	  "\"mount\":{}},{\"access_mode\":{\"mode\":\"SINGLE_NODE_READER_ONLY\"},\"mount\":{}}]}",
	  empty, ERR_INVALID, NOTHING, ONLY_READ },
	{ "both mount and block",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},"
	  "\"mount\":{}},{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},\"block\":{}}]}",
	  empty, ERR_INVALID, NOTHING,
	  "VolumeCapabilities[1].AccessType: a volume is either a filesystem or raw block, not "
	  "both" },
	{ "a content source", "{\"volume_content_source\":{\"snapshot\":{\"snapshot_id\":\"s\"}}}",
	  empty, ERR_INVALID, NOTHING,
	  "VolumeContentSource: the claim has a dataSource, but this driver neither restores "
	  "snapshots nor clones volumes; leave dataSource out of the claim" },
	{ "mutable parameters", "{\"mutable_parameters\":{\"iops\":\"1\"}}", empty, ERR_INVALID,
	  NOTHING,
	  "MutableParameters: volumes cannot be modified, so none are supported "
	  "(VolumeAttributesClass)" },
	{ "no policy", "{\"parameters\":null}", empty, ERR_INVALID, NOTHING,
	  "Parameters.policy: field is required" },
	{ "an invalid function type", "{\"parameters\":{\"functionType\":\"sf\"}}", empty,
	  ERR_INVALID, NOTHING,
	  "Parameters: functionType: unsupported value sf, supported values are: vf, pf" },
	{ "a hot-plugged vf", "{\"parameters\":{\"hotplugFunction\":\"true\"}}", empty, ERR_INVALID,
	  NOTHING, "Parameters: hotplugFunction: must be false when functionType is vf" },
	{ "a misspelled key of the driver",
	  "{\"parameters\":{\"csi.snap.nvidia.com/formatpolicy\":\"never\"}}", empty, ERR_INVALID,
	  NOTHING,
	  "Parameters: csi.snap.nvidia.com/formatpolicy: no such key; write "
	  "csi.snap.nvidia.com/formatPolicy" },
	{ "a key of the driver without its prefix", "{\"parameters\":{\"formatPolicy\":\"never\"}}",
	  empty, ERR_INVALID, NOTHING,
	  "Parameters: formatPolicy: no such key; write csi.snap.nvidia.com/formatPolicy, or put a "
	  "vendor's parameter of that name into the DPUStoragePolicy" },
	{ "policy in another case", "{\"parameters\":{\"policy\":null,\"Policy\":\"gold\"}}", empty,
	  ERR_INVALID, NOTHING,
	  "Parameters: Policy: no such key; write policy, or put a vendor's parameter of that name "
	  "into the DPUStoragePolicy" },
	{ "fsType without the sidecar's prefix", "{\"parameters\":{\"fsType\":\"xfs\"}}", empty,
	  ERR_INVALID, NOTHING,
	  "Parameters: fsType: no such key; write csi.storage.k8s.io/fstype, or put a vendor's "
	  "parameter of that name into the DPUStoragePolicy" },
	{ "an unknown key", "{\"parameters\":{\"csi.snap.nvidia.com/mkfsOptions\":\"-F\"}}", empty,
	  ERR_INVALID, NOTHING,
	  "Parameters: csi.snap.nvidia.com/mkfsOptions: no such key; those of this driver are: "
	  "functionType, hotplugFunction, csi.snap.nvidia.com/emulation, "
	  "csi.snap.nvidia.com/formatPolicy, csi.snap.nvidia.com/blockSize, "
	  "csi.snap.nvidia.com/inodeSize, csi.snap.nvidia.com/bytesPerInode, "
	  "csi.snap.nvidia.com/numberOfInodes, csi.snap.nvidia.com/ext4BigAlloc, "
	  "csi.snap.nvidia.com/ext4ClusterSize, csi.snap.nvidia.com/ioScheduler, "
	  "csi.snap.nvidia.com/nrRequests, csi.snap.nvidia.com/readAheadKb, "
	  "csi.snap.nvidia.com/rqAffinity, csi.snap.nvidia.com/encryption, "
	  "csi.snap.nvidia.com/encryptionKdf, csi.snap.nvidia.com/allowDiscards" },
	{ "an mkfs key of another filesystem",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},"
	  "\"mount\":{\"fs_type\":\"xfs\"}}],\"parameters\":{"
	  "\"csi.snap.nvidia.com/ext4BigAlloc\":\"true\"}}",
	  empty, ERR_INVALID, NOTHING,
	  "Parameters: csi.snap.nvidia.com/ext4BigAlloc: has no meaning for xfs" },
	{ "an invalid emulation", "{\"parameters\":{\"csi.snap.nvidia.com/emulation\":\"scsi\"}}",
	  empty, ERR_INVALID, NOTHING,
	  "Parameters: csi.snap.nvidia.com/emulation: unsupported value scsi, supported values are: "
	  "nvme, virtiofs" },
	{ "virtio-fs: raw block",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"MULTI_NODE_MULTI_WRITER\"},"
	  "\"block\":{}}],\"parameters\":{" SHARE "}}",
	  empty, ERR_UNIMPLEMENTED, NOTHING,
	  "VolumeCapabilities[0].Block is not supported: a virtio-fs volume is a directory that the "
	  "DPU shares, not a disk; write volumeMode: Filesystem into the claim, or "
	  "csi.snap.nvidia.com/emulation: nvme into the StorageClass" },
	{ "virtio-fs: a filesystem for disks",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"MULTI_NODE_MULTI_WRITER\"},"
	  "\"mount\":{\"fs_type\":\"xfs\"}}],\"parameters\":{" SHARE "}}",
	  empty, ERR_INVALID, NOTHING,
	  "VolumeCapabilities[0].Mount.FsType: a virtio-fs volume is a directory that the DPU "
	  "shares, nothing is formatted as \"xfs\"; write csi.storage.k8s.io/fstype: virtiofs into "
	  "the StorageClass (fsType of a PersistentVolume), or leave it out" },
	{ "virtio-fs on a VF", "{\"parameters\":{\"functionType\":\"vf\"," SHARE "}}", empty,
	  ERR_INVALID, NOTHING,
	  "Parameters: functionType: a virtio-fs volume is on a hot-plugged PF; write functionType: "
	  "pf, or leave it out" },
	{ "virtio-fs on a static PF",
	  "{\"parameters\":{\"functionType\":\"pf\",\"hotplugFunction\":\"F\"," SHARE "}}", empty,
	  ERR_INVALID, NOTHING,
	  "Parameters: hotplugFunction: a virtio-fs volume is on a hot-plugged PF; write "
	  "hotplugFunction: \"true\", or leave it out" },
	{ "virtio-fs, formatted",
	  "{\"parameters\":{\"csi.snap.nvidia.com/formatPolicy\":\"never\"," SHARE "}}", empty,
	  ERR_INVALID, NOTHING,
	  "Parameters: csi.snap.nvidia.com/formatPolicy: has no meaning with virtiofs, which is "
	  "never formatted and has no disk; leave it out" },
	{ "virtio-fs with a key for mkfs",
	  "{\"parameters\":{\"csi.snap.nvidia.com/inodeSize\":\"512\"," SHARE "}}", empty,
	  ERR_INVALID, NOTHING,
	  "Parameters: csi.snap.nvidia.com/inodeSize: has no meaning with virtiofs, which is never "
	  "formatted and has no disk; leave it out" },
	{ "virtio-fs with a setting of a disk's queue",
	  "{\"parameters\":{\"csi.snap.nvidia.com/readAheadKb\":\"512\"," SHARE "}}", empty,
	  ERR_INVALID, NOTHING,
	  "Parameters: csi.snap.nvidia.com/readAheadKb: has no meaning with virtiofs, which is never "
	  "formatted and has no disk; leave it out" },
	{ "an unknown scheduler", "{\"parameters\":{\"csi.snap.nvidia.com/ioScheduler\":\"cfq\"}}",
	  empty, ERR_INVALID, NOTHING,
	  "Parameters: csi.snap.nvidia.com/ioScheduler: unsupported value cfq, supported values "
	  "are: none, mq-deadline, kyber, bfq" },
	{ "more requests than any queue has",
	  "{\"parameters\":{\"csi.snap.nvidia.com/nrRequests\":\"65536\"}}", empty, ERR_INVALID,
	  NOTHING,
	  "Parameters: csi.snap.nvidia.com/nrRequests: 65536 is not a number from 4 to 4096" },
	{ "a negative size", "{\"capacity_range\":{\"required_bytes\":-1}}", empty, ERR_INVALID,
	  NOTHING, "CapacityRange: required_bytes is negative" },
	{ "required size above the limit", "{\"capacity_range\":{\"limit_bytes\":1048576}}", empty,
	  ERR_RANGE, NOTHING,
	  "CapacityRange: required_bytes 1.0 GiB (1073741824 bytes) is more than limit_bytes 1.0 "
	  "MiB (1048576 bytes)" },
	{ "too small for its filesystem",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},"
	  "\"mount\":{\"fs_type\":\"xfs\"}}],\"capacity_range\":{\"required_bytes\":104857600}}",
	  empty, ERR_RANGE, NOTHING,
	  "CapacityRange: 100.0 MiB (104857600 bytes) is too small for xfs, which needs 300.0 MiB "
	  "(314572800 bytes)" },

	{ "too small for ext4", "{\"capacity_range\":{\"required_bytes\":1000000}}", empty,
	  ERR_RANGE, NOTHING,
	  "CapacityRange: 976.6 KiB (1000000 bytes) is too small for ext4, which needs 1.0 MiB "
	  "(1048576 bytes)" },
	{ "too small for ext3",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},"
	  "\"mount\":{\"fs_type\":\"ext3\"}}],\"capacity_range\":{\"required_bytes\":2097152}}",
	  empty, ERR_RANGE, NOTHING,
	  "CapacityRange: 2.0 MiB (2097152 bytes) is too small for ext3, which needs 4.0 MiB "
	  "(4194304 bytes)" },
	{ "too small for the journal of ext3 with big blocks",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},"
	  "\"mount\":{\"fs_type\":\"ext3\"}}],\"capacity_range\":{\"required_bytes\":4194304},"
	  "\"parameters\":{\"csi.snap.nvidia.com/blockSize\":\"4096\"}}",
	  empty, ERR_RANGE, NOTHING,
	  "CapacityRange: 4.0 MiB (4194304 bytes) is too small for ext3 with the StorageClass's "
	  "keys, which needs 8.0 MiB (8388608 bytes)" },
	{ "a limit that is too small for ext4",
	  "{\"capacity_range\":{\"required_bytes\":0,\"limit_bytes\":1000}}", empty, ERR_RANGE,
	  NOTHING,
	  "CapacityRange: 1000 bytes is too small for ext4, which needs 1.0 MiB (1048576 bytes)" },

	{ "another call for the volume is running", "{}", busy, ERR_ABORTED, UNKNOWN,
	  "volume pvc-1: DeleteVolume has been running for 0.0 s; retry when it has ended" },

	/* The POST. */
	{ "no permission to create", "{}", create_forbidden, ERR_PERMISSION, NOTHING,
	  "DPUVolume dpf/pvc-1: " FORBIDDEN("create") },
	{ "no permission to create or to read", "{}", nothing_allowed, ERR_UNAVAILABLE, UNKNOWN,
	  "DPUVolume dpf/pvc-1: " FORBIDDEN("create") " (could not determine "
	                                              "whether it still exists: " FORBIDDEN(
							      "get") ")" },
	{ "the token is refused", "{}", token_expired, ERR_UNAUTHENTICATED, NOTHING,
	  "DPUVolume dpf/pvc-1: the token was refused" },
	{ "the CRD is not installed", "{}", not_served, ERR_PRECONDITION, NOTHING,
	  "DPUVolume dpf/pvc-1: API group storage.dpu.nvidia.com/v1alpha1 is not served" },
	{ "the CRD is not served, but others of its API group are", "{}",
	  not_served_but_its_group_is, ERR_UNAVAILABLE, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1: API group storage.dpu.nvidia.com/v1alpha1 is not served (could not "
	  "determine whether it still exists: API group storage.dpu.nvidia.com/v1alpha1 is not served)" },
	{ "the CRD or a webhook refuses the object", "{}", invalid_for_crd, ERR_INVALID, NOTHING,
	  "DPUVolume dpf/pvc-1: spec.parameters: Invalid value" },
	{ "the namespace's quota is exceeded", "{}", quota, ERR_EXHAUSTED, NOTHING,
	  "DPUVolume dpf/pvc-1: exceeded quota: volumes" },
	{ "the API server is unreachable", "{}", server_away, ERR_UNAVAILABLE, UNKNOWN,
	  "DPUVolume dpf/pvc-1: connection refused" },
	{ "created, the answer was lost, and the retry is not permitted", "{}", lost_then_forbidden,
	  ERR_UNAVAILABLE, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1: " KUBE_PERHAPS_DONE ": " FORBIDDEN("create") },
	{ "created, the answer was lost, and a webhook refuses the retry", "{}", lost_then_invalid,
	  ERR_UNAVAILABLE, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1: " KUBE_PERHAPS_DONE ": denied by a webhook" },
	{ "created, the answer was lost, and the object cannot be read", "{}",
	  lost_and_not_readable, ERR_UNAVAILABLE, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1: " FORBIDDEN("get") },
	{ "a conflict", "{}", conflict, ERR_ABORTED, UNKNOWN, "DPUVolume dpf/pvc-1: conflict" },
	{ "no permission to create, and an earlier call's object exists", "{}",
	  earlier_and_create_forbidden, ERR_PERMISSION, NOTHING,
	  "DPUVolume dpf/pvc-1: " FORBIDDEN("create") },

	/* Admission changes the object in the driver's POST. */
	{ "admission changes the policy", "{}", admission_changes_policy, ERR_PRECONDITION, NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: policy: have silver, requested gold; does an admission policy or webhook change DPUVolumes?" },
	{ "admission changes the size", "{}", admission_changes_size, ERR_PRECONDITION, NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: its size is 536870912 (requested: at least 1073741824, limit 0); does an admission policy or webhook change DPUVolumes?" },
	{ "admission changes the access modes", "{}", admission_changes_modes, ERR_PRECONDITION,
	  NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: accessModes: have ReadOnlyMany, requested ReadWriteOnce; does an admission policy or webhook change DPUVolumes?" },
	{ "admission changes the volume mode", "{}", admission_changes_volume_mode,
	  ERR_PRECONDITION, NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: volumeMode: have Filesystem, requested Block; does an admission policy or webhook change DPUVolumes?" },
	{ "admission changes a parameter", "{\"parameters\":{\"pool\":\"p1\"}}",
	  admission_changes_parameter, ERR_PRECONDITION, NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: parameter \"pool\" differs; does an admission policy or webhook change DPUVolumes?" },
	{ "admission changes the function", "{}", admission_changes_function, ERR_PRECONDITION,
	  NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: csi.snap.nvidia.com/functionType: have pf, requested vf; does an admission policy or webhook change DPUVolumes?" },
	{ "admission changes the policy, and the object is not deleted", "{}",
	  admission_changes_policy_and_is_held, ERR_ABORTED, GOING,
	  "DPUVolume dpf/pvc-1 is being removed because it differs from the request: policy: have silver, requested gold; does an admission policy or webhook change DPUVolumes?" },
	{ "admission changes the policy, and DPF keeps writing the object", "{}",
	  admission_changes_policy_and_it_is_written, ERR_PRECONDITION, NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: policy: have silver, requested gold; does an admission policy or webhook change DPUVolumes?" },
	{ "admission changes the policy, and the volume is bound at once", "{}",
	  admission_changes_policy_and_it_is_bound, ERR_PRECONDITION, NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: policy: have silver, requested gold; does an admission policy or webhook change DPUVolumes?" },
	{ "admission changes the policy, and the answer was lost", "{}",
	  admission_changes_policy_and_answer_is_lost, ERR_PRECONDITION, NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: policy: have silver, requested gold; does an admission policy or webhook change DPUVolumes?" },
	{ "the same, the volume is bound, not by external-provisioner", "{}",
	  bound_and_answer_is_lost, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: policy: have silver, requested gold" },
	{ "the same, by external-provisioner", KUBERNETES("{}"), bound_and_answer_is_lost,
	  ERR_PRECONDITION, NOTHING,
	  "DPUVolume dpf/pvc-1 differs from the request: policy: have silver, requested gold; does an admission policy or webhook change DPUVolumes?" },
	{ "the volume of this request has grown beyond its limit", KUBERNETES(LIMIT),
	  bound_and_grown_and_answer_is_lost, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: its size is 5368709120 (requested: at least 1073741824, limit 2147483648)" },

	/* An object of that name exists. */
	{ "created with another policy", "{}", earlier_other_policy, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: policy: have silver, requested gold" },
	{ "created with another size", "{}", earlier_other_size, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: its size is "
	  "536870912 (requested: at least 1073741824, limit 0)" },
	{ "created for another access type", "{}", earlier_other_type, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: csi.snap.nvidia.com/accessType: have block, requested mount" },
	{ "created for another access mode", "{}", earlier_other_mode, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: accessModes: have ReadOnlyMany, requested ReadWriteOnce" },
	{ "created with more parameters", "{}", earlier_more_parameters, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: unexpected parameter \"pool\"" },
	{ "created with other parameters", "{\"parameters\":{\"pool\":\"p2\"}}",
	  earlier_more_parameters, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: parameter \"pool\" differs" },
	{ "created for another function", "{}", earlier_other_function, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: csi.snap.nvidia.com/functionType: have pf, requested vf" },
	{ "created with a key of the driver", "{}", earlier_other_key, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: csi.snap.nvidia.com/formatPolicy: have never, requested nothing" },
	{ "created without a key of the driver",
	  "{\"parameters\":{\"csi.snap.nvidia.com/formatPolicy\":\"never\"}}", earlier_pending,
	  ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: csi.snap.nvidia.com/formatPolicy: have nothing, requested never" },
	{ "the existing volume is virtio-fs", "{}", earlier_virtiofs, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: volumeMode: have Filesystem, requested Block" },
	{ "the existing volume is NVMe, and virtio-fs is requested", "{\"parameters\":{" SHARE "}}",
	  earlier_pending, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: volumeMode: have Block, requested Filesystem" },
	{ "created for another name", "{}", earlier_other_name, ERR_EXISTS, ANOTHERS,
	  "DPUVolume dpf/pvc-1 already exists for another volume, \"PVC-1\"" },
	{ "the existing volume is being deleted", "{}", earlier_going, ERR_ABORTED, GOING,
	  "DPUVolume dpf/pvc-1 is being deleted; retry after its deletion" },
	{ "the existing volume cannot be read", "{}", unreadable, ERR_UNAVAILABLE, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1: connection refused" },
	{ "the object is deleted before each read", "{}", comes_and_goes, ERR_ABORTED, UNKNOWN,
	  "DPUVolume dpf/pvc-1 is repeatedly created and deleted; check whether another client creates it" },

	/* The wait. */
	{ "no matching vendor until the deadline", "{}", never_bound, ERR_DEADLINE, PENDING_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is not bound "
	  "(phase Pending): Scheduled=False (Pending: no DPUStorageVendor fits policy gold)" },
	{ "no answer of DPF until the deadline", "{}", silent, ERR_DEADLINE, PENDING_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is not bound "
	  "(phase not set): no conditions yet; DPF has not started: check that its host controller runs and every DPU cluster is reachable" },
	{ "the caller cancels", "{}", caller_leaves, ERR_CANCELLED, PENDING_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is not bound "
	  "(phase Pending): Scheduled=False (Pending: no DPUStorageVendor fits policy gold)" },
	{ "bound, but without a capacity", "{}", no_capacity_known, ERR_DEADLINE, BOUND_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is bound, but "
	  "volume capacity is 0 (status.state.volumeInfo.capacity.storage): no conditions yet" },
	{ "bound, but not ready", "{}", not_ready, ERR_DEADLINE, BOUND_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is bound, but "
	  "not ready: Ready=False (Pending: backend away)" },
	{ "ready only for an older generation", "{}", old_ready, ERR_DEADLINE, BOUND_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is bound, but "
	  "not ready: Ready=True (about an older generation)" },
	{ "no permission to watch", "{}", watch_forbidden, ERR_PERMISSION, NOTHING,
	  "waiting for DPUVolume dpf/pvc-1: " FORBIDDEN("watch") },
	{ "no permission to watch, and the object is not deleted", "{}", watch_forbidden_and_held,
	  ERR_ABORTED, GOING,
	  "DPUVolume dpf/pvc-1 is being removed because waiting for it: " FORBIDDEN("watch") },
	{ "another client deletes the object", "{}", deleted_meanwhile, ERR_ABORTED, NOTHING,
	  "DPUVolume dpf/pvc-1 was deleted during the wait for it" },
	{ "another client starts to delete the object", "{}", marked_meanwhile, ERR_ABORTED, GOING,
	  "DPUVolume dpf/pvc-1 is being deleted; retry after its deletion" },
	{ "the status cannot be parsed", "{}", malformed, ERR_UNAVAILABLE, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1 status.phase: is not a string" },

	/* DPF retries; the cause is in Events or in the reason Error. */
	{ "the vendor is full", "{}", vendor_is_full, ERR_EXHAUSTED, NOTHING, IN_TIME IS_FULL },
	{ "a newer Event has another cause", "{}", vendor_was_full, ERR_DEADLINE, PENDING_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is not bound (phase Pending): Bound=Unknown (Pending); Event ProvisioningFailed: Event from PVC ns/p in cluster ns/c1: failed: rpc error: code = Internal desc = x" },
	{ "no permission to list Events", "{}", vendor_is_full_and_events_are_forbidden,
	  ERR_DEADLINE, PENDING_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is not bound (phase Pending): Bound=Unknown (Pending); DPF has not started: check that its host controller runs and every DPU cluster is reachable; its Events may have details, but the driver is not permitted to list events in namespace dpf (manifests/base/rbac.yaml)" },
	{ "the API server does not answer for the Events", "{}",
	  vendor_is_full_and_events_are_not_answered, ERR_DEADLINE, PENDING_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is not bound (phase Pending): Bound=Unknown (Pending); DPF has not started: check that its host controller runs and every DPU cluster is reachable" },
	{ "the claim exceeds a quota of its DPU cluster", "{}", claim_exceeds_quota, ERR_EXHAUSTED,
	  NOTHING,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is not bound (phase Pending): Bound=False (Error: claims is forbidden: exceeded quota: q)" },
	{ "another error", "{}", no_dpu, ERR_DEADLINE, PENDING_VOLUME,
	  "timeout occurred while waiting for volume creation: DPUVolume dpf/pvc-1 is not bound (phase Pending): Bound=False (Error: no DPU)" },

	{ "the vendor is full, on a retry", "{}", earlier_full, ERR_EXHAUSTED, NOTHING,
	  IN_TIME IS_FULL },
	{ "the vendor is full, and the object is not deleted", "{}", full_and_held, ERR_ABORTED,
	  GOING, "DPUVolume dpf/pvc-1 is being removed because it " IS_FULL },
	{ "the vendor is full, and an earlier request may still be executed", "{}",
	  full_and_doubtful, ERR_UNAVAILABLE, NOTHING,
	  IN_TIME IS_FULL
	  " (could not determine whether it still exists: DPUVolume dpf/pvc-1 does not exist now, but "
	  "a request to create it had no answer, and the API server may still execute it for half a minute; retry)" },
	{ "the vendor is full, and DPF writes the object just before its DELETE", "{}",
	  full_and_written, ERR_EXHAUSTED, NOTHING, IN_TIME IS_FULL },
	{ "the vendor is full, and the object keeps changing", "{}", full_and_always_written,
	  ERR_ABORTED, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1 should be removed because it " IS_FULL
	  "; it changed at each attempt" },
	{ "the vendor was full, and the volume is bound just before its DELETE", "{}",
	  full_then_bound, ERR_UNAVAILABLE, BOUND_VOLUME, IN_TIME IS_FULL },
	{ "the vendor is full, no permission to delete the object", "{}", full_and_undeletable,
	  ERR_ABORTED, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1 should be removed because it " IS_FULL "; the removal was refused" },
	{ "the vendor is full, and the attachments cannot be read", "{}", full_and_unlistable,
	  ERR_UNAVAILABLE, PENDING_VOLUME,
	  IN_TIME IS_FULL " (could not determine whether it still exists: connection refused)" },
	{ "the vendor is full, and the volume is attached", "{}", full_and_attached,
	  ERR_UNAVAILABLE, ANOTHERS, IN_TIME IS_FULL },
	{ "the vendor is full, and the Go plugin created the volume", "{}", begun_by_go_full,
	  ERR_UNAVAILABLE, ANOTHERS, IN_TIME IS_FULL },
	{ "the volume was bound before its vendor was full", "{}", bound_then_full, ERR_UNAVAILABLE,
	  BOUND_VOLUME,
	  IN_TIME "is bound, but not ready: Ready=False (Pending: backend away)" EVENT_FULL },
	{ "the volume was bound once, and its vendor is full", "{}", once_bound_then_full,
	  ERR_UNAVAILABLE, PENDING_VOLUME,
	  IN_TIME "is not bound (phase Pending): no conditions yet" EVENT_FULL },
	{ "the volume was bound once, and another POST is refused", "{}", once_bound_and_quota,
	  ERR_UNAVAILABLE, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1: dpuvolumes is forbidden: exceeded quota" },

	/* DPF defines this reason, but its storage controllers do not write it. */
	{ "a condition has the reason Failure", "{}", failure, ERR_UNAVAILABLE, PENDING_VOLUME,
	  "DPUVolume dpf/pvc-1 failed: Bound=False (Failure: the PVC was lost)" },
	{ "the same, and its text reports exhausted storage", "{}", failure_full, ERR_EXHAUSTED,
	  NOTHING, "DPUVolume dpf/pvc-1 failed: Bound=False (Failure: no capacity left)" },
	{ "created larger than limit_bytes", "{\"capacity_range\":{\"limit_bytes\":2147483648}}",
	  too_big, ERR_RANGE, NOTHING,
	  "CapacityRange: DPUVolume dpf/pvc-1 was created with 3.0 GiB (3221225472 bytes), more than "
	  "limit_bytes 2.0 GiB (2147483648 bytes)" },
	{ "an earlier call's object becomes larger than limit_bytes",
	  "{\"capacity_range\":{\"limit_bytes\":2147483648}}", earlier_gets_too_big, ERR_RANGE,
	  NOTHING,
	  "CapacityRange: DPUVolume dpf/pvc-1 was created with 3.0 GiB (3221225472 bytes), more than "
	  "limit_bytes 2.0 GiB (2147483648 bytes)" },
	{ "an earlier call's object became larger than limit_bytes after that call",
	  KUBERNETES(LIMIT), kubernetes_bound_too_big, ERR_RANGE, NOTHING,
	  "CapacityRange: DPUVolume dpf/pvc-1: " TOO_BIG },
	{ "the same, and its size is unknown at first", KUBERNETES(LIMIT),
	  kubernetes_bound_loses_size, ERR_RANGE, NOTHING,
	  "CapacityRange: DPUVolume dpf/pvc-1 was created with 3.0 GiB (3221225472 bytes), more than "
	  "limit_bytes 2.0 GiB (2147483648 bytes)" },
	{ "an earlier call's object became smaller than required_bytes after that call",
	  KUBERNETES("{}"), kubernetes_bound_too_small, ERR_RANGE, NOTHING,
	  "CapacityRange: DPUVolume dpf/pvc-1: its size is 1048576 (requested: at least "
	  "1073741824, limit 0)" },
	{ "larger than limit_bytes, without the driver's label", KUBERNETES(LIMIT),
	  kubernetes_bound_too_big_by_hand, ERR_ABORTED, ANOTHERS, UNKNOWN_OWNER },
	{ "larger than limit_bytes, and attached", KUBERNETES(LIMIT),
	  kubernetes_bound_too_big_in_use, ERR_UNAVAILABLE, ANOTHERS,
	  "CapacityRange: DPUVolume dpf/pvc-1: " TOO_BIG },
	{ "larger than a different limit_bytes",
	  KUBERNETES("{\"required_bytes\":1073741824,\"limit_bytes\":1610612736}"),
	  kubernetes_bound_too_big, ERR_EXISTS, ANOTHERS,
	  "volume already exist but with different parameters: DPUVolume dpf/pvc-1: its size is "
	  "3221225472 (requested: at least 1073741824, limit 1610612736)" },
	{ "not by external-provisioner: the existing volume is larger than limit_bytes",
	  "{\"capacity_range\":" LIMIT "}", earlier_bound_too_big, ERR_ABORTED, ANOTHERS,
	  UNKNOWN_OWNER },
	{ "not by external-provisioner: the size is unknown at first",
	  "{\"capacity_range\":{\"limit_bytes\":2147483648}}", earlier_bound_loses_size,
	  ERR_UNAVAILABLE, BOUND_VOLUME,
	  "CapacityRange: DPUVolume dpf/pvc-1 was created with 3.0 GiB (3221225472 bytes), more than "
	  "limit_bytes 2.0 GiB (2147483648 bytes)" },
	{ "made smaller than required_bytes", "{}", too_small, ERR_RANGE, NOTHING,
	  "CapacityRange: DPUVolume dpf/pvc-1 was created with 1.0 MiB (1048576 bytes), less than "
	  "required_bytes 1.0 GiB (1073741824 bytes)" },
};

static void run(const struct row *r, struct err *err)
{
	struct controller c = { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };
	struct json *request AUTO(json_free) = fake_json(GOOD);
	struct json *patch AUTO(json_free) = fake_json(r->patch);
	int rc;

	locks = keylock_new();
	fake_reset();
	r->world();
	json_merge_patch(request, patch);
	rc = door_call(&c, locks, "CreateVolume", request, NULL, err);
	ck_assert_msg(rc == -1, "%s: succeeded", r->what);
	ck_assert_msg(fake.waits_open == 0, "%s: a wait is left open", r->what);
	if (hold)
		keylock_release(TAKE(hold));
	keylock_free(locks);
}

static void check_left(const struct row *r)
{
	struct fake_object *o = fake_find(V, "pvc-1");
	bool going = o && json_at(o->tree, "metadata.deletionTimestamp");
	bool bound = o && str_eq(json_str(o->tree, "status.phase"), "Bound");

	switch (r->left) {
	case NOTHING:
		ck_assert_msg(!o, "%s: the object is left", r->what);
		break;
	case PENDING_VOLUME:
		ck_assert_msg(o && !going && !bound, "%s: no pending object", r->what);
		break;
	case BOUND_VOLUME:
		ck_assert_msg(o && !going && bound, "%s: no bound object", r->what);
		break;
	case GOING:
		ck_assert_msg(going, "%s: no object being deleted", r->what);
		break;
	case ANOTHERS:
		ck_assert_msg(o && !going, "%s: the object was touched", r->what);
		ck_assert_msg(fake.deletes == 0, "%s: a DELETE was sent", r->what);
		break;
	case UNKNOWN:
		break;
	}
	/* The promise of a final code. */
	if (!code_is_open(r->code))
		ck_assert_msg(r->left == NOTHING || r->left == ANOTHERS, "%s", r->what);
}

/* Replaces the duration of the other call, which depends on the machine, by that of the table. */
static void plain_duration(char *text)
{
	char *n = strstr(text, "has been running for ");
	size_t len;

	if (!n)
		return;
	n += strlen("has been running for ");
	len = strspn(n, "0123456789.");
	ck_assert_uint_ge(len, 3);
	memmove(n + 3, n + len, strlen(n + len) + 1);
	memcpy(n, "0.0", 3);
}

START_TEST(every_error_has_its_code_its_text_and_leaves_what_it_says)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		run(&rows[i], &err);
		ck_assert_msg(err.code == rows[i].code, "%s: %s %s", rows[i].what,
		              err_code_name(err.code), err.msg);
		plain_duration(err.msg);
		ROW_STR_EQ(rows[i].what, err.msg, rows[i].text);
		check_left(&rows[i]);
	}
	fake_reset();
}
END_TEST

START_TEST(what_is_refused_at_the_door_costs_no_request)
{
	for (size_t i = 0; i < ARRAY_LEN(rows) && rows[i].world == empty; i++) {
		struct err err = ERR_INIT;

		run(&rows[i], &err);
		ck_assert_int_eq(fake.creates + fake.gets + fake.lists + fake.deletes, 0);
	}
	fake_reset();
}
END_TEST

/* ---- the document ---- */

static char *table_text(void)
{
	struct str out = STR_INIT(1 << 20);

	str_add(&out, "| what happens | code | text | what is left |\n| --- | --- | --- | --- |\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool final = !code_is_open(rows[i].code);

		str_addf(&out, "| %s | %s%s%s | %s | %s |\n", rows[i].what, final ? "**" : "",
		         err_code_name(rows[i].code), final ? "**" : "", rows[i].text,
		         left_words[rows[i].left]);
	}
	return str_take(&out);
}

START_TEST(the_document_has_this_table)
{
	char *table AUTO(free) = table_text();

	doc_table_check("test/reports/error-paths.md", "CreateVolume", table);
}
END_TEST

SUITE("create_errors", every_error_has_its_code_its_text_and_leaves_what_it_says,
      what_is_refused_at_the_door_costs_no_request, the_document_has_this_table);
