/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as the answer of the process that listens at the address in the driver's flags: inspect
 * puts the page of metrics into a bundle, and the answer cannot add anything else to the archive.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/listen_address.h"
#include "common/mem.h"
#include "inspect/bundle_priv.h"
#include "test/lib/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct tree tree;
static char *address;
static int listening = -1, archive = -1;

static void tidy(void)
{
	free(address);
	tree_clear(&tree);
}

static void set_up(void)
{
	struct listen_address a;
	struct err err = ERR_INIT;

	tree_unpack(&tree, NULL);
	address = xasprintf("unix:%s/page", tree.root);
	if (listen_address_parse(address, &a, &err))
		abort();
	listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	archive = memfd_create("archive", MFD_CLOEXEC);
	if (listening < 0 || archive < 0 || bind(listening, (const struct sockaddr *)&a.to, a.n) ||
	    listen(listening, 1))
		abort();
	atexit(tidy);
}

struct answer {
	const uint8_t *data;
	size_t n;
};

/*
 * It reads the request first: closing a socket with unread bytes cuts off the answer. The fuzzer's
 * timer may interrupt any of these calls: then the answer is short or missing.
 */
static void *answer_once(void *arg)
{
	const struct answer *a = arg;
	char request[200];
	int fd;

	while ((fd = accept(listening, NULL, NULL)) < 0)
		if (errno != EINTR)
			abort();
	if (recv(fd, request, sizeof(request), 0) > 0)
		IGNORE_RESULT(send(fd, a->data, a->n, MSG_NOSIGNAL));
	close(fd);
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct inspect_options o = { .json = false };
	struct bundle b = { .o = &o, .tar = { .folder = "bundle/" } };
	struct answer a = { data, n };
	struct err err = ERR_INIT;
	pthread_t thread;
	size_t size;

	if (!address)
		set_up();
	o.flags.http_endpoint = address;
	b.tar.fd = archive;
	if (ftruncate(archive, 0) || lseek(archive, 0, SEEK_SET) ||
	    pthread_create(&thread, NULL, answer_once, &a))
		abort();
	if (bundle_metrics(&b, &err))
		abort();
	pthread_join(thread, NULL);
	/* A header of 512 bytes, and the page, or the error, in whole blocks. */
	size = (size_t)lseek(archive, 0, SEEK_END);
	if (size % 512 != 0 || size > 512 + (n > 512 ? (n + 511) / 512 * 512 : 512))
		abort();
	return 0;
}
