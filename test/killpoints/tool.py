# SPDX-License-Identifier: Apache-2.0
"""Replaces mkfs or e2fsck: does half of its work, then the driver that has started it is killed.

Usage: tool.py DIR dies|goes-on NAME ARGUMENT... (the last one is the device). "dies" ends with the driver, as when a
container ends; "goes-on" keeps the device until DIR/go is opened, and then completes the work.
"""
import os
import shutil
import signal
import subprocess
import sys

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
TEMPORARY_BTRFS = b"!BHRfS_M"  # what mkfs.btrfs writes first in place of the magic


def half_made(name, image):
    """The bytes on the device before mkfs writes for the last time, as (offset, bytes)."""
    with open(image, "rb") as f:
        at, end = 0, os.path.getsize(image)
        while at < end:
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            hole = os.lseek(f.fileno(), at, os.SEEK_HOLE)
            while at < hole:
                part = bytearray(os.pread(f.fileno(), min(hole - at, 4096), at))
                if name == "mkfs.ext4" and at == 0:
                    part = bytearray(len(part))  # the superblock comes last
                elif name == "mkfs.xfs" and at == 0:
                    part[126] = 1  # "in progress"
                elif name == "mkfs.btrfs" and bytes(part[0x40:0x48]) == b"_BHRfS_M":
                    part[0x40:0x48] = TEMPORARY_BTRFS
                yield at, bytes(part)
                at += len(part)


def half(directory, name, arguments):
    if not name.startswith("mkfs."):
        return
    device = os.open(arguments[-1], os.O_RDWR | os.O_EXCL)
    image = directory + "/half.img"
    with open(image, "wb") as f:
        f.truncate(os.lseek(device, 0, os.SEEK_END))
    subprocess.run([shutil.which(name, path=PATH), *arguments[:-1], image], check=True, stdout=subprocess.DEVNULL)
    for at, part in half_made(name, image):
        os.pwrite(device, part, at)
    os.fsync(device)
    os.close(device)
    os.unlink(image)


def main():
    directory, mode, name, *arguments = sys.argv[1:]
    with open("/proc/self/comm", "w", encoding="ascii") as f:
        f.write(name)
    driver = os.getppid()
    if mode == "dies":
        half(directory, name, arguments)
        os.kill(driver, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    held = os.open(arguments[-1], os.O_RDWR | os.O_EXCL) if name.startswith(("mkfs.", "e2fsck")) else -1
    os.kill(driver, signal.SIGKILL)
    with open(directory + "/go", encoding="ascii") as f:
        f.read()
    if held >= 0:
        os.close(held)
    os.execv(shutil.which(name, path=PATH), [name, *arguments])


if __name__ == "__main__":
    main()
