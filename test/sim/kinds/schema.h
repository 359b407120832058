/* SPDX-License-Identifier: Apache-2.0 */
/* The schemas of DPF's custom resources: what each spec may hold. Tables, constant; any thread. */
#pragma once

#include "common/json.h"
#include "test/sim/kinds/invalid.h"

enum schema_type { T_STRING, T_BOOLEAN, T_STRING_MAP, T_STRING_LIST, T_RESOURCES };

struct schema_field {
	const char *name; /* below spec */
	enum schema_type type;
	bool required;
	unsigned min; /* least number of characters of a string, of items of a list */
	unsigned max; /* greatest number of items of a list; 0: no limit */
	/* The message of the CEL rule that forbids a change; NULL: there is none. */
	const char *immutable;
	/* Instead of `immutable`: the message of the rule that requests.storage may only grow. */
	const char *grows;
	const char *fallback;       /* JSON of the default; NULL: none */
	const char *const *allowed; /* the values that a string, or each item of a list, may have */
};

struct schema {
	const struct schema_field *fields;
	size_t n;
	/* The CEL rules that concern more than one field. */
	void (*rule)(const struct json *spec, struct invalid *ret);
};

/* The CEL rules of a field beside its own, as a CRD has them. */
#define RULE_IMMUTABLE "self == oldSelf"
#define RULE_GROWS \
	"quantity(string(self.requests['storage'])).compareTo(quantity(string(oldSelf.requests['storage']))) >= 0"

/*
 * Before anything is served: whether spec.resources of a DPUVolume may change, which then may only
 * grow. DPF's CRD of today does not let it.
 */
void schema_let_volumes_grow(bool grow);

extern const struct schema schema_volume, schema_attachment, schema_policy, schema_vendor;
