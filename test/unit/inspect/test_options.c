/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of inspect, and the flags of the running driver. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "inspect/inspect.h"

#define WORDS_MAX 8

static char root[64];

static void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/test_options.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static void end(void)
{
	char *command AUTO(free) = xasprintf("rm -rf '%s'", root);

	ck_assert_int_eq(system(command), 0);
}

static void add_users(const char *pid, const char *format, unsigned user)
{
	char *path AUTO(free) = xasprintf("%s/%s/status", root, pid);
	struct str text AUTO(str_clear) = STR_INIT(200);
	struct err err = ERR_INIT;

	str_addf(&text, "Name:\tsnap-csi-plugin\nUid:\t");
	for (; *format; format++)
		str_addf(&text, "%u\t", *format == 'u' ? user : 0);
	str_add(&text, "\nGid:\t0\n");
	ck_assert_int_eq(file_replace(path, text.ptr, text.len, 0644, &err), 0);
}

/* A process of this user with this command line, whose words are separated by '|'. */
static void add_process(const char *pid, const char *line)
{
	char *dir AUTO(free) = xasprintf("%s/%s", root, pid);
	char *path AUTO(free) = xasprintf("%s/cmdline", dir);
	char *bytes AUTO(free) = xstrdup(line);
	struct err err = ERR_INIT;
	size_t n = strlen(line);

	for (char *p = bytes; *p; p++)
		if (*p == '|')
			*p = '\0';
	ck_assert_int_eq(dir_make(dir, 0755, &err), 0);
	ck_assert_int_eq(file_replace(path, bytes, n + 1, 0644, &err), 0);
	add_users(pid, "uuuu", geteuid());
}

/* Reads "inspect" and these words, which spaces separate, as on a host with those processes. */
static int read_words(const char *words, struct inspect_options *o, struct strs *errors)
{
	static char copy[500], proc[100];
	char *argv[WORDS_MAX + 4] = { (char *)"snap-csi-plugin", (char *)"inspect", proc };
	int argc = 3;
	char *save = NULL;

	snprintf(proc, sizeof(proc), "--proc-root=%s", root);
	snprintf(copy, sizeof(copy), "%s", words);
	for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save))
		argv[argc++] = p;
	return inspect_options_read(o, argc, argv, errors);
}

START_TEST(the_running_drivers_flags_apply_and_own_ones_go_before_them)
{
	static const char driver[] =
		"/usr/local/bin/snap-csi-plugin|--mode=node|--node-id=worker-7|"
		"--kubelet-dir=/k|--plugin-dir=/p";
	static const struct {
		const char *what, *pid, *words;
		const char *node_id, *kubelet_dir;
		pid_t driver_pid;
	} rows[] = {
		{ "the first process", "1", "", "worker-7", "/k", 1 },
		{ "the only driver of a host", "4711", "", "worker-7", "/k", 4711 },
		{ "chosen", "4711", "--pid 4711", "worker-7", "/k", 4711 },
		{ "one flag is another", "1", "--kubelet-dir=/own", "worker-7", "/own", 1 },
		{ "its value stands apart", "1", "--kubelet-dir /own volume x", "worker-7", "/own",
		  1 },
		{ "no driver is used", "1", "--mode=node --node-id=n2", "n2", "/var/lib/kubelet",
		  0 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs errors AUTO(strs_clear) = STRS_INIT;
		struct inspect_options o;

		begin();
		add_process(rows[i].pid, driver);
		add_process("99", "/usr/local/bin/snap-csi-plugin|inspect");
		add_process("96", "/usr/local/bin/snap-csi-plugin|host|status");
		add_process("98", "snap-csi-plugin|--probe|--bind-address=unix:///x");
		add_process("97", "/usr/bin/dd|if=snap-csi-plugin");
		ck_assert_msg(read_words(rows[i].words, &o, &errors) == 0, "%s: %s", rows[i].what,
		              errors.n ? errors.v[0] : "");
		ROW_STR_EQ(rows[i].what, o.flags.node_id, rows[i].node_id);
		ROW_STR_EQ(rows[i].what, o.flags.kubelet_dir, rows[i].kubelet_dir);
		ck_assert_int_eq(o.driver_pid, rows[i].driver_pid);
		inspect_options_clear(&o);
		end();
	}
}
END_TEST

/*
 * Reading the command line of a process accesses its memory, which may block if a page is on a hung
 * mount; reading its name does not.
 */
START_TEST(the_command_line_of_another_program_is_not_read)
{
	struct strs errors AUTO(strs_clear) = STRS_INIT;
	char *comm AUTO(free) = NULL, *line AUTO(free) = NULL;
	struct inspect_options o;
	struct err err = ERR_INIT;

	begin();
	add_process("4711", "snap-csi-plugin|--mode=node|--node-id=worker-7");
	add_process("99", "");
	line = xasprintf("%s/99/cmdline", root);
	comm = xasprintf("%s/99/comm", root);
	ck_assert_int_eq(unlink(line), 0);
	ck_assert_int_eq(mkfifo(line, 0600), 0);
	ck_assert_int_eq(file_replace(comm, "dd\n", 3, 0644, &err), 0);
	alarm(5);
	ck_assert_int_eq(read_words("", &o, &errors), 0);
	alarm(0);
	ck_assert_int_eq(o.driver_pid, 4711);
	inspect_options_clear(&o);
	end();
}
END_TEST

/*
 * Any user may start a program of this name: its flags would choose the servers and files that
 * root's inspect reads. The real user counts: the others are those of a setuid program.
 */
START_TEST(the_flags_of_another_users_process_are_not_taken)
{
	static const struct {
		const char *what, *users; /* real, effective, saved, of files; NULL: not known */
		bool is_taken;
	} rows[] = {
		{ "another user", "uuuu", false },
		{ "another user's setuid program", "u000", false },
		{ "not known whose", NULL, false },
		{ "root", "0000", true },
		{ "root that gave rights up", "0uu0", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs errors AUTO(strs_clear) = STRS_INIT;
		char *status AUTO(free) = NULL;
		struct inspect_options o;

		begin();
		status = xasprintf("%s/4711/status", root);
		add_process("4711",
		            "snap-csi-plugin|--mode=node|--node-id=evil|--kubeconfig=/evil");
		add_users("4711", rows[i].users ? rows[i].users : "", geteuid() + 1);
		if (!rows[i].users)
			ck_assert_int_eq(unlink(status), 0);
		ck_assert_int_eq(read_words("", &o, &errors), 0);
		ck_assert_msg(o.driver_pid == (rows[i].is_taken ? 4711 : 0), "%s", rows[i].what);
		ck_assert_msg(str_eq(o.flags.node_id, "evil") == rows[i].is_taken, "%s",
		              rows[i].what);
		inspect_options_clear(&o);
		end();
	}
}
END_TEST

static void add_mounts(const char *pid, const char *name)
{
	char *dir AUTO(free) = xasprintf("%s/%s/ns", root, pid);
	char *link AUTO(free) = xasprintf("%s/mnt", dir);
	struct err err = ERR_INIT;

	ck_assert_int_eq(dir_make(dir, 0755, &err), 0);
	ck_assert_int_eq(symlink(name, link), 0);
}

START_TEST(of_several_drivers_the_one_in_the_same_container_is_meant)
{
	struct strs errors AUTO(strs_clear) = STRS_INIT;
	struct inspect_options o;

	begin();
	add_process("1", "/sbin/init");
	add_process("200", "snap-csi-plugin|--mode=controller|--namespace=n");
	add_process("300", "snap-csi-plugin|--mode=node|--node-id=here");
	add_mounts("200", "mnt:[2]");
	add_mounts("300", "mnt:[3]");
	add_mounts("self", "mnt:[3]");
	ck_assert_int_eq(read_words("", &o, &errors), 0);
	ck_assert_int_eq(o.driver_pid, 300);
	ck_assert_str_eq(o.flags.node_id, "here");
	inspect_options_clear(&o);
	end();
}
END_TEST

START_TEST(what_is_asked_is_understood)
{
	static const struct {
		const char *words, *volume, *bundle;
		bool node_only, json, help;
		size_t reports;
	} rows[] = {
		{ "", NULL, NULL, false, false, false, 0 },
		{ "node", NULL, NULL, true, false, false, 0 },
		{ "node n1", NULL, NULL, false, false, false, 0 },
		{ "claim team-a/data-0 -o json", NULL, NULL, false, true, false, 0 },
		{ "pod team-a/db-0", NULL, NULL, false, false, false, 0 },
		{ "volume pvc-1", "pvc-1", NULL, false, false, false, 0 },
		{ "volume pvc-1 -o json", "pvc-1", NULL, false, true, false, 0 },
		{ "-o=json node", NULL, NULL, true, true, false, 0 },
		{ "--output=table", NULL, NULL, false, false, false, 0 },
		{ "--help", NULL, NULL, false, false, true, 0 },
		{ "-h", NULL, NULL, false, false, true, 0 },
		{ "--bundle x.tar", NULL, "x.tar", false, false, false, 0 },
		{ "--node-report=a --node-report b", NULL, NULL, false, false, false, 2 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs errors AUTO(strs_clear) = STRS_INIT;
		struct inspect_options o;

		begin();
		ck_assert_msg(read_words(rows[i].words, &o, &errors) == 0, "%s: %s", rows[i].words,
		              errors.n ? errors.v[0] : "");
		ROW_STR_EQ(rows[i].words, o.volume_id ? o.volume_id : "",
		           rows[i].volume ? rows[i].volume : "");
		ROW_STR_EQ(rows[i].words, o.bundle ? o.bundle : "",
		           rows[i].bundle ? rows[i].bundle : "");
		ck_assert_msg(o.node_only == rows[i].node_only && o.json == rows[i].json &&
		                      o.help == rows[i].help && o.node_reports.n == rows[i].reports,
		              "%s", rows[i].words);
		inspect_options_clear(&o);
		end();
	}
}
END_TEST

START_TEST(what_is_not_understood_is_said)
{
	static const struct {
		const char *words, *says;
	} rows[] = {
		{ "nodes", "unexpected argument \"nodes\"" },
		{ "pvc-1", "expected one of: volume ID, claim NAMESPACE/NAME, pod" },
		{ "volume", "inspect volume: its id is missing" },
		{ "claim", "inspect claim: NAMESPACE/NAME is missing" },
		{ "claim data-0", "inspect claim: \"data-0\" is not NAMESPACE/NAME" },
		{ "pod /db-0", "inspect pod: \"/db-0\" is not NAMESPACE/NAME" },
		{ "pod a/b/c", "inspect pod: \"a/b/c\" is not NAMESPACE/NAME" },
		{ "claim a/b pod a/b", "unexpected argument \"pod\"" },
		{ "volume x node", "unexpected argument \"node\"" },
		{ "-o yaml", "-o: \"yaml\" is neither json nor table" },
		{ "-o", "-o needs a value" },
		{ "--pid x", "--pid: \"x\" is not a process id" },
		{ "--pid 77", "process 77 is not a serving snap-csi-plugin" },
		{ "--no-such-flag", "unknown flag --no-such-flag" },
		{ "", "several drivers run here, among them process 5 and process 6" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs errors AUTO(strs_clear) = STRS_INIT;
		struct inspect_options o;

		begin();
		if (!*rows[i].words) {
			add_process("5", "snap-csi-plugin|--mode=node|--node-id=a");
			add_process("6", "snap-csi-plugin|--mode=node|--node-id=b");
		}
		ck_assert_msg(read_words(rows[i].words, &o, &errors) == -1, "%s", rows[i].words);
		ck_assert_msg(strstr(errors.v[0], rows[i].says) != NULL, "%s: %s", rows[i].words,
		              errors.v[0]);
		inspect_options_clear(&o);
		end();
	}
}
END_TEST

SUITE("options", the_command_line_of_another_program_is_not_read,
      the_flags_of_another_users_process_are_not_taken,
      the_running_drivers_flags_apply_and_own_ones_go_before_them,
      of_several_drivers_the_one_in_the_same_container_is_meant, what_is_asked_is_understood,
      what_is_not_understood_is_said);
