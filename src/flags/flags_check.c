/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the flags against each other: roles, endpoint, ranges, names.
 *
 * Each error is a line with the flag, its value and the expected value. Nothing is opened or
 * started; only the group database is read.
 */
#include "flags/flags_priv.h"

#include <grp.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/listen_address.h"
#include "common/mem.h"

/* Maximum length of a socket's path: sockaddr_un.sun_path minus its NUL. */
#define SOCKET_PATH_MAX 107
/* CSI limits a driver's name to 63 characters; kubelet refuses a longer one. */
#define DRIVER_NAME_MAX 63
/* The maximum length of <name> in the prefix of a topology key, "topology.<name>". */
#define TOPOLOGY_NAME_MAX 54

/* `words` is the list of accepted values for the error message, separated by ", ". */
static void check_word(const char *flag, const char *text, const char *words, struct strs *errors)
{
	size_t n = strlen(text);

	for (const char *w = words; w; w = strchr(w, ' ') ? strchr(w, ' ') + 1 : NULL)
		if (n && strcspn(w, ",") == n && strncmp(w, text, n) == 0)
			return;
	strs_addf(errors, "--%s: \"%s\" is not one of %s", flag, text, words);
}

static void flags_check_mode(struct flags *f, struct strs *errors)
{
	if (str_empty(f->mode))
		strs_add(errors, "--mode is required: controller, node or all");
	else
		check_word("mode", f->mode, "controller, node, all", errors);
	f->controller = str_eq(f->mode, "controller") || str_eq(f->mode, "all");
	f->node = str_eq(f->mode, "node") || str_eq(f->mode, "all");
}

/*
 * Returns true for an unexpanded $(NODE_NAME). Kubernetes replaces it only if the container has
 * that environment variable, which is often missing in a manifest.
 */
static bool unexpanded(const char *flag, const char *text, struct strs *errors)
{
	if (!str_has_prefix(text, "$(") && !str_has_prefix(text, "${"))
		return false;
	strs_addf(errors,
	          "--%s: \"%s\" was not replaced: the container has no such environment variable",
	          flag, text);
	return true;
}

static void flags_check_names(const struct flags *f, struct strs *errors)
{
	if (str_empty(f->name))
		strs_add(errors, "--name is empty; the default is csi.snap.nvidia.com");
	else if (!dns1123_subdomain(f->name) || strlen(f->name) > DRIVER_NAME_MAX)
		strs_addf(errors,
		          "--name: \"%s\" is not a driver name: at most %d lower-case letters, "
		          "digits, '-' and '.'",
		          f->name, DRIVER_NAME_MAX);
	else if (f->topology && strlen(f->name) > TOPOLOGY_NAME_MAX)
		strs_addf(errors,
		          "--topology: --name=%s is too long for the key of a topology: at most %d "
		          "characters",
		          f->name, TOPOLOGY_NAME_MAX);
	if (f->controller && str_empty(f->namespace_))
		strs_addf(errors, "--namespace is required with --mode=%s", f->mode);
	else if (f->controller && !unexpanded("namespace", f->namespace_, errors) &&
	         (!dns1123_subdomain(f->namespace_) || strchr(f->namespace_, '.') ||
	          strlen(f->namespace_) > 63))
		strs_addf(errors, "--namespace: \"%s\" is not the name of a namespace",
		          f->namespace_);
	if (f->node && str_empty(f->node_id))
		strs_addf(errors,
		          "--node-id is required with --mode=%s: the name of this Kubernetes node",
		          f->mode);
	else if (f->node && !unexpanded("node-id", f->node_id, errors) &&
	         !dns1123_subdomain(f->node_id))
		strs_addf(errors,
		          "--node-id: \"%s\" is not the name of a Kubernetes node: at most 253 "
		          "lower-case letters, digits, '-' and '.'",
		          f->node_id);
}

/*
 * The path of the socket is the URL's host followed by its path, as in the Go plugin:
 * unix://csi/csi.sock is the relative path csi/csi.sock.
 */
int flags_endpoint_path(const char *url, char **ret, struct err *err)
{
	const char *path = NULL;

	if (str_has_prefix(url, "tcp:"))
		return err_set(
			err, ERR_INVALID,
			"\"%s\": tcp is not served, because every host on the network could then "
			"mount and delete volumes; use unix:///csi/csi.sock",
			url);
	if (str_has_prefix(url, "unix://"))
		path = url + strlen("unix://");
	else if (str_has_prefix(url, "unix:/"))
		path = url + strlen("unix:");
	else if (*url == '/')
		return err_set(err, ERR_INVALID, "\"%s\" has no scheme; write unix://%s", url, url);
	else
		return err_set(err, ERR_INVALID,
		               "\"%s\" is not an endpoint like unix:///csi/csi.sock", url);
	if (!*path || str_has_suffix(path, "/"))
		return err_set(err, ERR_INVALID,
		               "\"%s\" names no socket; write unix:///csi/csi.sock", url);
	if (strpbrk(path, "?#%@"))
		return err_set(err, ERR_INVALID,
		               "\"%s\": a socket path must not contain ?, #, %% or @", url);
	if (strlen(path) > SOCKET_PATH_MAX)
		return err_set(err, ERR_INVALID,
		               "\"%s\": the path of a socket has at most %d bytes", url,
		               SOCKET_PATH_MAX);
	*ret = xstrdup(path);
	return 0;
}

static void flags_check_endpoint(struct flags *f, struct strs *errors)
{
	struct err err = ERR_INIT;
	const char *slash;

	if (flags_endpoint_path(f->bind_address, &f->socket_path, &err)) {
		strs_addf(errors, "--bind-address (CSI_ENDPOINT): %s", err.msg);
		return;
	}
	slash = strrchr(f->socket_path, '/');
	if (!slash)
		f->socket_dir = xstrdup(".");
	else if (slash == f->socket_path)
		f->socket_dir = xstrdup("/");
	else
		f->socket_dir = xstrndup(f->socket_path, (size_t)(slash - f->socket_path));
	if (str_empty(f->plugin_dir))
		f->plugin_dir = f->socket_dir;
}

static void flags_check_http(const struct flags *f, struct strs *errors)
{
	struct listen_address ignored;
	struct err err = ERR_INIT;

	if (!str_empty(f->http_endpoint) && listen_address_parse(f->http_endpoint, &ignored, &err))
		strs_addf(errors, "--http-endpoint: %s", err.msg);
}

static void flags_check_group(struct flags *f, struct strs *errors)
{
	struct err err = ERR_INIT;
	uint64_t gid;
	struct group entry, *found = NULL;
	char buf[4096];

	if (str_empty(f->socket_group))
		return;
	if (!parse_u64("--socket-group", f->socket_group, &gid, &err) && gid < UINT32_MAX)
		f->socket_gid = (gid_t)gid;
	else if (!getgrnam_r(f->socket_group, &entry, buf, sizeof(buf), &found) && found)
		f->socket_gid = found->gr_gid;
	else
		strs_addf(errors, "--socket-group: there is no group \"%s\"", f->socket_group);
}

static void flags_check_ranges(const struct flags *f, struct strs *errors)
{
	const struct {
		const char *flag;
		int64_t value, min, max;
	} ranges[] = {
		{ "max-volumes-per-node", f->max_volumes_per_node, 0, INT32_MAX },
		{ "max-concurrent-formats", f->max_concurrent_formats, 1, 64 },
		{ "kube-api-burst", f->kube_api_burst, 1, 1000000 },
		{ "v", f->verbosity, 0, INT32_MAX },
	};
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max)
			strs_addf(errors, "--%s: %lld is not between %lld and %lld", ranges[i].flag,
			          (long long)ranges[i].value, (long long)ranges[i].min,
			          (long long)ranges[i].max);
	if (f->wait_timeout_ms < 1000)
		strs_addf(errors, "--wait-timeout: %lldms is too short (expected at least 1s)",
		          (long long)f->wait_timeout_ms);
	if (f->socket_mode & ~(mode_t)0777)
		strs_addf(errors, "--socket-mode: %04o has more than permission bits",
		          (unsigned)f->socket_mode);
}

static bool pci_id(const char *text)
{
	return strlen(text) == 4 && strspn(text, "0123456789abcdef") == 4;
}

static void flags_check_choices(const struct flags *f, struct strs *errors)
{
	check_word("emulation-mode", f->emulation_mode, "nvme, virtiofs", errors);
	check_word("logging-format", f->logging_format, "text, json", errors);
}

static void flags_check_roots(const struct flags *f, struct strs *errors)
{
	const struct {
		const char *flag, *value;
	} roots[] = {
		{ "plugin-registration-path", f->registration_dir },
		{ "kubelet-dir", f->kubelet_dir },
		{ "sysfs-root", f->sysfs_root },
		{ "dev-root", f->dev_root },
		{ "proc-root", f->proc_root },
	};

	for (size_t i = 0; i < ARRAY_LEN(roots); i++)
		if (*roots[i].value != '/')
			strs_addf(errors, "--%s: \"%s\" is not an absolute path", roots[i].flag,
			          roots[i].value);
	for (size_t i = 0; i < f->volume_dirs.n; i++)
		if (*f->volume_dirs.v[i] != '/')
			strs_addf(errors, "--volume-dir: \"%s\" is not an absolute path",
			          f->volume_dirs.v[i]);
}

static void flags_check_node(const struct flags *f, struct strs *errors)
{
	if (!pci_id(f->snap_device_id))
		strs_addf(
			errors,
			"--node-snap-controller-device-id: \"%s\" is not four lower-case hex digits like 6001",
			f->snap_device_id);
	if (str_empty(f->virtiofs_filesystem_type))
		strs_add(errors,
		         "--node-virtiofs-filesystem-type is empty; the default is virtiofs");
	if (!f->node_pci_vendors.n)
		strs_add(errors, "--node-pci-vendor is empty; the default is 15b3");
	for (size_t i = 0; i < f->node_pci_vendors.n; i++)
		if (!pci_id(f->node_pci_vendors.v[i]))
			strs_addf(
				errors,
				"--node-pci-vendor: \"%s\" is not four lower-case hex digits like 15b3",
				f->node_pci_vendors.v[i]);
	if (*f->registration_path && f->controller && !f->node)
		strs_addf(errors,
		          "--kubelet-registration-path: --mode=%s serves no node to register",
		          f->mode);
	else if (*f->registration_path && *f->registration_path != '/')
		strs_addf(errors, "--kubelet-registration-path: \"%s\" is not an absolute path",
		          f->registration_path);
}

static void flags_check_startup_taint(const struct flags *f, struct strs *errors)
{
	if (f->startup_taint && f->node && !f->controller)
		strs_addf(errors,
		          "--startup-taint: --mode=%s has no access to the Kubernetes API; set it "
		          "for the controller",
		          f->mode);
}

static void flags_check_gate(const struct flags *f, struct strs *errors)
{
	if (!f->controlled_mode)
		return;
	if (f->controller && !f->node)
		strs_addf(errors, "--controlled-mode: --mode=%s serves no node", f->mode);
	if (*f->control_socket != '/')
		strs_addf(errors, "--control-socket: \"%s\" is not an absolute path",
		          f->control_socket);
	else if (strlen(f->control_socket) > SOCKET_PATH_MAX)
		strs_addf(errors, "--control-socket: %s is too long for a socket (%d characters)",
		          f->control_socket, SOCKET_PATH_MAX);
	else if (str_eq(f->control_socket, f->socket_path))
		strs_addf(errors, "--control-socket: %s is already the CSI socket (--bind-address)",
		          f->control_socket);
}

/* Returns false if the value is refused. It is then unknown whether --mode is required. */
static bool flags_check_probe(struct flags *f, struct strs *errors)
{
	struct err ignored = ERR_INIT;
	bool ready = false;

	if (str_eq(f->probe, "registered")) {
		f->question = ASK_REGISTERED;
	} else if (!parse_bool("--probe", f->probe, &ready, &ignored)) {
		f->question = ready ? ASK_READY : ASK_NOTHING;
	} else {
		strs_addf(errors,
		          "--probe: \"%s\" is not a probe; write --probe or --probe=registered",
		          f->probe);
		return false;
	}
	return true;
}

void flags_check(struct flags *f, struct strs *errors)
{
	if (!flags_check_probe(f, errors))
		return;
	if (f->pre_stop_ms > 0) {
		f->question = ASK_PRE_STOP;
		flags_check_roots(f, errors);
		return;
	}
	if (f->question) { /* only the endpoint is used */
		flags_check_endpoint(f, errors);
		return;
	}
	flags_check_mode(f, errors);
	flags_check_names(f, errors);
	flags_check_endpoint(f, errors);
	flags_check_http(f, errors);
	flags_check_group(f, errors);
	flags_check_ranges(f, errors);
	flags_check_choices(f, errors);
	flags_check_node(f, errors);
	flags_check_gate(f, errors);
	flags_check_startup_taint(f, errors);
	flags_check_roots(f, errors);
}
