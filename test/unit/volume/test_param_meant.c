/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys are treated as misspellings, and which are foreign. */
#include <stdlib.h>

#include "common/cleanup.h"
#include "test/lib/suite.h"
#include "volume/context_keys.h"
#include "volume/param_meant.h"

static const char *const known[] = { PARAM_POLICY,     PARAM_FUNCTION_TYPE, PARAM_FORMAT_POLICY,
	                             PARAM_BLOCK_SIZE, PARAM_INODE_SIZE,    PARAM_FSTYPE };

static const struct {
	const char *what, *key, *meant; /* NULL: foreign, or correct */
} rows[] = {
	{ "right", PARAM_FORMAT_POLICY, NULL },
	{ "right, without a prefix", PARAM_POLICY, NULL },
	{ "another case", "functiontype", PARAM_FUNCTION_TYPE },
	{ "the first letter", "Policy", PARAM_POLICY },
	{ "another case behind the prefix", DRIVER_PREFIX "formatpolicy", PARAM_FORMAT_POLICY },
	{ "no prefix", "formatPolicy", PARAM_FORMAT_POLICY },
	{ "no prefix, and another case", "blocksize", PARAM_BLOCK_SIZE },
	{ "half a prefix", "csi.snap.nvidia/formatPolicy", PARAM_FORMAT_POLICY },
	{ "the vendor's prefix", "nvidia.com/formatPolicy", PARAM_FORMAT_POLICY },
	{ "a slip in the prefix", "csi.snap.nvdia.com/formatPolicy", PARAM_FORMAT_POLICY },
	{ "the prefix in capitals", "CSI.SNAP.NVIDIA.COM/formatPolicy", PARAM_FORMAT_POLICY },
	{ "a prefix where none is", DRIVER_PREFIX "policy", PARAM_POLICY },
	{ "the sidecar's without its prefix", "fsType", PARAM_FSTYPE },
	{ "the sidecar's behind ours", DRIVER_PREFIX "fstype", PARAM_FSTYPE },
	{ "a letter too many", DRIVER_PREFIX "formatPolicys", PARAM_FORMAT_POLICY },
	{ "a letter too many in front", "xpolicy", PARAM_POLICY },
	{ "a letter too few", DRIVER_PREFIX "formatPolcy", PARAM_FORMAT_POLICY },
	{ "the last letter missing", "functionTyp", PARAM_FUNCTION_TYPE },
	{ "another letter", "functionTipe", PARAM_FUNCTION_TYPE },
	{ "two letters that changed places", "functionTyep", PARAM_FUNCTION_TYPE },
	{ "a slip in prefix and name", "csi.snap.nvidia/formatPolcy", PARAM_FORMAT_POLICY },
	{ "two letters", "funktionTipe", NULL },
	{ "two letters too many", "blockSizesX", NULL },
	{ "a vendor's word", "pool", NULL },
	{ "a vendor's word with our word in it", "retentionPolicy", NULL },
	{ "a vendor's own prefix", "storage.example.com/blockSize", NULL },
	{ "the sidecar's own prefix", "csi.storage.k8s.io/pvc/name", NULL },
	{ "a prefix of any length",
	  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	  ".snap/policy",
	  NULL },
	{ "nothing", "", NULL },
	{ "only a prefix", DRIVER_PREFIX, NULL },
};

START_TEST(a_slip_is_told_from_a_key_of_somebody_else)
{
	const char *meant = param_meant(rows[_i].key, known, ARRAY_LEN(known));

	ck_assert_msg(!meant == !rows[_i].meant, "%s: %s", rows[_i].what, meant ? meant : "none");
	if (meant)
		ROW_STR_EQ(rows[_i].what, meant, rows[_i].meant);
}
END_TEST

SUITE("param_meant", LOOP(a_slip_is_told_from_a_key_of_somebody_else, ARRAY_LEN(rows)));
