#!/usr/bin/env python3
"""external_images.py OUT BIN: a docker archive of the images that Kubernetes' own storage suite starts pods of, under the
names that BIN/e2e.test lists. One layer for all: every applet of Debian's static busybox and BIN/agnhost. What the suite
asks of nginx and glibc-dns-testing is a shell and its tools."""
import os
import subprocess
import sys

from images import BUSYBOX, layer, write

ENTRY = {"agnhost": ["/agnhost"], "busybox": ["/bin/sh"], "nginx": ["/bin/sh"], "glibc-dns-testing": ["/bin/sh"]}


def main(out, programs):
    listed = subprocess.run([programs + "/e2e.test", "--list-images"], check=True, capture_output=True, text=True).stdout
    images = {}
    for name in listed.split():
        short = name.rsplit("/", 1)[-1].split(":")[0]
        if short in ENTRY:
            images[name] = ENTRY[short]
    applets = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    # A link of that name would replace the program by a link to itself.
    applets.remove("busybox")
    write(out, layer(applets, [("agnhost", os.path.join(programs, "agnhost"))]), images)


main(*sys.argv[1:])
