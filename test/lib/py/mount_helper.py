# SPDX-License-Identifier: Apache-2.0
"""mount.snapsim in /sbin for as long as a suite runs (test/lib/share/mount-helper.sh). Standard library only."""
import contextlib
import subprocess

from expect import check


@contextlib.contextmanager
def mount_helper():
    """The driver's filesystem type "snapsim" works inside; its tags are those of SNAP_SIM_TAGS in its environment. Gives the process
    that keeps it there."""
    with subprocess.Popen(["test/lib/share/mount-helper.sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as helper:
        check(helper.stdout.readline() == "installed\n", "mount-helper.sh has not installed mount.snapsim")
        try:
            yield helper
        finally:
            helper.stdin.close()
