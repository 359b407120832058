#!/usr/bin/env python3
"""images.py OUT: a docker archive for `ctr images import`, made of Debian's static busybox: docker.io/local/pause:1
(the sandbox of every pod) and docker.io/local/busybox:1 (what the pods of the tests run). No registry is needed."""
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

BUSYBOX = shutil.which("busybox", path="/bin:/usr/bin")
APPLETS = ("sh cat ls dd sync sleep echo mount umount touch stat df id sha256sum cmp head tail grep rm mkdir wc test chmod "
           "chown ln mv cp env true false blockdev date seq kill ps").split()
IMAGES = {"docker.io/local/pause:1": ["/bin/sleep", "infinity"], "docker.io/local/busybox:1": ["/bin/sh"]}


def libraries(program):
    """The libraries of a program of this machine: (path in the image, file)."""
    linked = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return [(path.lstrip("/"), os.path.realpath(path)) for path in re.findall(r"(/\S+) \(0x", linked)]


def layer(applets=APPLETS, programs=()):
    """Busybox under the names in applets, and programs: (path, file)."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, mode in (("bin", 0o755), ("tmp", 0o1777), ("etc", 0o755), ("dev", 0o755), ("proc", 0o755), ("sys", 0o755)):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, mode
            tar.addfile(info)
        for path, source in [("bin/busybox", BUSYBOX), *programs]:
            info = tar.gettarinfo(source, path)
            info.mode, info.mtime = 0o755, 0
            with open(source, "rb") as program:
                tar.addfile(info, program)
        for applet in applets:
            info = tarfile.TarInfo("bin/" + applet)
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(info)
    return data.getvalue()


def write(path, blob, images):
    """An archive of images {name: entry point} that all consist of this one layer."""
    digest = hashlib.sha256(blob).hexdigest()
    files = {f"{digest}/layer.tar": blob}
    manifest = []
    for tag, command in images.items():
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": command, "Env": ["PATH=/bin"]},
                             "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]}}).encode()
        name = hashlib.sha256(config).hexdigest() + ".json"
        files[name] = config
        manifest.append({"Config": name, "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    write(sys.argv[1], layer(), IMAGES)
