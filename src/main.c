/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file that knows all rooms: flags -> objects -> services -> server -> signals ->
 * teardown.
 *
 * The main thread starts everything, sleeps until a signal and takes everything down in reverse. A
 * thread takes the signals, and ends the process STOP_END_MS later whatever the main thread waits
 * for: a call that the kernel holds has no end of its own.
 * The process starts without the API server and without the DPU: while one is away, the calls that
 * need it answer UNAVAILABLE. Exit status: 0 after SIGTERM or SIGINT, 1 when the driver cannot
 * serve (the last log line says what to do) or gets a second signal, 2 when the command line cannot
 * be read, 3 when a call still ran STOP_END_MS after the signal.
 */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "flags/flags.h"
#include "common/keylock.h"
#include "common/limits.h"
#include "kube/kube.h"
#include "common/log.h"
#include "common/running.h"
#include "common/thread.h"
#include "rpc/health.h"
#include "rpc/identity_csi.h"
#include "rpc/registration.h"
#include "rpc/rpc_probe.h"
#include "rpc/rpc_server.h"
#include "controller/attachment_index.h"
#include "controller/controller_csi.h"
#include "controller/known_nodes.h"
#include "node/node_csi.h"
#include "node/prepare.h"
#include "node/propagation.h"
#include "node/recover.h"

/*
 * How long running calls may go on after a signal; they are cancelled then. At STOP_END_MS the
 * process ends with whatever still runs: Kubernetes gives the pod 30 s, and then says nothing.
 */
#define STOP_GRACE_MS 8000
#define STOP_END_MS 25000
/* mkfs and e2fsck have until then to end: a second before, for the rest of the way down. */
#define STOP_JOBS_MS 24000
#define STOP_NAMED 16 /* calls that are named then */
/* How long --probe waits: a healthy driver answers in a millisecond, on a busy node in a second. */
#define PROBE_MS 8000
#define N_SERVICES_MAX 4

/* Exit status beside EXIT_SUCCESS and EXIT_FAILURE; the head of this file says when. */
enum { EXIT_USAGE = 2, EXIT_HUNG = 3 };

/* What the main thread and the one that takes signals tell each other. */
struct signals {
	sigset_t set;
	pthread_t thread;
	struct running *running; /* borrowed: what to name at the end */
	pthread_mutex_t lock;    /* guards what is below */
	pthread_cond_t changed;
	int64_t end_at; /* when the process ends at the latest; 0: no signal has come */
	bool stopped;   /* everything is taken down */
};

/* Everything that runs: made in the order of the fields, taken down in reverse. */
struct program {
	struct flags flags;
	struct running *running;
	struct signals signals;
	struct identity identity;
	struct health health;
	struct kube *kube;
	struct controller controller;
	struct attachment_index *attachments;
	struct known_nodes *known_nodes;
	struct keylock *controller_locks;
	struct node node;
	bool has_node;
	struct keylock *node_locks;
	struct rpc_service services[N_SERVICES_MAX];
	size_t n_services;
	struct rpc_server *server;
	struct registration *registration;
};

/* Opens descriptors 0, 1, 2 if they are closed: no socket or device may get such a number. */
static void open_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

/* Containers often start with 1,024, and each connection takes some. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= LIMIT_DESCRIPTORS)
		return;
	limit.rlim_cur = limit.rlim_max < LIMIT_DESCRIPTORS ? limit.rlim_max : LIMIT_DESCRIPTORS;
	IGNORE_RESULT(setrlimit(RLIMIT_NOFILE, &limit));
}

/* Before the first thread starts: every thread inherits the mask, only sigwait() takes signals. */
static void block_signals(struct signals *s)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&s->set);
	sigaddset(&s->set, SIGTERM);
	sigaddset(&s->set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &s->set, NULL);
}

static void exit_at_once(int number)
{
	static const char text[] = "second signal: exiting at once, running calls are cut\n";

	(void)number;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(EXIT_FAILURE);
	_exit(EXIT_FAILURE);
}

/* False: the main thread has taken everything down, and this signal is only its way to say so. */
static bool tell_main(struct signals *s)
{
	WITH_LOCK(&s->lock);
	s->end_at = deadline_in_ms(STOP_END_MS).at;
	pthread_cond_broadcast(&s->changed);
	return !s->stopped;
}

/* False: everything was taken down before the end came. */
static bool wait_for_end(struct signals *s)
{
	struct timespec until;
	int rc = 0;

	WITH_LOCK(&s->lock);
	until = deadline_timespec((struct deadline) { .at = s->end_at });
	while (!s->stopped && rc == 0)
		rc = pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &until);
	return !s->stopped;
}

static void name_what_runs(struct running *running)
{
	struct running_seen seen[STOP_NAMED];
	size_t n = running_list(running, false, seen, STOP_NAMED);

	for (size_t i = 0; i < n && i < STOP_NAMED; i++) {
		char seconds[32], thread[32];

		snprintf(seconds, sizeof(seconds), "%.1f", seen[i].seconds);
		snprintf(thread, sizeof(thread), "%d", seen[i].thread);
		log_event(LOG_WARNING, "cut at the end of the process", "method", seen[i].method,
		          "volume", *seen[i].subject ? seen[i].subject : NULL, "seconds", seconds,
		          "thread", thread, NULL);
	}
	log_msg(LOG_ERROR,
	        "not stopped %d s after the signal, %zu calls still run (dmesg of the node says what the kernel waits for): ending with status %d",
	        STOP_END_MS / 1000, n, EXIT_HUNG);
}

static void *take_signals(void *arg)
{
	struct sigaction second = { .sa_handler = exit_at_once };
	struct signals *s = arg;
	int number = 0;

	pthread_setname_np(pthread_self(), "signals");
	while (sigwait(&s->set, &number))
		;
	if (!tell_main(s))
		return NULL;
	sigaction(SIGTERM, &second, NULL);
	sigaction(SIGINT, &second, NULL);
	pthread_sigmask(SIG_UNBLOCK, &s->set, NULL);
	log_event(LOG_INFO, "stopping", "signal", number == SIGTERM ? "SIGTERM" : "SIGINT", NULL);
	if (!wait_for_end(s))
		return NULL;
	name_what_runs(s->running);
	_exit(EXIT_HUNG);
}

static int start_signals(struct signals *s, struct running *running, struct err *err)
{
	int rc;

	s->running = running;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	rc = pthread_create(&s->thread, NULL, take_signals, s);
	return rc ? err_sys(err, rc, "start the thread that takes signals") : 0;
}

static void wait_for_signal(struct signals *s)
{
	WITH_LOCK(&s->lock);
	while (!s->end_at)
		pthread_cond_wait(&s->changed, &s->lock);
}

/* After everything was taken down. */
static void end_signals(struct signals *s)
{
	bool came;

	{
		WITH_LOCK(&s->lock);
		s->stopped = true;
		came = s->end_at;
		pthread_cond_broadcast(&s->changed);
	}
	if (!came)
		pthread_kill(s->thread, SIGTERM);
	pthread_join(s->thread, NULL);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
}

static int report_bad_flags(const struct flags_report *report)
{
	for (size_t i = 0; i < report->errors.n; i++)
		fprintf(stderr, "invalid configuration: %s\n", report->errors.v[i]);
	fputs("snap-csi-plugin --help lists all flags\n", stderr);
	return report->usage ? EXIT_USAGE : EXIT_FAILURE;
}

static void add_service(struct program *p, struct rpc_service service)
{
	assert(p->n_services < N_SERVICES_MAX);
	p->services[p->n_services++] = service;
}

static void add_identity(struct program *p)
{
	static const Csi__V1__PluginCapability__Service__Type controller[] = {
		CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE,
	};

	p->identity = (struct identity) {
		.name = p->flags.name,
		.version = SNAP_CSI_VERSION,
		.services = controller,
		.n_services = ARRAY_LEN(controller),
	};
	add_service(p, identity_service(&p->identity));
	add_service(p, health_service(&p->health));
}

static enum emulation emulation_of(const struct flags *f)
{
	return str_eq(f->emulation_mode, "virtiofs") ? EMULATION_VIRTIOFS : EMULATION_NVME;
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

	if (kube_new(&options, &p->kube, err))
		return err_wrap(
			err,
			"credentials for the Kubernetes API (in a pod its ServiceAccount's, elsewhere --kubeconfig)");
	p->controller_locks = keylock_new();
	p->attachments = attachment_index_new(p->kube, f->namespace_, f->name);
	p->known_nodes = known_nodes_new();
	p->controller = (struct controller) {
		.kube = p->kube,
		.attachments = p->attachments,
		.known_nodes = p->known_nodes,
		.namespace = f->namespace_,
		.driver_name = f->name,
		.emulation = emulation_of(f),
		.wait_timeout_ms = (int)f->wait_timeout_ms,
	};
	add_service(p, controller_service(&p->controller, p->controller_locks));
	return 0;
}

static void add_node(struct program *p)
{
	const struct flags *f = &p->flags;
	const struct node_options options = {
		.id = f->node_id,
		.world = {
			.sysfs = f->sysfs_root,
			.dev = f->dev_root,
			.vendors = &f->node_pci_vendors,
			.snap_device_id = f->snap_device_id,
		},
		.proc_root = f->proc_root,
		.plugin_dir = f->plugin_dir,
		.kubelet_dir = f->kubelet_dir,
		.volume_dirs = &f->volume_dirs,
		.own_mounts = propagation_matters(f->proc_root),
		.max_volumes = f->max_volumes_per_node,
		.emulation = emulation_of(f),
		.max_formats = (unsigned)f->max_concurrent_formats,
		/* With the sysfs tree of a test, the kernel's modules are not those of the tree. */
		.load_driver = f->nvme_load_driver && str_eq(f->sysfs_root, "/sys"),
		.create_vfs = f->nvme_create_vfs,
		.running = p->running,
	};

	node_init(&p->node, &options);
	p->has_node = true;
	p->node_locks = keylock_new();
	add_service(p, node_service(&p->node, p->node_locks));
}

/*
 * A mount that does not propagate is a mistake in the manifest: it is logged once here, and each
 * call that needs it is refused.
 */
static void check_propagation(const struct program *p)
{
	struct strs errors AUTO(strs_clear) = STRS_INIT;
	struct strs warnings AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	if (propagation_look(&p->node.o, &errors, &warnings, &err))
		log_event(LOG_WARNING, "cannot tell whether pods will see volumes", "error",
		          err.msg, NULL);
	for (size_t i = 0; i < errors.n; i++)
		log_event(LOG_ERROR, "volumes will be refused", "error", errors.v[i], NULL);
	for (size_t i = 0; i < warnings.n; i++)
		log_event(LOG_WARNING, "mounts are not shared", "warning", warnings.v[i], NULL);
}

/* Before calls are served: they must not meet what an earlier start has left half done. */
static void recover_node(const struct program *p)
{
	struct str did AUTO(str_clear) = STR_INIT(2000);
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	if (node_recover(&p->node, &did, &unfinished, &err))
		log_event(LOG_WARNING, "what an earlier start has left cannot be tidied up",
		          "error", err.msg, NULL);
	if (did.len)
		log_event(LOG_INFO, "tidied up after an earlier start", "removed", did.ptr, NULL);
	for (size_t i = 0; i < unfinished.n; i++)
		log_event(LOG_WARNING,
		          "an earlier start was ended during its work; the volume's next stage on "
		          "this node repeats it",
		          "work", unfinished.v[i], NULL);
}

/* While calls are served already: at the first start after a boot it takes seconds. */
static void prepare_node(struct program *p)
{
	struct str did AUTO(str_clear) = STR_INIT(2000);
	struct err err = ERR_INIT;

	if (node_prepare(&p->node, &did, &err))
		log_event(LOG_WARNING, "this host is not ready for new volumes", "error", err.msg,
		          NULL);
	if (did.len)
		log_event(LOG_INFO, "prepared this host", "did", did.ptr, NULL);
}

/* The last step: as soon as kubelet finds this socket, it calls the driver's own. */
static int start_registration(struct program *p, struct err *err)
{
	const struct registration_options options = {
		.dir = p->flags.registration_dir,
		.driver = p->flags.name,
		.endpoint = p->flags.registration_path,
		.registered = health_registered,
		.arg = &p->health,
	};

	if (str_empty(p->flags.registration_path))
		return 0;
	return registration_start(&options, &p->registration, err);
}

static int start(struct program *p, struct err *err)
{
	const struct rpc_server_options options = {
		.path = p->flags.socket_path,
		.socket_mode = p->flags.socket_mode,
		.socket_group = p->flags.socket_gid,
		.own_places = LIMIT_RPC_OWN_PLACES,
		.running = p->running,
	};

	raise_descriptor_limit();
	add_identity(p);
	if (p->flags.controller && add_controller(p, err))
		return -1;
	if (p->flags.node) {
		add_node(p);
		check_propagation(p);
		recover_node(p);
	}
	if (rpc_server_start(&options, p->services, p->n_services, &p->server, err))
		return err_wrap(err, "serve %s", p->flags.socket_path);
	log_event(LOG_INFO, "serving", "version", SNAP_CSI_VERSION, "driver", p->flags.name, "mode",
	          p->flags.mode, "socket", p->flags.socket_path, NULL);
	return start_registration(p, err);
}

static void stop(struct program *p)
{
	struct deadline end = deadline_in_ms(STOP_JOBS_MS);

	p->registration = registration_stop(p->registration);
	rpc_server_stop(p->server, STOP_GRACE_MS);
	if (p->has_node) {
		node_wait_jobs(&p->node, end);
		node_clear(&p->node);
	}
	p->kube = kube_free(p->kube);
	p->attachments = attachment_index_free(p->attachments);
	p->known_nodes = known_nodes_free(p->known_nodes);
	p->node_locks = keylock_free(p->node_locks);
	p->controller_locks = keylock_free(p->controller_locks);
}

static void run(struct program *p)
{
	if (p->flags.node)
		prepare_node(p);
	wait_for_signal(&p->signals);
}

static int serve(struct program *p)
{
	struct err err = ERR_INIT;
	int rc;

	block_signals(&p->signals);
	p->running = running_new(RUNNING_HUNG_MS);
	rc = start_signals(&p->signals, p->running, &err);
	if (rc) {
		log_event(LOG_ERROR, "cannot start", "error", err.msg, NULL);
		return EXIT_FAILURE;
	}
	rc = start(p, &err);
	if (rc)
		log_event(LOG_ERROR, "cannot serve", "error", err.msg, NULL);
	else
		run(p);
	stop(p);
	end_signals(&p->signals);
	p->running = running_free(p->running);
	if (!rc)
		log_event(LOG_INFO, "stopped", NULL);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int probe(const struct flags *flags)
{
	struct err err = ERR_INIT;

	if (flags->question == ASK_REGISTERED
	            ? !rpc_probe_registered(flags->socket_path, PROBE_MS, &err)
	            : !rpc_probe(flags->socket_path, PROBE_MS, &err))
		return EXIT_SUCCESS;
	fprintf(stderr, "%s\n", err.msg);
	return EXIT_FAILURE;
}

int main(int argc, char *argv[])
{
	struct program p = { .server = NULL };
	struct flags_report report = FLAGS_REPORT_INIT;
	int status = EXIT_SUCCESS;

	open_standard_files();
	thread_one_heap();
	rpc_server_sanitize_environment();
	umask(022);
	if (flags_parse(&p.flags, argc, argv, getenv, &report)) {
		status = report_bad_flags(&report);
	} else if (p.flags.help) {
		flags_print_help(stdout);
	} else if (p.flags.version) {
		puts("snap-csi-plugin " SNAP_CSI_VERSION);
	} else if (p.flags.question) {
		status = probe(&p.flags);
	} else {
		log_setup((int)p.flags.verbosity, str_eq(p.flags.logging_format, "json"));
		for (size_t i = 0; i < report.warnings.n; i++)
			log_msg(LOG_WARNING, "%s", report.warnings.v[i]);
		status = serve(&p);
	}
	flags_report_clear(&report);
	flags_clear(&p.flags);
	return status;
}
