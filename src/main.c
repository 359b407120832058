/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects all modules: flags -> objects -> services -> server -> signals -> teardown. src/program
 * starts the parts that only a node, a gate or the HTTP endpoint needs.
 *
 * The main thread starts all components, sleeps until a signal arrives, and stops the components in
 * reverse order. Another thread receives the signals, and ends the process SIGNALS_END_MS later
 * even if the main thread still waits, because a call that is blocked in the kernel may never end.
 * The process starts without the API server and without the DPU; while one of them is unreachable,
 * the calls that need it return UNAVAILABLE. Exit status: 0 after SIGTERM or SIGINT, 1 if the
 * driver cannot serve (the last log line has the next step) or receives a second signal, 2 if the
 * command line is invalid, 3 if a call was still running SIGNALS_END_MS after the signal. Commands
 * have their own exit status.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/build_info.h"
#include "common/cleanup.h"
#include "common/failing.h"
#include "common/json.h"
#include "common/keylock.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/thread.h"
#include "controller/attachment_index.h"
#include "controller/attachment_lists.h"
#include "controller/controller_csi.h"
#include "controller/event_recorder.h"
#include "controller/expandable.h"
#include "controller/node_cache.h"
#include "controller/startup_taint.h"
#include "host/host.h"
#include "http/http.h"
#include "inspect/inspect.h"
#include "kube/kube.h"
#include "kube/kube_yaml.h"
#include "luks/luks.h"
#include "node/mount/fsprobe.h"
#include "node/mount/mount.h"
#include "node/host/pre_stop.h"
#include "program/program.h"
#include "rpc/identity_csi.h"
#include "rpc/log_level.h"
#include "rpc/rpc_probe.h"
#include "rpc/rpc_server.h"
#include "settings/node_settings.h"
#include "volume/topology.h"

/* How long running calls may continue after a signal; then they are cancelled. */
#define STOP_GRACE_MS 8000
/*
 * mkfs and e2fsck may run until one second before SIGNALS_END_MS; that second is left for the rest
 * of the shutdown.
 */
#define STOP_JOBS_MS (SIGNALS_END_MS - 1000)
/* The last errors are written within moments, unless the disk of --plugin-dir hangs. */
#define STOP_ERRORS_MS 1000
/*
 * How long --probe waits. A healthy driver answers within a millisecond, on a busy node within a
 * second.
 */
#define PROBE_MS 8000

/* Exit status other than EXIT_SUCCESS and EXIT_FAILURE; explained at the top of this file. */
enum { EXIT_USAGE = 2 };

/*
 * Opens descriptors 0, 1 and 2 if they are closed, so that no socket or device gets these numbers.
 */
static void open_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

/*
 * Raises the limit, because containers often start with 1,024, and each connection takes several
 * descriptors.
 */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= LIMIT_DESCRIPTORS)
		return;
	limit.rlim_cur = limit.rlim_max < LIMIT_DESCRIPTORS ? limit.rlim_max : LIMIT_DESCRIPTORS;
	IGNORE_RESULT(setrlimit(RLIMIT_NOFILE, &limit));
}

static int report_bad_flags(const struct flags_report *report)
{
	for (size_t i = 0; i < report->errors.n; i++)
		fprintf(stderr, "invalid configuration: %s\n", report->errors.v[i]);
	fputs("snap-csi-plugin --help lists all commands and flags\n", stderr);
	return report->usage ? EXIT_USAGE : EXIT_FAILURE;
}

static bool expands(void *arg, struct deadline d)
{
	struct program *p = arg;

	return controller_expands(&p->controller, d);
}

static void add_identity(struct program *p)
{
	static const Csi__V1__PluginCapability__Service__Type services[] = {
		CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE,
		CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__VOLUME_ACCESSIBILITY_CONSTRAINTS,
	};

	p->identity = (struct identity) {
		.name = p->flags.name,
		.version = SNAP_CSI_VERSION,
		.services = services,
		.n_services = ARRAY_LEN(services) - !p->flags.topology,
		.expands = p->flags.controller ? expands : NULL,
		.arg = p,
	};
	program_add_service(p, identity_service(&p->identity));
	program_add_service(p, health_service(&p->health));
	program_add_service(p, log_level_service());
}

static int start_startup_taint(struct program *p, struct err *err)
{
	const struct startup_taint_options options = { .kube = p->kube, .driver = p->flags.name };

	return p->flags.startup_taint ? startup_taint_start(&options, &p->startup_taint, err) : 0;
}

/* Reads configuration and credentials; does not contact the API server. */
static int add_controller(struct program *p, struct err *err)
{
	const struct flags *f = &p->flags;
	const struct kube_options options = {
		.kubeconfig = str_empty(f->kubeconfig) ? NULL : f->kubeconfig,
		.user_agent = "snap-csi/" SNAP_CSI_VERSION,
		.qps = f->kube_api_qps,
		.burst = (int)f->kube_api_burst,
	};
	struct event_recorder_options events = { .driver = f->name };

	if (kube_new(&options, &p->kube, err))
		return err_wrap(
			err,
			"credentials for the Kubernetes API (in a pod its ServiceAccount's, elsewhere --kubeconfig)");
	events.kube = p->kube;
	if (event_recorder_start(&events, &p->events, err))
		return -1;
	p->controller_locks = keylock_new();
	p->attachments = attachment_index_new(p->kube, f->namespace_, f->name);
	p->lists = attachment_lists_new();
	p->node_cache = node_cache_new();
	p->controller = (struct controller) {
		.kube = p->kube,
		.attachments = p->attachments,
		.lists = p->lists,
		.node_cache = p->node_cache,
		.events = p->events,
		.namespace = f->namespace_,
		.driver_name = f->name,
		.emulation = settings_emulation(f),
		.topology_key = p->topology_key,
		.wait_timeout_ms = (int)f->wait_timeout_ms,
	};
	program_add_service(p, controller_service(&p->controller, p->controller_locks));
	return start_startup_taint(p, err);
}

/* The driver also works without this file. */
static void keep_errors(const struct program *p)
{
	char *path AUTO(free) = xasprintf("%s/" FAILING_FILE, p->flags.plugin_dir);
	struct err err = ERR_INIT;

	if (failing_start(&(const struct failing_options) { .path = path }, &err))
		log_event(LOG_WARNING, "the last errors of volumes are unknown", "error", err.msg,
		          NULL);
}

static int driver_start(struct program *p, struct err *err)
{
	const struct rpc_server_options options = {
		.path = p->flags.socket_path,
		.socket_mode = p->flags.socket_mode,
		.socket_group = p->flags.socket_gid,
		.own_places = LIMIT_RPC_OWN_PLACES,
		.running = p->running,
	};

	raise_descriptor_limit();
	keep_errors(p);
	if (p->flags.topology)
		p->topology_key = topology_key(p->flags.name);
	add_identity(p);
	if (p->flags.controller && add_controller(p, err))
		return -1;
	if (p->flags.node) {
		if (p->flags.controlled_mode)
			program_add_gate(p);
		program_add_node(p);
		program_check_rights();
		program_check_propagation(p);
		program_recover_records(p);
	}
	if (program_start_web(p, err))
		return -1;
	if (rpc_server_start(&options, p->services, p->n_services, &p->server, err))
		return err_wrap(err, "serve %s", p->flags.socket_path);
	log_event(LOG_INFO, "serving", "version", SNAP_CSI_VERSION, "driver", p->flags.name, "mode",
	          p->flags.mode, "socket", p->flags.socket_path, NULL);
	return p->gate ? program_start_gate(p, err) : program_start_registration(p, err);
}

static void driver_stop(struct program *p)
{
	struct deadline end = deadline_in_ms(STOP_JOBS_MS);

	gatekeeper_stop(p->gate);
	shared_path_stop(&p->control);
	p->registration = registration_stop(p->registration);
	rpc_server_stop(p->server, STOP_GRACE_MS);
	failing_stop(deadline_in_ms(STOP_ERRORS_MS));
	p->web = web_stop(p->web);
	if (p->has_node)
		node_wait_jobs(&p->node, end);
	/* A hung scan of the host still uses the node's objects. */
	p->hangs = p->web || (p->has_node && !program_end_host(p));
	if (p->has_node && !p->hangs) {
		p->volume_metrics = volume_metrics_free(p->volume_metrics);
		node_clear(&p->node);
		p->gate = gatekeeper_free(p->gate);
	}
	startup_taint_stop(p->startup_taint);
	event_recorder_stop(p->events);
	p->kube = kube_free(p->kube);
	p->startup_taint = startup_taint_free(p->startup_taint);
	p->events = event_recorder_free(p->events);
	p->attachments = attachment_index_free(p->attachments);
	p->lists = attachment_lists_free(p->lists);
	p->node_cache = node_cache_free(p->node_cache);
	if (!p->hangs)
		free(TAKE(p->topology_key));
	p->node_locks = keylock_free(p->node_locks);
	p->controller_locks = keylock_free(p->controller_locks);
}

static void run(struct program *p)
{
	if (p->flags.node)
		program_begin_host(p);
	signals_wait(&p->signals);
}

static int driver_serve(struct program *p, const struct strs *warnings)
{
	struct err err = ERR_INIT;
	int rc;

	signals_block(&p->signals);
	p->running = running_new(RUNNING_HUNG_MS);
	rc = log_start(&err);
	for (size_t i = 0; i < warnings->n; i++)
		log_msg(LOG_WARNING, "%s", warnings->v[i]);
	if (!rc)
		rc = signals_start(&p->signals, p->running, &err);
	if (rc) {
		log_event(LOG_ERROR, "cannot start", "error", err.msg, NULL);
		return EXIT_FAILURE;
	}
	rc = driver_start(p, &err);
	if (rc)
		log_event(LOG_ERROR, "cannot serve", "error", err.msg, NULL);
	else
		run(p);
	driver_stop(p);
	signals_end(&p->signals);
	p->running = running_free(p->running);
	if (!rc)
		log_event(LOG_INFO, "stopped", NULL);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* One path per volume is sufficient; kubelet keeps the message in an Event. */
static int pre_stop(const struct flags *flags)
{
	const struct pre_stop_options options = {
		.proc_root = flags->proc_root,
		.kubelet_dir = flags->kubelet_dir,
		.driver = flags->name,
	};
	struct strs left AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	int rc = pre_stop_wait(&options, deadline_in_ms(flags->pre_stop_ms), &left, &err);

	if (rc == 0)
		return EXIT_SUCCESS;
	if (rc == PRE_STOP_BLIND)
		fputs("the processes of pods are not visible, so the wait is skipped: the "
		      "driver's pod needs hostPID\n",
		      stderr);
	else if (rc < 0)
		fprintf(stderr, "%s\n", err.msg);
	else
		fprintf(stderr, "%zu mounts of ended pods still exist, the first is %s\n", left.n,
		        left.v[0]);
	return EXIT_FAILURE;
}

static int driver_probe(const struct flags *flags)
{
	struct err err = ERR_INIT;

	if (flags->question == ASK_REGISTERED
	            ? !rpc_probe_registered(flags->socket_path, PROBE_MS, &err)
	            : !rpc_probe(flags->socket_path, PROBE_MS, &err))
		return EXIT_SUCCESS;
	fprintf(stderr, "%s\n", err.msg);
	return EXIT_FAILURE;
}

/* Prints the version. The first line has the same format in every version. */
static void print_version(void)
{
	struct str curl AUTO(str_clear) = STR_INIT(1000);

	const struct {
		const char *what, *is;
	} rows[] = {
		{ "commit", *build_commit() ? build_commit() : "unknown" },
		{ "build", build_kind() },
		{ "CSI", IDENTITY_CSI_VERSION },
		{ "gRPC core", rpc_server_library() },
		{ "protobuf-c", rpc_server_messages() },
		{ "cJSON", json_library() },
		{ "libyaml", kube_yaml_library() },
		{ "libmount", mount_library() },
		{ "libblkid", fsprobe_library() },
	};

	http_library(&curl);
	puts("snap-csi-plugin " SNAP_CSI_VERSION);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		printf("%-11s %s\n", rows[i].what, rows[i].is);
	printf("%-11s %s\n", "libcurl", curl.ptr);
}

/* ---- commands: the rows of flags.def; argv[1] is the command ---- */

static int command_host(int argc, char *const argv[])
{
	return host_main(argc - 1, argv + 1);
}

static int command_inspect(int argc, char *const argv[])
{
	return inspect_main(argc, argv);
}

/*
 * Without flags on the command line, uses the flags of the running driver, of which only
 * --bind-address matters.
 */
static int log_level_words(struct strs *words, int argc, char *const argv[])
{
	struct err err = ERR_INIT;
	pid_t pid;

	strs_add(words, "snap-csi-plugin");
	if (argc == 3 && inspect_running_driver("/proc", 0, words, &pid, &err)) {
		fputs("log-level: not exactly one driver runs here; name its socket: "
		      "--bind-address=unix:///PATH\n",
		      stderr);
		return -1;
	}
	for (int i = 3; i < argc; i++)
		strs_add(words, argv[i]);
	strs_add(words, "--probe"); /* only the endpoint is checked */
	return 0;
}

static int log_level_send(const struct flags *f, int level)
{
	struct rpc_log_level was;
	struct err err = ERR_INIT;

	if (rpc_set_log_level(f->socket_path, level, PROBE_MS, &was, &err)) {
		fprintf(stderr, "log-level: %s\n", err.msg);
		return EXIT_FAILURE;
	}
	printf("log level %d (before: %d, of --v: %d)\n", level, was.before, was.started_with);
	return EXIT_SUCCESS;
}

static int command_log_level(int argc, char *const argv[])
{
	struct flags_report report = FLAGS_REPORT_INIT;
	struct strs words AUTO(strs_clear) = STRS_INIT;
	struct flags f = { .help = false };
	struct err err = ERR_INIT;
	int status = EXIT_USAGE;
	int64_t level = -1;

	if (argc > 2 && (str_eq(argv[2], "--help") || str_eq(argv[2], "-h"))) {
		flags_print_help(stdout);
		return EXIT_SUCCESS;
	}
	if (argc < 3 || parse_i64("log-level", argv[2], &level, &err) || level < 0 ||
	    level > INT32_MAX) {
		fprintf(stderr,
		        "log-level: \"%s\" is not a verbosity (a number of 0 or more, as of --v); "
		        "write snap-csi-plugin log-level 4\n",
		        argc < 3 ? "" : argv[2]);
		return EXIT_USAGE;
	}
	if (log_level_words(&words, argc, argv))
		return EXIT_FAILURE;
	if (flags_parse(&f, (int)words.n, words.v, getenv, &report))
		status = report_bad_flags(&report);
	else if (!f.socket_path) /* --help, or another flag with which no server runs */
		flags_print_help(stdout);
	else
		status = log_level_send(&f, (int)level);
	flags_report_clear(&report);
	flags_clear(&f);
	return status;
}

static int command_version(int argc, char *const argv[])
{
	(void)argc;
	(void)argv;
	print_version();
	return EXIT_SUCCESS;
}

static int command_help(int argc, char *const argv[]);

static const struct {
	const char *word;
	int (*run)(int argc, char *const argv[]);
} commands[] = {
#define COMMAND(id_, word_, usage_, text_) { (word_), command_##id_ },
#include "flags/flags.def"
};

/* Returns true if argv[1] is a command; *status is its exit status. */
static bool command_run(int argc, char *const argv[], int *status)
{
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(commands); i++)
		if (str_eq(argv[1], commands[i].word)) {
			*status = commands[i].run(argc, argv);
			return true;
		}
	return false;
}

/* Runs "help inspect" as "inspect --help". */
static int command_help(int argc, char *const argv[])
{
	char *const asked[] = { argv[0], argv[2], (char *)(uintptr_t) "--help", NULL };
	int status = EXIT_SUCCESS;

	if (argc > 2 && !str_eq(argv[2], "help") && command_run(3, asked, &status))
		return status;
	flags_print_help(stdout);
	return EXIT_SUCCESS;
}

int main(int argc, char *argv[])
{
	struct program p = { .server = NULL };
	struct flags_report report = FLAGS_REPORT_INIT;
	int status = EXIT_SUCCESS;

	open_standard_files();
	thread_one_heap();
	thread_many_waits();
	rpc_server_sanitize_environment();
	umask(022);
	if (argc > 1 && str_eq(argv[1], "luks")) /* only the driver runs it */
		return luks_main(argc - 1, argv + 1);
	if (command_run(argc, argv, &status))
		return status;
	if (flags_parse(&p.flags, argc, argv, getenv, &report)) {
		status = report_bad_flags(&report);
	} else if (p.flags.help) {
		flags_print_help(stdout);
	} else if (p.flags.version) {
		print_version();
	} else if (p.flags.question == ASK_PRE_STOP) {
		status = pre_stop(&p.flags);
	} else if (p.flags.question) {
		status = driver_probe(&p.flags);
	} else {
		log_setup((int)p.flags.verbosity, str_eq(p.flags.logging_format, "json"));
		status = driver_serve(&p, &report.warnings);
		log_flush();
	}
	flags_report_clear(&report);
	if (!p.hangs)
		flags_clear(&p.flags);
	return status;
}
