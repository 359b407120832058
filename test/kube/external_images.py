#!/usr/bin/env python3
"""external_images.py DIR BIN: docker archives in DIR of the images that Kubernetes' own storage suite starts pods of, under
the names that BIN/e2e.test lists. suite.tar: every applet of Debian's static busybox, and BIN/agnhost. glibc.tar: the one
image of which dd must know nocache, as busybox's does not: this machine's dd and dash (busybox's shell would run its own)."""
import os
import shutil
import subprocess
import sys

from images import BUSYBOX, layer, libraries, write

SUITE = {"agnhost": ["/agnhost"], "busybox": ["/bin/sh"], "nginx": ["/bin/sh"]}
GLIBC = {"glibc-dns-testing": ["/bin/sh"]}


def listed(programs, wanted):
    names = subprocess.run([programs + "/e2e.test", "--list-images"], check=True, capture_output=True, text=True).stdout.split()
    short = {name: name.rsplit("/", 1)[-1].split(":")[0] for name in names}
    return {name: wanted[short[name]] for name in names if short[name] in wanted}


def applets(without):
    names = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    return [name for name in names if name not in without]


def main(folder, programs):
    # A link named busybox would replace the program by a link to itself.
    write(folder + "/suite.tar", layer(applets(["busybox"]), [("agnhost", os.path.join(programs, "agnhost"))]),
          listed(programs, SUITE))
    dd, shell = shutil.which("dd"), shutil.which("dash")
    real = dict([("bin/dd", dd), ("bin/sh", shell), *libraries(dd), *libraries(shell)])
    write(folder + "/glibc.tar", layer(applets(["busybox", "dd", "sh"]), real.items()), listed(programs, GLIBC))


main(*sys.argv[1:])
