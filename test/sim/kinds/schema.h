/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schemas of DPF's custom resources: the permitted fields of each spec. Tables, constant; any
 * thread.
 */
#pragma once

#include "common/json.h"
#include "test/sim/kinds/invalid.h"

enum schema_type { T_STRING, T_BOOLEAN, T_STRING_MAP, T_STRING_LIST, T_RESOURCES };

struct schema_field {
	const char *name; /* below spec */
	enum schema_type type;
	bool required;
	unsigned min; /* minimum number of characters of a string, of items of a list */
	unsigned max; /* maximum number of items of a list; 0: no limit */
	/*
	 * The message of the CEL rule, at spec, that forbids a change; NULL: changes are permitted.
	 */
	const char *immutable;
	/* Instead of `immutable`: the message of the rule that requests.storage may only grow. */
	const char *grows;
	const char *fallback; /* JSON of the default; NULL: none */
	/* the permitted values of a string, or of each item of a list */
	const char *const *allowed;
};

struct schema {
	const struct schema_field *fields;
	size_t n;
	/* The CEL rules about more than one field. */
	void (*rule)(const struct json *spec, struct invalid *ret);
};

/* The texts of rules and patterns of a CRD other than those of a single field. */
#define RULE_MODES \
	"accessModes must contain only valid PersistentVolumeAccessMode values: ReadWriteOnce, ReadOnlyMany, ReadWriteMany"
#define RULE_STORAGE "resource requirements must contain storage resource"
#define PATTERN_QUANTITY \
	"^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"
#define RULE_GROWS \
	"quantity(string(self.requests['storage'])).compareTo(quantity(string(oldSelf.requests['storage']))) >= 0"

/*
 * Call it before anything is served: whether spec.resources of a DPUVolume may change; it may then
 * only grow. DPF's current CRD does not permit it.
 */
void schema_let_volumes_grow(bool grow);

extern const struct schema schema_volume, schema_attachment, schema_policy, schema_vendor;
