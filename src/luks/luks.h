/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command "luks": one operation on the LUKS2 container of one volume, through libcryptsetup. The
 * driver runs it as a child process (node/disk/crypt.c), so that the memory of the key derivation,
 * the keys and the library exist only as long as the operation.
 *
 *     snap-csi-plugin luks format VOLUME-ID [--kdf=pbkdf2] [--sector=512]
 *     snap-csi-plugin luks open VOLUME-ID [--read-only] [--allow-discards] [--shared]
 *     snap-csi-plugin luks resize VOLUME-ID
 *
 * --shared: several nodes may have the disk, so the header is not changed.
 *
 * The disk is descriptor SPAWN_FD. Standard input has the passphrases: the current one, a NUL byte,
 * and the previous one, which may be empty. Messages go to standard error and never contain a
 * passphrase or a key. The exit status is the result.
 *
 * Source: libcryptsetup.h of cryptsetup 2.6.
 */
#pragma once

enum luks_status {
	LUKS_DONE = 0,
	LUKS_FAILED = 1, /* the message has the reason */
	LUKS_USAGE = 2,
	LUKS_ROTATED = 3, /* done, and the header no longer has the previous passphrase */
	LUKS_WRONG_PASSPHRASE = 4,
	LUKS_OTHER_VOLUME = 5,  /* the header is not the volume's; the message has its label */
	LUKS_NO_HEADER = 6,     /* no LUKS2 header, or a damaged one */
	LUKS_NO_KEY = 7,        /* the header has no passphrase: its format was interrupted */
	LUKS_NO_DM_CRYPT = 8,   /* the kernel has no dm-crypt */
	LUKS_NO_LIBRARY = 9,    /* libcryptsetup is not installed; the message has the reason */
	LUKS_NOT_ROTATED = 10,  /* done, but the previous passphrase could not be removed */
	LUKS_OTHER_CIPHER = 11, /* the header names an encryption that this driver does not write */
};

/* argv[0] is the word "luks". Returns a luks_status. */
int luks_main(int argc, char *const argv[]);
