/* SPDX-License-Identifier: Apache-2.0 */
/* Uevents: the relevant ones, and the end of a wait. */
#include <linux/netlink.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/device/uevent.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define MESSAGE(s) (s), sizeof(s)

static const char *const nvme[] = { "nvme", "nvme-subsystem", NULL };

START_TEST(events_of_pci_and_nvme_matter)
{
	static const struct {
		const char *what, *msg;
		size_t n;
		bool want;
	} rows[] = {
		{ "a PCI function",
		  MESSAGE("add@/devices/pci0000:00/0000:01:00.1\0ACTION=add\0SUBSYSTEM=pci"),
		  true },
		{ "a bind", MESSAGE("bind@/devices/x\0ACTION=bind\0DRIVER=nvme\0SUBSYSTEM=pci"),
		  true },
		{ "a controller", MESSAGE("add@/devices/x/nvme/nvme1\0SUBSYSTEM=nvme"), true },
		{ "a subsystem", MESSAGE("add@/x\0SUBSYSTEM=nvme-subsystem"), true },
		{ "an NVMe disk",
		  MESSAGE("add@/x\0DEVPATH=/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1\0"
		          "SUBSYSTEM=block\0DEVTYPE=disk"),
		  true },
		{ "a loop device",
		  MESSAGE("change@/x\0DEVPATH=/devices/virtual/block/loop0\0SUBSYSTEM=block"),
		  false },
		{ "a network interface",
		  MESSAGE("add@/x\0DEVPATH=/devices/virtual/net/eth0\0SUBSYSTEM=net"), false },
		{ "NVMe in the path of another subsystem",
		  MESSAGE("add@/x\0DEVPATH=/devices/x/nvme/nvme0/hwmon1\0SUBSYSTEM=hwmon"), false },
		{ "a subsystem that begins the same", MESSAGE("add@/x\0SUBSYSTEM=pci_express"),
		  false },
		{ "nothing", MESSAGE(""), false },
		{ "no NUL at the end", "SUBSYSTEM=pci", 13, true },
		{ "cut off", "SUBSYSTEM=pc", 12, false },
		{ "no bytes", "", 0, false },
		{ "only NULs", "\0\0\0\0", 4, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_msg(uevent_matters(rows[i].msg, rows[i].n, nvme) == rows[i].want, "%s",
		              rows[i].what);
}
END_TEST

START_TEST(a_wait_ends_by_its_interval_and_by_the_deadline)
{
	struct uevent *u AUTO(uevent_close) = uevent_open(nvme);

	/* A device that is plugged in at this moment ends it earlier, never later. */
	uevent_wait(u, 30, deadline_never());
	uevent_wait(u, NEVER_MS, deadline_in_ms(30));
	ck_assert(!uevent_wait(u, NEVER_MS, deadline_in_ms(0)));
}
END_TEST

/*
 * A message as the kernel would multicast it; other listeners ignore messages that are not from the
 * kernel.
 */
static bool send_event(const char *msg, size_t n)
{
	struct sockaddr_nl group = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd AUTO(fd) = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);

	return fd >= 0 && sendto(fd, msg, n, 0, (const struct sockaddr *)&group, sizeof(group)) > 0;
}

START_TEST(an_event_ends_a_wait)
{
	struct uevent *u AUTO(uevent_close) = uevent_open(nvme);

	SKIP_IF(!send_event(MESSAGE("add@/x\0SUBSYSTEM=net")), "may not send uevents");
	ck_assert(send_event(MESSAGE("add@/x\0ACTION=add\0SUBSYSTEM=nvme")));
	/* Sent before the wait, like an event between a probe and a wait. */
	ck_assert(uevent_wait(u, NEVER_MS, deadline_never()));
}
END_TEST

static void *cancel_soon(void *arg)
{
	usleep(50000);
	cancel_set(arg);
	return NULL;
}

START_TEST(a_cancelled_call_wakes_its_wait)
{
	struct uevent *u AUTO(uevent_close) = uevent_open(nvme);
	struct cancel cancel = CANCEL_INIT;
	struct deadline d = deadline_never();
	pthread_t thread;

	d.cancel = &cancel;
	ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
	while (!cancel_is_set(&cancel))
		uevent_wait(u, NEVER_MS, d);
	/* If the call was cancelled before, the wait returns at once. */
	ck_assert(!uevent_wait(u, NEVER_MS, d));
	pthread_join(thread, NULL);
	cancel_destroy(&cancel);
}
END_TEST

SUITE("uevent", events_of_pci_and_nvme_matter, an_event_ends_a_wait,
      a_wait_ends_by_its_interval_and_by_the_deadline, a_cancelled_call_wakes_its_wait);
