# SPDX-License-Identifier: Apache-2.0
"""A host with a DPU (snap-sim) and the driver on it, started as in a job file. All files are in one directory."""
import os
import shutil
import subprocess
import tempfile

import kubelet
import sim_switch
from expect import check, until

NAMESPACE = "dpf-operator-system"
NODE, OTHER_NODE = "dpu-host-1", "dpu-host-2"


def run(*argv, **options):
    return subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options).stdout


def mountinfo():
    """(mount point, options, device "7:0", filesystem type) of each mount, in the kernel's order."""
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        rows = [line.split() for line in f]
    return [(row[4].encode().decode("unicode_escape"), row[5].split(","), row[2], row[row.index("-") + 1]) for row in rows]


def is_mounted(path):
    return any(row[0] == path for row in mountinfo())


class Machine:
    def __init__(self, out, build):
        self.out, self.logs = out, build + "/orders/logs"
        self.messages = kubelet.load_messages(build + "/orders/py", os.getcwd())
        self.dir = tempfile.mkdtemp(prefix="snap-csi-orders.", dir=os.environ.get("TMPDIR", "/var/tmp"))
        # What a container has at other paths than the host: the socket's directory and the shared one.
        self.csi, self.local, self.records = self.dir + "/csi", self.dir + "/local/csi", self.dir + "/lib"
        self.sim = self.driver = self.caller = None
        for path in (self.csi, self.local, self.records):
            os.makedirs(path)
        run("mount", "--bind", self.local, self.local)
        run("mount", "--make-shared", self.local)

    # -- snap-sim -------------------------------------------------------------------------------
    def start_sim(self):
        with open(self.dir + "/sim.log", "wb") as log:
            self.sim = subprocess.Popen(
                [self.out + "/snap-sim", f"--state={self.dir}/sim", f"--write-kubeconfig={self.dir}/kubeconfig",
                 f"--port-file={self.dir}/port", "--token=marker-of-token", f"--namespace={NAMESPACE}", f"--node={NODE}",
                 f"--node={OTHER_NODE}", "--vfs=8", "--growing-volumes",
                 "--seed"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until("snap-sim is ready", lambda: os.path.exists(self.dir + "/port") and os.path.exists(self.dir + "/kubeconfig"))
        with open(self.dir + "/port", encoding="ascii") as f:
            self.port = f.read().strip()

    def api(self, method, path, body=None):
        """A request to DPF's objects."""
        url = f"http://127.0.0.1:{self.port}/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/{NAMESPACE}/{path}"
        data = ["--data", body, "--header", "Content-Type: application/json"] if body else []
        return run("curl", "--silent", "--show-error", "--max-time", "20", "--request", method, "--header",
                   "Authorization: Bearer marker-of-token", *data, url)

    def switch(self, method, path, body=None):
        return sim_switch.request(self.port, method, path, body)

    # -- the driver -----------------------------------------------------------------------------
    def start_driver(self, args):
        """args: those of a job file, with the container's paths; what only a made sysfs needs is added."""
        places = (("/local/csi", self.local), ("/var/lib/snap-csi", self.records), ("${NOMAD_SECRETS_DIR}", self.dir),
                  ("${attr.unique.hostname}", NODE))
        for name, here in places:
            args = [arg.replace(name, here) for arg in args]
        check(not any("${" in arg for arg in args), f"a variable of Nomad's that this test does not know: {args}")
        of_sim = [f"--sysfs-root={self.dir}/sim/{NODE}/sys", f"--dev-root={self.dir}/sim/{NODE}/dev",
                  "--node-nvme-load-driver=false"]
        with open(self.dir + "/driver.log", "ab") as log:
            self.driver = subprocess.Popen([self.out + "/snap-csi-plugin", *args, *of_sim], stdin=subprocess.DEVNULL, stdout=log,
                                           stderr=log, env={**os.environ, "CSI_ENDPOINT": f"unix://{self.csi}/csi.sock"})
        # Nomad's connection has this authority.
        self.caller = kubelet.Kubelet(self.messages, f"unix:{self.csi}/csi.sock", default_authority="localhost",
                                      min_reconnect_backoff_ms=20, initial_reconnect_backoff_ms=20)
        self.call("Identity", "Probe", wait_for_ready=True)

    def stop_driver(self, sign):
        self.driver.send_signal(sign)
        status = self.driver.wait(60)
        self.caller.close()
        self.driver = self.caller = None
        return status

    def call(self, service, method, timeout=120, **fields):
        return self.caller.call(service, method, timeout, **fields)

    # -- the state of the host ---------------------------------------------------------------------
    def mounts(self):
        """Mount points below the shared directory."""
        return [row[0] for row in mountinfo() if row[0].startswith(self.local + "/")]

    def objects(self, kind):
        return self.api("GET", kind)

    def close(self, failed):
        if self.driver:
            self.driver.kill()
            self.driver.wait(60)
        for path in reversed([self.local] + self.mounts()):
            subprocess.run(["umount", "-l", path], check=False)
        if self.sim:
            self.sim.terminate()
            self.sim.wait(60)
        if failed:
            os.makedirs(self.logs, exist_ok=True)
            for name in ("driver.log", "sim.log"):
                shutil.copy(f"{self.dir}/{name}", self.logs)
            print(f"logs are in {self.logs}")
        shutil.rmtree(self.dir, ignore_errors=True)
