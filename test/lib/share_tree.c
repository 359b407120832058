/* SPDX-License-Identifier: Apache-2.0 */
/* See share_tree.h. */
#include "test/lib/share_tree.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "test/lib/dpu_switch.h"

static char *vendor_list[] = { (char *)"15b3", NULL };
static const struct strs vendors = { vendor_list, 1 };

void share_tree_clear(struct share_tree *s)
{
	char *config AUTO(free) = tree_path(&s->tree, DEVICES OWN_SHARE "/config");
	char *override AUTO(free) = tree_read(&s->tree, DEVICES OWN_SHARE "/driver_override");
	char *writes AUTO(free) = kernel_writes(&s->kernel);
	char *bytes AUTO(free) = NULL;
	struct err err = ERR_INIT;

	/* In every test: no foreign function was touched. */
	ck_assert(!file_read(config, 4096, &bytes, NULL, &err));
	ck_assert_int_eq(bytes[0xc8 + 12], 0);
	ck_assert_str_eq(override, "virtio-pci");
	ck_assert(!strstr(writes, OWN_SHARE) && !strstr(writes, OWN_NET) &&
	          !strstr(writes, STATIC_NVME) && !strstr(writes, PLUGGED_NVME));
	kernel_clear(&s->kernel);
	tree_clear(&s->tree);
	str_clear(&s->why);
	free(s->proc);
}

void share_attr(struct share_tree *s, const char *pci, const char *name, const char *text)
{
	char *path AUTO(free) = xasprintf(DEVICES "%s/%s", pci, name);

	tree_write(&s->tree, path, text);
}

void share_add_function(struct share_tree *s, const char *pci, const char *vendor,
                        const char *device, const char *class_code)
{
	share_attr(s, pci, "class", class_code);
	share_attr(s, pci, "vendor", vendor);
	share_attr(s, pci, "device", device);
	share_attr(s, pci, "driver_override", "(null)\n");
}

void share_bind_to(struct share_tree *s, const char *pci, const char *driver)
{
	char *link AUTO(free) = xasprintf(DEVICES "%s/driver", pci);
	char *target AUTO(free) = xasprintf("../../drivers/%s", driver);

	tree_link(&s->tree, link, target);
}

void share_mounts(struct share_tree *s, const char *process, const char *lines)
{
	char *path AUTO(free) = xasprintf("/proc/%s/mountinfo", process);

	tree_write(&s->tree, path, lines);
}

/* The host: its own devices first; only the VM's own share has a driver. */
void share_tree_init(struct share_tree *s, bool modern)
{
	const struct kernel_share own = { OWN_SHARE, 0, "own", modern };

	*s = (struct share_tree) {
		.modern = modern,
		.why = STR_INIT(700),
		.want = { .volume_id = "vol",
		          .pci = SHARE,
		          .tag = "share",
		          .function = DEVICE_FUNCTION_PF,
		          .emulation = EMULATION_VIRTIOFS },
	};
	tree_unpack(&s->tree, NULL);
	kernel_init(&s->kernel, &s->tree);
	s->proc = tree_path(&s->tree, "/proc");
	s->world = (struct device_world) { .sysfs = s->tree.sysfs,
		                           .dev = s->tree.dev,
		                           .vendors = &vendors,
		                           .snap_device_id = "6001",
		                           .proc = s->proc,
		                           .writer = &s->kernel.writer };
	dpu_switch_add(s->tree.sysfs, "0x15b3\n", 4);
	dpu_switch_plug(s->tree.sysfs, 0, "0x15b3\n", "0x010802\n", NULL);
	share_add_function(s, STATIC_NVME, "0x15b3\n", "0x6001\n", "0x010802\n");
	share_attr(s, STATIC_NVME, "sriov_totalvfs", "125\n");
	share_add_function(s, OWN_NET, "0x1af4\n", "0x1041\n", "0x020000\n");
	share_bind_to(s, OWN_NET, "virtio-pci");
	virtio_function_add(s->tree.sysfs, OWN_SHARE, "0x1af4\n", "own");
	share_attr(s, OWN_SHARE, "driver_override", "virtio-pci\n");
	share_bind_to(s, OWN_SHARE, "virtio-pci");
	tree_write(&s->tree, "/sys/bus/virtio/drivers/virtiofs/bind", "");
	if (modern)
		tree_mkdir(&s->tree, "/sys/fs/virtiofs");
	kernel_add_virtio(&s->tree, &own);
	ck_assert_int_eq(kernel_bind_virtio(&s->tree, 0), 0);
	tree_write(&s->tree, "/sys/module/virtiofs/refcnt", "1\n");
	share_mounts(s, "self", ROOT_LINE);
	share_mounts(s, "1", ROOT_LINE OWN_LINE);
	virtio_function_add(s->tree.sysfs, SHARE, "0x1af4\n", "share");
}

/* Bound by the kernel at boot, as virtio<n>. */
int share_bind(struct share_tree *s, const char *pci, unsigned n, const char *tag)
{
	const struct kernel_share share = { pci, n, tag, s->modern };

	share_bind_to(s, pci, "virtio-pci");
	kernel_add_virtio(&s->tree, &share);
	return kernel_bind_virtio(&s->tree, n);
}

void share_on_bind(struct kernel *k, const char *pci)
{
	char *shows AUTO(free) = tree_path(k->tree, "/sys/fs/virtiofs");
	const struct kernel_share share = { pci, 7, "share", path_exists(shows) };

	kernel_add_virtio(k->tree, &share);
	IGNORE_RESULT(kernel_bind_virtio(k->tree, 7));
}

int share_find(struct share_tree *s)
{
	err_clear(&s->err);
	return device_find(&s->world, &s->want, &s->dev, &s->why, &s->err);
}

int share_wait_ms(struct share_tree *s, int ms)
{
	err_clear(&s->err);
	return device_wait(&s->world, &s->want, deadline_in_ms(ms), &s->dev, &s->err);
}

void share_assert_writes(struct share_tree *s, const char *want)
{
	char *got AUTO(free) = kernel_writes(&s->kernel);

	ck_assert_str_eq(got, want);
}

void share_assert_refused(struct share_tree *s, int rc, const char *what, const char *says)
{
	ck_assert_msg(rc == -1 && s->err.code == ERR_PRECONDITION && strstr(s->err.msg, says),
	              "%s: %d, code %d: %s", what, rc, s->err.code, s->err.msg);
}
