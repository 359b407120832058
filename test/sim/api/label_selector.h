/* SPDX-License-Identifier: Apache-2.0 */
/* labelSelector, with the grammar of the API server: "a=b,c!=d,e,!f,g in (h,i),j notin (k),l>5". */
#pragma once

#include "common/err.h"
#include "common/str.h"

enum label_operator {
	LABEL_EXISTS,
	LABEL_ABSENT,
	LABEL_IN,     /* also = and == */
	LABEL_NOT_IN, /* notin and !=; true if the label is absent */
	LABEL_ABOVE,
	LABEL_BELOW,
};

struct label_requirement {
	char *key;
	enum label_operator op;
	struct strs values;
};

struct label_selector {
	struct label_requirement *v;
	size_t n; /* 0: selects everything */
};

/* INVALID_ARGUMENT names the found and the expected token. */
int label_selector_parse(const char *text, struct label_selector *ret, struct err *err) MUST_CHECK;
void label_selector_clear(struct label_selector *s);
/* labels: "key=value" each. */
bool label_selector_matches(const struct label_selector *s, const struct strs *labels);
