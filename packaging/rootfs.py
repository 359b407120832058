#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rootfs.py OUT ROLE... --arch ARCH --driver DIR: what is in an image, as the directory OUT/ROLE.

A root filesystem is put together from the files of Debian packages, never run, so that one for arm64 is made on x86-64:
the programs that a role starts (ROLES below), the shared libraries that they name in their headers, and of each package
that a file came from its copyright and its entry in /var/lib/dpkg/status.d, where scanners look for packages; the same of
each package that is linked into the driver, of which no file is there. No package is installed: there is no shell, no
package manager, and no script of a package runs.

DIR has the driver (snap-csi-plugin, stripped), the plug-in of kubectl (kubectl-snapcsi), what is linked into it (snap-csi-plugin.packages, copyright/) and the libcurl
that it loads (libcurl.so.4, of packaging/libcurl.sh), from `make stripped`.
Packages come from apt, in the version that it would install; ARCH must be one that apt knows. All times are
SOURCE_DATE_EPOCH, so the same packages make the same bytes."""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import sbom

CA_BUNDLE = "etc/ssl/certs/ca-certificates.crt"
# package: (paths that are wanted from it, what they are for)
CONTROLLER = {
    "base-files": ["etc/debian_version", "etc/os-release"],  # how scanners know the release
    "libcurl4": [],  # loaded by the controller when it starts; see libcurl()
    "ca-certificates": [],  # for an API server with a certificate of a public authority; see ca_bundle()
}
NODE = CONTROLLER | {
    "e2fsprogs": ["sbin/mkfs.ext4", "sbin/mkfs.ext3", "sbin/e2fsck", "sbin/resize2fs", "etc/mke2fs.conf"],
    "xfsprogs": ["sbin/mkfs.xfs", "sbin/xfs_repair"],  # the last one is for people
    "btrfs-progs": ["bin/btrfs", "sbin/mkfs.btrfs"],
    "kmod": ["bin/kmod", "sbin/modprobe"],
    # Both are loaded with dlopen(), for encrypted volumes: by the driver, and by glibc when a thread of Argon2 ends.
    "libcryptsetup12": ["lib/*/libcryptsetup.so.12"],
    "libgcc-s1": ["lib/*/libgcc_s.so.1"],
}
# The node has all that the controller has, so that one image can stand for both, as in the Go plugin's deployment.
ROLES = {"controller": CONTROLLER, "node": NODE}
TOP_LINKS = ("bin", "sbin", "lib", "lib64")  # into /usr, as in every Debian of today
DIRECTORIES = {"tmp": 0o1777, "proc": 0o755, "sys": 0o755, "dev": 0o755, "run": 0o755, "etc": 0o755, "var": 0o755}
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"rootfs: {' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def merged(path):
    """The name of a package's file where /bin, /sbin and /lib are links into /usr."""
    path = path.lstrip("/")
    return "usr/" + path if path.split("/", 1)[0] in TOP_LINKS else path


class Packages:
    """Packages of one architecture, each downloaded and unpacked when it is first asked for."""

    def __init__(self, arch, folder):
        self.arch, self.folder, self.known = arch, folder, {}
        folder.mkdir(parents=True, exist_ok=True)
        if arch != run("dpkg", "--print-architecture").strip():
            self.another_machine()

    def another_machine(self):
        """From now on apt is one of that architecture: a state of its own, with this machine's sources and keys."""
        state = self.folder / ".apt"
        shutil.rmtree(state, ignore_errors=True)
        (state / "state/lists/partial").mkdir(parents=True)
        (state / "cache/archives/partial").mkdir(parents=True)
        (state / "status").touch()
        (state / "conf").write_text(f'''Dir::State "{state}/state"; Dir::State::status "{state}/status"; Dir::Cache "{state}/cache";
APT::Architecture "{self.arch}"; APT::Architectures {{ "{self.arch}"; }}; APT::Sandbox::User "root";
Acquire::Languages "none"; Acquire::Retries "3";
''')
        os.environ["APT_CONFIG"] = str((state / "conf").resolve())
        run("apt-get", "-qq", "update")

    def get(self, name):
        if name not in self.known:
            self.known[name] = Package(name, self.arch, self.folder)
        return self.known[name]


class Package:
    def __init__(self, name, arch, folder):
        own = folder / name
        shutil.rmtree(own, ignore_errors=True)
        (own / "deb").mkdir(parents=True)
        run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", name, cwd=own / "deb")
        deb, = (own / "deb").iterdir()
        run("dpkg-deb", "-x", deb, own / "root")
        self.name, self.root = name, own / "root"
        self.note = ""  # for the bill of materials
        self.control = run("dpkg-deb", "-f", deb)
        deb.unlink()
        self.files = {}
        for at, folders, files in os.walk(self.root):
            for entry in files + [f for f in folders if os.path.islink(os.path.join(at, f))]:
                path = Path(at, entry).relative_to(self.root).as_posix()
                self.files[merged(path)] = self.root / path

    def field(self, name, default=""):
        found = re.search(rf"^{name}: *(.*(?:\n .*)*)", self.control, re.M)
        return found.group(1) if found else default

    def depends(self):
        """The first of each group of alternatives."""
        both = ", ".join(filter(None, (self.field("Pre-Depends"), self.field("Depends"))))
        return [re.split(r"[ (:|]", part.strip(), maxsplit=1)[0] for part in both.split(",") if part.strip()]


class Rootfs:
    def __init__(self, out, packages, triplet):
        self.out, self.packages, self.triplet = out, packages, triplet
        self.taken = {}  # package name: paths in the image
        self.wanted = None  # the package of ROLES that is being taken
        shutil.rmtree(out, ignore_errors=True)
        for name, mode in DIRECTORIES.items():
            (out / name).mkdir(parents=True)
            (out / name).chmod(mode)
        (out / "usr").mkdir()
        for name in TOP_LINKS:
            (out / "usr" / name).mkdir()
            (out / name).symlink_to("usr/" + name)
        (out / "var/run").symlink_to("/run")

    def take(self, package, path):
        """A file of a package, what it is a link to, and the libraries that it is linked with."""
        path = merged(path)
        if path in self.taken.setdefault(package.name, {}):
            return
        source = package.files.get(path)
        if source is None:
            sys.exit(f"rootfs: {package.name} has no /{path}")
        place = self.out / path
        place.parent.mkdir(parents=True, exist_ok=True)
        self.taken[package.name][path] = place
        if source.is_symlink():
            target = os.readlink(source)
            place.symlink_to(target)
            # dpkg unpacks /bin/x -> y; where both have moved into /usr the link still holds, an absolute one as well.
            whole = os.path.normpath(os.path.join("/", os.path.dirname(path), target))
            self.take(self.owner(whole, package), whole)
            return
        shutil.copyfile(source, place)
        place.chmod(source.stat().st_mode & 0o755)  # never setuid
        self.libraries(package, place)

    def owner(self, path, first):
        """The package that a link leads into: its own, or one that it depends on."""
        for name in (first.name, *first.depends()):
            if name == first.name or name.startswith("lib"):
                package = self.packages.get(name)
                if merged(path) in package.files:
                    return package
        sys.exit(f"rootfs: {first.name} has a link to {path}, which no library that it depends on has")

    def libraries(self, package, file):
        with open(file, "rb") as stream:
            if stream.read(4) != b"\x7fELF":
                return
        dynamic = run("readelf", "--wide", "--dynamic", "--program-headers", file)
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
            self.library(package, name)
        for name in re.findall(r"interpreter: (.*)\]", dynamic):
            self.take(self.packages.get("libc6"), name)

    def library(self, package, soname):
        path = f"usr/lib/{self.triplet}/{soname}"
        if os.path.lexists(self.out / path):
            return
        # Debian calls the package of libinih.so.1 libinih1. By this name it is found without unpacking all the others.
        plain = re.sub(r"[-_.+]|so\.|t64$", "", soname.replace(".so.", ""))
        # libext2fs2 needs a library that only e2fsprogs depends on.
        depends = package.depends() + (self.wanted.depends() if self.wanted else [])
        names = [package.name] + [n for n in dict.fromkeys(depends) if n.startswith(("lib", "zlib"))]
        names.sort(key=lambda n: (n != package.name, re.sub(r"[-_.+]|t64$", "", n) != plain))
        for name in names:
            owner = self.packages.get(name)
            if path in owner.files:
                self.take(owner, path)
                return
        sys.exit(f"rootfs: {package.name} needs {soname}, which is in none of {' '.join(names)}")

    def driver(self, folder, package):
        program = self.out / "snap-csi-plugin"
        shutil.copyfile(folder / "snap-csi-plugin", program)
        program.chmod(0o755)
        place = self.out / "usr/bin/snap-csi-plugin"
        place.symlink_to("/snap-csi-plugin")
        self.libraries(package, program)
        plugin = self.out / "usr/share/snap-csi/kubectl-snapcsi"  # not run here: for administrators to copy
        plugin.parent.mkdir(parents=True)
        shutil.copyfile(folder / "kubectl-snapcsi", plugin)
        plugin.chmod(0o755)

    def libcurl(self, folder, package):
        """The library that packaging/libcurl.sh has built, in the place of the package's own."""
        built, version = (folder / "libcurl.so.4.version").read_text().strip(), package.field("Version")
        if built != re.sub(r"\+b\d+$", "", version):  # +b1: compiled once more from the same source
            sys.exit(f"rootfs: libcurl was built from the source of {built}, and {package.name} is {version} now; `make clean` and try again")
        path = f"usr/lib/{self.triplet}/libcurl.so.4"
        place = self.out / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / "libcurl.so.4", place)
        place.chmod(0o644)
        self.taken.setdefault(package.name, {})[path] = place
        package.note = "libcurl.so.4 is built from this source package with HTTP, HTTP/2 and OpenSSL alone"
        self.libraries(package, place)

    def ca_bundle(self, package):
        """What update-ca-certificates makes of all authorities that Debian trusts."""
        names = sorted(p for p in package.files if p.startswith("usr/share/ca-certificates/mozilla/") and p.endswith(".crt"))
        place = self.out / CA_BUNDLE
        place.parent.mkdir(parents=True)
        place.write_bytes(b"".join(package.files[n].read_bytes().rstrip() + b"\n" for n in names))
        self.taken.setdefault(package.name, {})[CA_BUNDLE] = place

    def describe(self):
        """Of each package its copyright and its entry for scanners."""
        for name, files in sorted(self.taken.items()):
            package = self.packages.get(name)
            copyright_file = package.files.get(f"usr/share/doc/{name}/copyright")
            folder = package.files.get(f"usr/share/doc/{name}")
            if copyright_file is None and folder is not None and folder.is_symlink():  # it shares that of a library of its source
                copyright_file = self.packages.get(os.readlink(folder)).files.get(f"usr/share/doc/{os.readlink(folder)}/copyright")
            if copyright_file is not None and copyright_file.is_symlink():
                copyright_file = self.linked(package, copyright_file)
            self.enter(name, package.control.strip(), copyright_file, files)

    def describe_linked(self, folder, parts):
        """The same of packages whose archives are linked into the driver. That leaves no trace that a scanner would find."""
        for part in parts:
            source = f"{part.source} ({part.source_version})" if part.source_version != part.version else part.source
            self.enter(part.name, f"""Package: {part.name}
Source: {source}
Version: {part.version}
Architecture: {part.arch}
Maintainer: {part.supplier}
Description: linked into /snap-csi-plugin
 Archives of this package are linked into the program. None of its files is here.""", folder / part.name, {})

    def enter(self, name, entry, copyright_file, files):
        status = self.out / "var/lib/dpkg/status.d"
        status.mkdir(parents=True, exist_ok=True)
        if copyright_file is not None:
            place = self.out / f"usr/share/doc/{name}/copyright"
            place.parent.mkdir(parents=True)
            shutil.copyfile(copyright_file.resolve(), place)
            place.chmod(0o644)
            files[place.relative_to(self.out).as_posix()] = place
        (status / name).write_text(entry + "\n\n")
        (status / f"{name}.md5sums").write_text("".join(
            f"{hashlib.md5(place.read_bytes()).hexdigest()}  {path}\n"
            for path, place in sorted(files.items()) if not place.is_symlink()))

    def linked(self, package, link):
        target = Path(os.path.normpath(link.parent / os.readlink(link)))
        if target.exists():
            return target
        inside = target.relative_to(package.root).as_posix()
        return self.owner(inside, package).files[merged(inside)]

    def finish(self, epoch):
        for name in TOP_LINKS:
            if not any((self.out / "usr" / name).iterdir()):
                (self.out / "usr" / name).rmdir()
                (self.out / name).unlink()
        for at, folders, files in os.walk(self.out, topdown=False):
            for entry in files + folders + ["."]:
                os.utime(os.path.join(at, entry), (epoch, epoch), follow_symlinks=False)


def make(role, out, packages, driver, triplet, epoch):
    rootfs = Rootfs(out, packages, triplet)
    # getaddrinfo() asks no files without it.
    (rootfs.out / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    static = sbom.static_packages(driver / "snap-csi-plugin.packages")
    for name, paths in ROLES[role].items():
        package = rootfs.wanted = packages.get(name)
        for pattern in paths:
            rootfs.take(package, pattern.replace("/*/", f"/{triplet}/"))
    rootfs.libcurl(driver, packages.get("libcurl4"))
    rootfs.ca_bundle(packages.get("ca-certificates"))
    rootfs.driver(driver, Driver())
    rootfs.describe()
    rootfs.describe_linked(driver / "copyright", static[1])
    present = [packages.get(name) for name in sorted(rootfs.taken)]
    sbom.write(out, {"node": "snap-csi"}.get(role, f"snap-csi-{role}"), present, static, epoch)
    rootfs.finish(epoch)


class Driver:
    """The driver stands for a package where its libraries are looked for."""
    name = "libc6"

    @staticmethod
    def depends():
        return ["libc6", "zlib1g", "libcjson1", "libyaml-0-2", "libmount1", "libblkid1"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("roles", nargs="+", choices=ROLES)
    parser.add_argument("--arch", required=True, choices=TRIPLETS)
    parser.add_argument("--driver", required=True, type=Path)
    given = parser.parse_args()
    os.umask(0o022)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or 0)
    packages = Packages(given.arch, given.out.resolve() / "packages")
    for role in given.roles:
        make(role, given.out / role, packages, given.driver, TRIPLETS[given.arch], epoch)
    shutil.rmtree(given.out / "packages")


if __name__ == "__main__":
    main()
