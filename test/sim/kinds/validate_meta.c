/* SPDX-License-Identifier: Apache-2.0 */
/* Names, labels, annotations, finalizers. The texts are those of k8s.io/apimachinery. No state. */
#include "test/sim/kinds/validate_meta.h"

#include <string.h>

#include "common/mem.h"
#include "test/sim/kinds/object.h"
#include "test/sim/kinds/qualified_name.h"

#define ANNOTATIONS_MAX (256 * 1024)

static const char subdomain_rule[] =
	"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
static const char label_rule[] =
	"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
static const char label_value_rule[] =
	"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
static const char label_key_rule[] =
	"a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
static const char qualified_rule[] =
	"name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

static void check_name(const struct api_resource *res, const char *name, struct invalid *ret)
{
	bool is_namespace = res == RES(NAMESPACES);
	size_t max = is_namespace ? 63 : 253;

	if (!*name)
		invalid_add(ret, "FieldValueRequired", "metadata.name",
		            "Required value: name or generateName is required");
	else if (strlen(name) > max)
		invalid_add(ret, "FieldValueInvalid", "metadata.name",
		            "Invalid value: \"%s\": must be no more than %zu characters", name,
		            max);
	else if (!dns1123_subdomain(name) || (is_namespace && strchr(name, '.')))
		invalid_add(ret, "FieldValueInvalid", "metadata.name", "Invalid value: \"%s\": %s",
		            name, is_namespace ? label_rule : subdomain_rule);
}

static void check_labels(const struct json *object, struct invalid *ret)
{
	json_foreach (label, json_at(object, "metadata.labels")) {
		const char *value = json_text(label);

		if (!qualified_name_is_valid(json_name(label)))
			invalid_add(ret, "FieldValueInvalid", "metadata.labels",
			            "Invalid value: \"%s\": %s", json_name(label), label_key_rule);
		if (!value)
			invalid_add(ret, "FieldValueInvalid", "metadata.labels",
			            "Invalid value: \"%s\": must be a string", json_name(label));
		else if (strlen(value) > 63)
			invalid_add(ret, "FieldValueInvalid", "metadata.labels",
			            "Invalid value: \"%s\": must be no more than 63 bytes", value);
		else if (!label_value_is_valid(value))
			invalid_add(ret, "FieldValueInvalid", "metadata.labels",
			            "Invalid value: \"%s\": %s", value, label_value_rule);
	}
}

static void check_annotations(const struct json *object, struct invalid *ret)
{
	size_t total = 0;

	json_foreach (item, json_at(object, "metadata.annotations")) {
		const char *value = json_text(item);

		if (!qualified_name_is_valid(json_name(item)))
			invalid_add(ret, "FieldValueInvalid", "metadata.annotations",
			            "Invalid value: \"%s\": %s", json_name(item), qualified_rule);
		if (!value)
			invalid_add(ret, "FieldValueInvalid", "metadata.annotations",
			            "Invalid value: \"%s\": must be a string", json_name(item));
		total += strlen(json_name(item)) + (value ? strlen(value) : 0);
	}
	if (total > ANNOTATIONS_MAX)
		invalid_add(ret, "FieldValueTooLong", "metadata.annotations",
		            "Too long: may not be more than %d bytes", ANNOTATIONS_MAX);
}

static void check_finalizers(const struct json *object, const struct json *old, struct invalid *ret)
{
	json_foreach (item, json_at(object, "metadata.finalizers")) {
		const char *finalizer = json_text(item);

		if (!finalizer || !qualified_name_is_valid(finalizer))
			invalid_add(ret, "FieldValueInvalid", "metadata.finalizers",
			            "Invalid value: \"%s\": %s", finalizer ? finalizer : "",
			            qualified_rule);
		else if (old && object_is_deleting(old) && !object_has_finalizer(old, finalizer))
			invalid_add(
				ret, "FieldValueForbidden", "metadata.finalizers",
				"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"%s\"}",
				finalizer);
	}
}

void validate_metadata(const struct api_resource *res, const struct json *object,
                       const struct json *old, struct invalid *ret)
{
	if (!old)
		check_name(res, object_name(object), ret);
	check_labels(object, ret);
	check_annotations(object, ret);
	check_finalizers(object, old, ret);
}
