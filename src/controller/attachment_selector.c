/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One selector for many names replaces one request per name. The API server has no index for
 * selectors, so each list searches all attachments, however few are selected.
 */
#include "controller/attachment_selector.h"

#include <assert.h>
#include <string.h>

#include "controller/names.h"
#include "volume/context_keys.h"

/*
 * Maximum size of the names, as encoded in a URL. Proxies in front of API servers accept lines of 8
 * KB. This suffices for 140 names of provisioned volumes.
 */
#define NAMES_MAX 6000
/* A comma in a URL, "%2C". */
#define COMMA_BYTES 3
#define TEXT_MAX (NAMES_MAX + 500)

static const char *const labels[] = {
	[ATTACHMENTS_OF_VOLUME] = LABEL_VOLUME, [ATTACHMENTS_ON_NODE] = LABEL_NODE
};

struct attachment_selector attachment_selector_new(enum attachment_listed which)
{
	struct attachment_selector s = { .which = which, .text = STR_INIT(TEXT_MAX) };

	if (which == ATTACHMENTS_UNLABELLED)
		str_add(&s.text, "!" LABEL_VOLUME);
	else
		str_addf(&s.text, "%s in (", labels[which]);
	return s;
}

void attachment_selector_clear(struct attachment_selector *s)
{
	str_clear(&s->text);
}

bool attachment_selector_add(struct attachment_selector *s, const char *name)
{
	char value[LABEL_VALUE_MAX + 1];
	size_t more;

	if (s->which == ATTACHMENTS_UNLABELLED)
		return true;
	label_value(name, value);
	more = strlen(value) + COMMA_BYTES;
	if (s->name_bytes + more > NAMES_MAX)
		return false;
	str_addf(&s->text, "%s%s", s->name_bytes ? "," : "", value);
	s->name_bytes += more;
	return true;
}

const char *attachment_selector_end(struct attachment_selector *s)
{
	if (s->which != ATTACHMENTS_UNLABELLED)
		str_add(&s->text, s->which == ATTACHMENTS_ON_NODE ? ")," LABEL_VOLUME : ")");
	assert(!s->text.cut);
	return s->text.ptr;
}
