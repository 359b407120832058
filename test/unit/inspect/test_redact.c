/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing that may be a secret is included; everything that a support case needs is. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "inspect/redact.h"

static const struct {
	const char *what, *object, *redacted;
} rows[] = {
	{ "what the driver wrote",
	  "{\"spec\":{\"policy\":\"p\",\"n\":7,\"l\":[1,\"a\",{\"b\":true}]}}",
	  "{\"spec\":{\"policy\":\"p\",\"n\":7,\"l\":[1,\"a\",{\"b\":true}]}}" },
	{ "what kubectl keeps",
	  "{\"metadata\":{\"name\":\"v\",\"managedFields\":[{\"f\":\"S3CRET\"}],\"annotations\":{"
	  "\"kubectl.kubernetes.io/last-applied-configuration\":\"S3CRET\","
	  "\"csi.snap.nvidia.com/name\":\"v\"},\"labels\":{\"team\":\"S3CRET\"}}}",
	  "{\"metadata\":{\"name\":\"v\",\"annotations\":{\"csi.snap.nvidia.com/name\":\"v\"},"
	  "\"labels\":{}}}" },
	{ "parameters", "{\"spec\":{\"parameters\":{\"pool\":\"S3CRET\"}}}",
	  "{\"spec\":{\"parameters\":{\"pool\":\"(removed)\"}}}" },
	{ "parameters that are no map", "{\"parameters\":[\"S3CRET\"]}",
	  "{\"parameters\":\"(removed)\"}" },
	{ "a vendor's metadata", "{\"status\":{\"attachmentMetadata\":{\"chap\":\"S3CRET\"}}}",
	  "{\"status\":{\"attachmentMetadata\":{\"chap\":\"(removed)\"}}}" },
	{ "a Secret", "{\"kind\":\"Secret\",\"data\":{\"key\":\"UzNDUkVU\"}}",
	  "{\"kind\":\"Secret\",\"data\":{\"key\":\"(removed)\"}}" },
	{ "a member named like one",
	  "{\"a\":[{\"userPassword\":\"S3CRET\",\"bearer_Token\":[\"S3CRET\"]}]}",
	  "{\"a\":[{\"userPassword\":\"(removed)\",\"bearer_Token\":\"(removed)\"}]}" },
	{ "an object named like one",
	  "{\"credentials\":{\"user\":\"S3CRET\",\"name\":\"n\",\"chap\":{\"name\":\"S3CRET\"}}}",
	  "{\"credentials\":{\"user\":\"(removed)\",\"name\":\"n\",\"chap\":\"(removed)\"}}" },
	{ "the name of a Secret", "{\"nodeStageSecretRef\":{\"name\":\"s\",\"namespace\":\"n\"}}",
	  "{\"nodeStageSecretRef\":{\"name\":\"s\",\"namespace\":\"n\"}}" },
};

START_TEST(what_may_be_a_secret_stays_here)
{
	struct json *object AUTO(json_free) = NULL, *copy AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;

	ck_assert_msg(!json_parse("row", rows[_i].object, strlen(rows[_i].object), &object, &err),
	              "%s", err.msg);
	copy = redact_object(object);
	text = json_print(copy);
	ROW_STR_EQ(rows[_i].what, text, rows[_i].redacted);
}
END_TEST

SUITE("redact", LOOP(what_may_be_a_secret_stays_here, ARRAY_LEN(rows)));
