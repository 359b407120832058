# SPDX-License-Identifier: Apache-2.0
"""Faults of the API server, of DPF, of devices, and kills of drivers, several at once and at random (the seed is printed). None
lasts longer than some seconds: what waits for a fault's end must get there."""
import random
import signal
import threading
import time

from expect import Failed
from world import CONTROLLERS, HOSTS, STEADY

# Of requests: as snap-sim takes them (test/sim/README.md). Each is applied `times` times at most.
REQUESTS = (
    {"status": 500, "reason": "InternalError"}, {"status": 503, "reason": "ServiceUnavailable"},
    {"status": 504, "reason": "Timeout"}, {"status": 429, "reason": "TooManyRequests", "retryAfterSeconds": 1},
    {"latencyMs": 300}, {"latencyMs": 2000}, {"hang": True}, {"cut": True}, {"cut": True, "hang": True},
    {"applied": True, "cut": True}, {"applied": True, "hang": True}, {"applied": True, "status": 500, "reason": "InternalError"},
)
VERBS = ("get", "list", "create", "delete", None)
WATCHES = ({"dropWatch": True}, {"expireWatch": True}, {"verb": "watch", "hang": True}, {"verb": "watch", "status": 500},
           {"verb": "watch", "status": 410, "reason": "Expired"})
RESOURCES = ("dpuvolumes", "dpuvolumeattachments")
DPF = (
    {"dpf": "volume-never-bound"}, {"dpf": "volume-failure"}, {"dpf": "volume-failure", "value": "Failure", "text": "no capacity left"},
    {"dpf": "volume-failure", "value": "Failure", "text": "the array is being serviced"}, {"dpf": "volume-finalizer-stuck"},
    {"dpf": "volume-error"}, {"dpf": "dpu-not-ready"}, {"dpf": "cluster-unreachable"},
    {"dpf": "attachment-never-ready", "text": "DPU is not ready"}, {"dpf": "attachment-failure", "text": "SNAP refused"},
    {"dpf": "attachment-finalizer-stuck"}, {"dpf": "attachment-unready", "text": "a restart", "ms": 500},
    {"dpf": "missing", "value": "dpu.pciAddress"}, {"dpf": "late", "value": "dpu", "ms": 700}, {"dpf": "pci-zero-first", "ms": 700},
)
DEVICES = ({"dpf": "device-late", "ms": 1500}, {"dpf": "bind-ignored"}, {"dpf": "bind-refused"})


# Of the network, in the words of test/reports/soak.md.
OUTAGES = {"refuse": "the API server refuses connections for up to 6 s", "stall": "the network swallows what is sent for up to 6 s",
           "stop": "the API server stands still for up to 3 s"}


class Storm:
    def __init__(self, world, book, service, seed):
        self.world, self.book, self.service, self.seed = world, book, service, seed
        self.calm, self.threads, self.counts = threading.Event(), [], {}
        self.lock, self.hanging = threading.Lock(), threading.Lock()
        self.rounds = 0

    def begin(self):
        self.calm.clear()
        self.rounds += 1
        kinds = (self.requests, self.dpf, self.network, self.devices, self.kills)
        self.threads = [threading.Thread(target=self.loop, args=(kind, random.Random(f"{self.seed} {self.rounds} {kind.__name__}")), daemon=True)
                        for kind in kinds]
        for thread in self.threads:
            thread.start()

    def end(self):
        self.calm.set()
        for thread in self.threads:
            thread.join(120)
        self.world.request("DELETE", "/sim/faults")

    def loop(self, kind, rng):
        while not self.calm.wait(rng.uniform(0.2, 2)):
            try:
                name = kind(rng)
                with self.lock:
                    self.counts[name] = self.counts.get(name, 0) + 1
            except Exception as error:  # pylint: disable=broad-except
                self.book.wrong(f"the storm's {kind.__name__}: {type(error).__name__}: {error}")

    def fault(self, spec, seconds):
        with self.lock:
            made = self.world.request("POST", "/sim/faults", spec)[-1]["id"]
        self.calm.wait(seconds)
        try:
            self.world.request("DELETE", f"/sim/faults?id={made}")
        except Failed:
            pass  # end() has removed all

    def requests(self, rng):
        if rng.random() < 0.05:
            self.world.request("POST", "/sim/expire")
            return "history expired"
        if rng.random() < 0.3:
            spec = {**rng.choice(WATCHES), "resource": rng.choice(RESOURCES), "times": 2}
        else:
            spec = {**rng.choice(REQUESTS), "resource": rng.choice(RESOURCES), "times": rng.randint(1, 6)}
            verb = rng.choice(VERBS)
            spec.update({"verb": verb} if verb else {})
        if spec.get("hang") and spec.get("verb", "watch") == "watch":
            with self.hanging:
                self.fault(spec, rng.uniform(0.3, 3))
        else:
            self.fault(spec, rng.uniform(0.3, 3))
        return "API: " + ", ".join(str(k if v is True else v) for k, v in spec.items() if k not in ("resource", "verb", "times", "reason"))

    def dpf(self, rng):
        spec = rng.choice(DPF)
        # One in three volumes, by the last digit of its name.
        self.fault({**spec, "name": rng.choice(("[0-2]$", "[3-5]$", "[6-9]$"))}, rng.uniform(0.5, 4))
        return "DPF: " + spec["dpf"]

    def network(self, rng):
        self.calm.wait(rng.uniform(2, 8))
        which = rng.choice(CONTROLLERS)
        what = rng.choice(("refuse", "stall", "stop"))
        # A watch that hangs is noticed by its silence only: it would be taken for an outage that does not end.
        with self.hanging:
            followed = self.service.follows(self.world.drivers[which])
            if what == "stop":
                self.world.sim.send_signal(signal.SIGSTOP)
                time.sleep(rng.uniform(0.5, 3))
                self.world.sim.send_signal(signal.SIGCONT)
            else:
                self.world.relays[which].disturb(what, rng.uniform(0.5, 6))
            if followed:
                self.service.wait_for_api(OUTAGES[what], self.world.drivers[which], self.calm)
        return "network: " + what

    def devices(self, rng):
        what = rng.choice(("fault", "fault", "vanish", "reset", "hang"))
        host = rng.choice(HOSTS)
        if what == "fault":
            spec = rng.choice(DEVICES)
            self.fault(spec, rng.uniform(0.5, 3))
            return "device: " + spec["dpf"]
        if what == "hang":
            self.world.freeze(rng.uniform(0.3, 3))
            return "device: hang"
        in_use = self.world.functions_in_use(host)
        if not in_use:
            return "device: none in use"
        pci = rng.choice(in_use)
        self.world.write_driver(host, "unbind", pci)
        if what == "vanish":
            self.calm.wait(rng.uniform(0.5, 3))
        self.world.write_driver(host, "bind", pci)
        return "device: " + what

    def kills(self, rng):
        self.calm.wait(rng.uniform(4, 16))
        name = rng.choice([n for n in (*CONTROLLERS, *HOSTS) if n not in STEADY])
        driver = self.world.drivers[name]
        self.service.look(driver)
        sign = signal.SIGTERM if rng.random() < 0.25 else signal.SIGKILL
        status = driver.end(sign)
        # 3: SIGTERM's end came before that of a call that hangs.
        if status not in ((0, 3) if sign == signal.SIGTERM else (-9,)):
            self.book.wrong(f"{name} ended with {status} after {sign.name}")
        began = time.monotonic()
        driver.start()
        driver.ready()
        self.service.recovered("the driver is killed, until it serves again", began)
        return f"kill: {sign.name} {name}"
