#!/usr/bin/env python3
"""The driver's controller on a real API server over TLS, compared with a bare client that does the minimum for each operation
(one request, its object's event in one watch). DPF is simulated by one immediate PATCH of the status. Prints tables; no time
makes it fail. Run by `make bench-kube`, in api.sh's namespaces; api.py has a short form. Environment: BENCH_SERIAL (100) and
BENCH_MANY (1000) operations one after the other and 50 at a time; BENCH_OBJECTS (2000) foreign attachments with labels, as
many without and as many volumes, 0 omits them; BENCH_CHANGES (500) changes of them per second, 0 omits these; BENCH_WAITING
(500) callers whose volume is never bound; BENCH_AT_ONCE (0) foreign events per second while those wait and 1000 calls run,
instead of BENCH_WAITING's own table. The long forms are at the end of test/reports/scale.md.
BENCH_APART (0): the API server and etcd use the first half of the processors, all others the second half, as on separate
machines, so that clients take no CPU from the server.
BENCH_UNWATCHED (0): this many attachments of the Go plugin while the driver has no permission to watch attachments, so that
its index is unusable: 400 deletes, 80 at a time.
BENCH_PUBLISHES and BENCH_PAGES (0) omit the tables, and count instead: this many Publishes, and this many pages of lists
among 20,000 attachments, each with its requests and answers from the audit log. These fail when a count is wrong."""
import collections
import json
import os
import subprocess
import sys
import time

from api_lab import ACCOUNT, BIN, DIR, DPF, OUT, PORT, VOLUMES, Cluster, Driver, Failed, Process, Server, ask, etcd_status, kubeconfig, kubectl, text_of, token, until

NODES = 50
OPS = ("create", "publish", "unpublish", "delete")
SERIAL, MANY = int(os.environ.get("BENCH_SERIAL", "100")), int(os.environ.get("BENCH_MANY", "1000"))
OBJECTS = [int(word) for word in os.environ.get("BENCH_OBJECTS", "2000").split(",")]
# As the images have it: what counts in memory after a load, and the libcurl.
IMAGE = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "LD_LIBRARY_PATH": f"{OUT}/stripped"}
CHANGES, WAITING = int(os.environ.get("BENCH_CHANGES", "500")), int(os.environ.get("BENCH_WAITING", "500"))
AT_ONCE = int(os.environ.get("BENCH_AT_ONCE", "0"))
APART = os.environ.get("BENCH_APART", "0") != "0"
UNWATCHED = int(os.environ.get("BENCH_UNWATCHED", "0"))
PUBLISHES, PAGES = int(os.environ.get("BENCH_PUBLISHES", "0")), int(os.environ.get("BENCH_PAGES", "0"))
COLUMNS = "{:34} {:>6} {:>9} {:>9} {:>8} {:>10} {:>10} {:>9}  {}"


def cpu_ms(pid):
    """CPU time of a process, with that of its threads that have ended."""
    return time.clock_gettime((~pid << 3) | 2) * 1000


def memory(pid):
    """PSS divides program and libraries by the number of processes that use them at the moment; without other users RSS
    equals PSS."""
    lines = text_of(f"/proc/{pid}/smaps_rollup").splitlines()
    pss, rss, anonymous = (int(next(line for line in lines if line.startswith(what)).split()[1]) for what in ("Pss:", "Rss:", "Anonymous:"))
    return f"{pss} kB, alone on a machine {rss} kB, of it anonymous {anonymous} kB"


def rss_mb(pid):
    lines = text_of(f"/proc/{pid}/status").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) // 1024


def load(work, *flags):
    """Runs the load program to its end; returns what it prints."""
    done = subprocess.run([f"{BIN}/load", work, *flags], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"load {work} {flags}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout) if done.stdout else None


def start_load(work, *flags):
    return Process(f"load-{work}", [f"{BIN}/load", work, *flags]).start()


class Requests:
    """The API server's answers, from its audit log; watches are excluded, since they are logged at their end."""

    def __init__(self):
        self.path = f"{DIR}/audit.log"
        self.at = os.path.getsize(self.path)

    def events(self, agent):
        with open(self.path, encoding="utf-8") as file:
            file.seek(self.at)
            events = [json.loads(line) for line in file]
        return [e for e in events if e["userAgent"].startswith(agent) and e["verb"] != "watch" and "objectRef" in e]

    def of(self, agent):
        return [f"{e['verb']} {e['objectRef']['resource']}" for e in self.events(agent)]


class Bench:
    def __init__(self, cluster, driver, configuration):
        self.cluster, self.driver, self.configuration, self.dpf, self.liked = cluster, driver, configuration, None, False
        for i in range(NODES):
            node = {"metadata": {"name": f"bench-{i}"}}
            ask("POST", f"/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/{DPF}/dpunodes",
                {"apiVersion": "provisioning.dpu.nvidia.com/v1alpha1", "kind": "DPUNode", **node}, expect=(201, 409))
            ask("POST", f"/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/{DPF}/dpus", {
                "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1", "kind": "DPU",
                "metadata": {**node["metadata"], "labels": {"provisioning.dpu.nvidia.com/dpunode-name": f"bench-{i}"}},
                "spec": {"dpuNodeName": f"bench-{i}", "dpuDeviceName": "0000-26-00", "serialNumber": f"MT{i}", "bfb": "bf-bundle",
                         "dpuFlavor": "flavor"}}, expect=(201, 409))
            ask("POST", "/apis/storage.k8s.io/v1/csinodes", {
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", **node,
                "spec": {"drivers": [{"name": "csi.snap.nvidia.com", "nodeID": f"bench-{i}", "topologyKeys": [],
                                      "allocatable": {"count": 100000}}]}}, expect=(201, 409))
        self.start_dpf()

    def start_dpf(self):
        since = len(self.dpf.log()) if self.dpf else 0
        self.dpf = start_load("dpf", f"--kubeconfig={self.cluster.admin}")
        until("DPF is ready", lambda: "ready" in self.dpf.log(since), 900)  # it lists 200,000 objects in the long form

    def does(self, who, op, names, n, parallel):
        """One kind of operation, n times; the figures per operation."""
        where = {"csi": f"--socket={self.driver.socket}", "bare": f"--kubeconfig={self.configuration}"}[who]
        requests = Requests()
        pids = {"driver": self.driver.process.pid, "api": self.cluster.apiserver.process.pid}
        before = {name: cpu_ms(pid) for name, pid in pids.items()}
        got = load(who, where, f"--op={op}", f"--names={names}", f"--n={n}", f"--parallel={parallel}")
        for name, pid in pids.items():
            got[name] = (cpu_ms(pid) - before[name]) / n
        got["requests"] = requests.of("load-bare" if who == "bare" else "snap-csi")
        return got

    def row(self, what, got, who):
        n = got["n"]
        kinds = sorted(set(got["requests"]))
        per = ", ".join(f"{got['requests'].count(kind) / n:.2f} {kind}" for kind in kinds)
        print(COLUMNS.format(what, n, f"{got['p50']:.1f}", f"{got['p99']:.1f}", f"{got['per_second']:.0f}",
                             f"{got['driver']:.2f}" if who == "csi" else "", f"{got['api']:.2f}",
                             f"{len(got['requests']) / n:.2f}", per + (f"; {got['failed']} FAILED: {got['why']}" if got["failed"] else "")),
              flush=True)

    def life(self, who, names, n, parallel, ops=OPS):
        """All operations of n volumes, one kind after the other."""
        results = {op: self.does(who, op, names, n, parallel) for op in ops}
        for op, got in results.items():
            self.row(f"{op}, {parallel} at a time, {'bare client' if who == 'bare' else 'driver'}", got, who)
        return results

    def pss(self, when, wait=3):
        time.sleep(wait)
        print(f"memory (PSS), {when}: {memory(self.driver.process.pid)}", flush=True)


def head(text):
    print(f"\n{text}")
    print(COLUMNS.format("", "n", "p50 ms", "p99 ms", "per s", "driver ms", "API ms", "requests", ""))


def curl_alone():
    """CPU of a program that only uses libcurl: the rest of the driver's CPU is its own."""
    done = subprocess.run([f"{OUT}/curl-floor", f"--url=https://127.0.0.1:{PORT}{VOLUMES}", f"--ca={DIR}/ca.crt", f"--token={token()}", f"--n={MANY}"],
                          capture_output=True, text=True, check=False, env={**os.environ, **IMAGE})
    if done.returncode:
        raise Failed(f"curl-floor: {done.stderr}")
    alone = json.loads(done.stdout)
    print(f"libcurl alone, 50 at a time: {alone['create']:.2f} ms of CPU for a POST and its two events, {alone['get']:.2f} for a GET,"
          f" {alone['delete']:.2f} for a DELETE and its event", flush=True)


def sizes(bench):
    """The cost of a volume's life for etcd and all watchers, with this DPF: one PATCH of the status of each object."""
    watching = start_load("watch", f"--kubeconfig={bench.cluster.admin}")
    n, events, size = 50, 0, 0
    until("both kinds are watched", watching.log)
    head("what a life costs the cluster")
    for op in OPS:
        revision = etcd_status()[0]
        bench.life("csi", "size", n, 5, (op,))
        time.sleep(1)
        now = json.loads(watching.log().splitlines()[-1])
        print(f"    {op}: {(etcd_status()[0] - revision) / n:.2f} writes of etcd, {(now['events'] - events) / n:.2f} events, "
              f"{(now['bytes'] - size) / n:.0f} bytes for each who watches")
        events, size = now["events"], now["bytes"]
    watching.kill()


def after_a_start(bench, objects):
    """A new driver, while other objects exist: its first Publish waits for the index."""
    server = bench.cluster.apiserver.process.pid
    before = cpu_ms(server)
    driver = Driver("driver-new", bench.configuration, IMAGE, more=("--v=0",))
    began = time.monotonic()
    answers = [load("csi", f"--socket={driver.socket}", f"--op={op}", "--names=new", "--n=1") for op in ("create", "publish")]
    took = time.monotonic() - began
    failed = [answer["why"] for answer in answers if answer["failed"]]
    print(f"a new driver among {objects} + {objects}: create {answers[0]['p50']:.0f} ms, then publish {answers[1]['p50']:.0f} ms"
          f" ({took:.1f} s from its start), {cpu_ms(server) - before:.0f} ms of the API server's CPU, {cpu_ms(driver.process.pid):.0f} ms of its own,"
          f" memory (PSS) {memory(driver.process.pid)} {failed or ''}", flush=True)
    driver.kill()


def warm(bench):
    """A node's DPUNode is read at its first attachment, its CSINode and its DPUs once a minute: they have been read behind this."""
    bench.does("csi", "create", "warm", 2 * NODES, 5)
    for op in OPS[1:]:
        bench.does("csi", op, "warm", 2 * NODES, 5)


def rest(bench):
    """Until the API server does nothing: it collects garbage for half a minute when it has 10 GB, and has time for little else."""
    pid = bench.cluster.apiserver.process.pid

    def rests():
        before = cpu_ms(pid)
        time.sleep(2)
        return cpu_ms(pid) - before < 200

    until("the API server rests", rests, 180)


def both(bench, names):
    """The operations one at a time, of the bare client and of the driver: whose time is it that differs?"""
    results = {}
    for who in ("bare", "csi"):
        warm(bench)
        results[who] = {}
        for op in OPS:
            rest(bench)
            results[who].update(bench.life(who, f"{names}-{who}", SERIAL, 1, (op,)))
    return results


def make_like(bench):
    """A volume and an attachment that those of others resemble."""
    if not bench.liked:
        bench.does("csi", "create", "like", 1, 1)
        bench.does("csi", "publish", "like", 1, 1)
    bench.liked = True


def among_others(bench, objects):
    """The same operations among attachments of others, half of them as the Go plugin makes them."""
    admin = f"--kubeconfig={bench.cluster.admin}"
    empty, used = rss_mb(bench.cluster.apiserver.process.pid), etcd_status()[1]
    make_like(bench)
    head("before there are any of others")
    before = both(bench, "before")
    for kind in ("labelled", "unlabelled"):
        made = load("seed", admin, "--template=bench-0-like-0", f"--n={objects}", f"--names={kind}", f"--labelled={str(kind == 'labelled').lower()}")
    load("seed", admin, "--plural=dpuvolumes", "--template=like-0", f"--n={objects}", "--names=volume")
    # Its caches fall behind so many writes at once; a new one reads them from etcd.
    bench.dpf.kill()
    bench.cluster.apiserver.restart()
    bench.start_dpf()
    bench.does("csi", "create", "warm-again", 5, 5)
    bench.pss(f"{objects} + {objects} attachments of {made['bytes_each']} bytes in the namespace")
    print(f"API server's memory (RSS): {empty} MB before, {rss_mb(bench.cluster.apiserver.process.pid)} MB with them; etcd: {(etcd_status()[1] - used) / objects / 2:.0f} bytes for each")
    after_a_start(bench, objects)
    head(f"among {objects} labelled and {objects} unlabelled attachments")
    for who, results in both(bench, f"among-{objects}").items():
        ratios = ", ".join(f"{op} {got['p50'] / before[who][op]['p50']:.2f}" for op, got in results.items())
        print(f"p50 among them, as a part of that before: {'bare client' if who == 'bare' else 'driver'}: {ratios}", flush=True)
    bench.life("csi", f"crowd-{objects}", 80, 80)
    bench.pss("when all of them have been read")
    bench.pss("when the calls' threads have ended", 60)
    if CHANGES:
        while_they_change(bench, objects, admin)


def while_they_change(bench, objects, admin):
    head(f"the same, {CHANGES} of them change per second")
    churn = start_load("churn", admin, "--template=bench-0-like-0", f"--n={objects}", "--names=labelled", f"--rate={CHANGES}")
    time.sleep(1)
    pid, before = bench.driver.process.pid, cpu_ms(bench.driver.process.pid)
    time.sleep(10)
    print(f"CPU of the idle driver: {(cpu_ms(pid) - before) / 100:.1f} % of a core")
    bench.life("csi", f"churn-{objects}", SERIAL, 1)
    bench.pss("meanwhile")
    if not churn.alive():
        raise Failed(churn.log())
    churn.kill()


def while_others_wait(bench):
    head(f"before and while {WAITING} creates wait")
    bench.life("csi", "pool", SERIAL, 1, ("create", "publish", "unpublish"))
    waiting = start_load("csi", f"--socket={bench.driver.socket}", "--op=create", "--names=never", f"--n={WAITING}", f"--parallel={WAITING}",
                         "--seconds=600")
    time.sleep(max(5, WAITING // 100))
    bench.life("csi", "pool", SERIAL, 1, ("publish", "unpublish"))
    bench.pss("meanwhile")
    waiting.kill()


def churned(churns):
    """How many objects they have changed so far, and in which time."""
    for churn in churns:
        until("the changes of others are counted", churn.log)
    last = [json.loads(churn.log().splitlines()[-1]) for churn in churns]
    return sum(one["changes"] for one in last), max(one["seconds"] for one in last)


def all_at_once(bench):
    """Events of others, calls that wait and calls that work, all at the same moment."""
    admin, objects, pid = f"--kubeconfig={bench.cluster.admin}", 2000, bench.driver.process.pid
    make_like(bench)
    head(f"{AT_ONCE} changes of others per second, {WAITING} creates that wait, 1000 that work, all at once")
    bench.life("csi", "alone", 1000, 1000)
    churns = []
    for plural, template in (("dpuvolumes", "like-0"), ("dpuvolumeattachments", "bench-0-like-0")):
        of = (admin, f"--plural={plural}", f"--template={template}", f"--n={objects}", "--names=crowd")
        load("seed", *of)
        churns.append(start_load("churn", *of, f"--rate={AT_ONCE // 2}"))
    waiting = start_load("csi", f"--socket={bench.driver.socket}", "--op=create", "--names=never-too", f"--n={WAITING}", f"--parallel={WAITING}",
                         "--seconds=600")
    time.sleep(max(15, WAITING // 50))  # by this time all of them have been requested
    (changes, seconds), cpu = churned(churns), cpu_ms(pid)
    time.sleep(10)
    more, later = churned(churns)
    print(f"changes: {(more - changes) / (later - seconds):.0f} per second; CPU of the driver, which only waits: {(cpu_ms(pid) - cpu) / 100:.1f} % of a core")
    bench.life("csi", "at-once", 1000, 1000)
    more, later = churned(churns)
    print(f"changes: {more / later:.0f} per second from the beginning")
    bench.pss("meanwhile")
    for process in (waiting, *churns):
        if not process.alive():
            raise Failed(process.log())
        process.kill()


def forbid_watching():
    """Takes the right to watch attachments from the driver's account. Watches that are open stay until the API server restarts."""
    role = json.loads(kubectl("get", "role", "-n", DPF, ACCOUNT, "-o", "json"))
    for rule in [rule for rule in role["rules"] if "dpuvolumeattachments" in rule["resources"] and "watch" in rule["verbs"]]:
        rule["resources"].remove("dpuvolumeattachments")
        role["rules"].append({**rule, "resources": ["dpuvolumeattachments"], "verbs": [verb for verb in rule["verbs"] if verb != "watch"]})
    kubectl("replace", "-f", "-", text=json.dumps(role))


def without_the_index(bench, objects):
    """Deletes ask lists then, and those without labels are all of these."""
    make_like(bench)
    load("seed", f"--kubeconfig={bench.cluster.admin}", "--template=bench-0-like-0", f"--n={objects}", "--names=unlabelled", "--labelled=false")
    bench.does("csi", "create", "unwatched", 400, 50)
    forbid_watching()
    bench.dpf.kill()
    bench.cluster.apiserver.restart()
    bench.start_dpf()
    until("the driver notices", lambda: "cannot watch" in bench.driver.log())
    head(f"without the index, among {objects} unlabelled attachments")
    bench.life("csi", "unwatched", 400, 80, ("delete",))


# ---------------------------------------------------------------- counted, not timed
def counted(events):
    """How many requests of a kind had which answer."""
    kinds = collections.Counter(f"{e['verb']} {e['objectRef']['resource']} {e['responseStatus']['code']}" for e in events)
    return ", ".join(f"{kind}: {n}" for kind, n in sorted(kinds.items()))


def publishes(bench, n):
    """No Publish takes longer than 2 s, none asks twice for what it knows, and none is refused anything."""
    bench.does("csi", "create", "counted", n, 50)
    requests = Requests()
    got = bench.does("csi", "publish", "counted", n, 50)
    print(f"{n} Publishes, 50 at a time: {got['failed']} failed, p50 {got['p50']:.0f} ms, p99 {got['p99']:.0f} ms, longest {got['most']:.0f} ms;"
          f" requests: {counted(requests.events('snap-csi'))}", flush=True)
    kinds = collections.Counter(requests.of("snap-csi"))
    # Each reads its volume and writes its attachment; one whose event is late by some seconds reads that.
    if got["failed"] or got["most"] > 2000 or kinds["create dpuvolumeattachments"] != n or kinds["get dpuvolumes"] != n:
        raise Failed(f"that is not what {n} Publishes cost: {got['why'] if got['failed'] else dict(kinds)}")
    for op in ("unpublish", "delete"):
        bench.does("csi", op, "counted", n, 50)


def pages(bench, n):
    """Each driver that starts reads all attachments by pages, since the API server sends no list as a stream."""
    objects, page = 20000, 500
    make_like(bench)
    load("seed", f"--kubeconfig={bench.cluster.admin}", "--template=bench-0-like-0", f"--n={objects}", "--names=others")
    bench.dpf.kill()
    bench.driver.kill()
    bench.cluster.apiserver.more = ["--feature-gates=WatchList=false"]
    bench.cluster.apiserver.restart()
    bench.start_dpf()
    read, starts, longest, said = [], 0, 0.0, ""
    while len(read) < n:
        requests = Requests()
        driver = Driver(f"driver-pages-{starts}", bench.configuration, more=("--v=0",))
        # It needs to know where the volume is, so it waits for the last page.
        for op in OPS:
            got = load("csi", f"--socket={driver.socket}", f"--op={op}", f"--names=paged-{starts}", "--n=1")
            if got["failed"]:
                raise Failed(f"{op} of start {starts}: {got['why']}")
            longest = max(longest, got["most"])
        driver.kill()
        said += driver.log()
        lists = [e for e in requests.events("snap-csi") if e["verb"] == "list" and e["objectRef"]["resource"] == "dpuvolumeattachments"]
        if len(lists) != objects // page + 1:
            raise Failed(f"start {starts} has read {len(lists)} pages of {page} among {objects + 1} attachments: {counted(lists)}")
        read += lists
        starts += 1
    print(f"{len(read)} pages of {starts} starts among {objects} attachments of others: {counted(read)}; longest call {longest:.0f} ms;"
          f" warnings of the drivers: {[line for line in said.splitlines() if line.startswith(('W ', 'E '))] or 'none'}", flush=True)
    if {e["responseStatus"]["code"] for e in read} != {200}:
        raise Failed("not every page was answered")


def set_apart():
    cpus = sorted(os.sched_getaffinity(0))
    half = len(cpus) // 2
    if not half:
        raise Failed("BENCH_APART takes two processors")
    Server.cpus = ",".join(str(cpu) for cpu in cpus[:half])
    os.sched_setaffinity(0, cpus[half:])
    print(f"API server and etcd on processor {Server.cpus}, all others on {cpus[half:]}", flush=True)


def main():
    if APART:
        set_apart()
    cluster = Cluster()
    configuration = kubeconfig("bench.kubeconfig", PORT, {"token": token()})
    driver = Driver("driver-bench", configuration, IMAGE, more=("--v=0",))
    bench = Bench(cluster, driver, configuration)
    for work, n in ((publishes, PUBLISHES), (pages, PAGES)):
        if n:
            work(bench, n)
    if PUBLISHES or PAGES:
        print("bench-kube: counted")
        return
    head("the first attachment of each node, which reads its DPUNode and its DPUs")
    bench.life("csi", "first", NODES, 1)
    warm(bench)
    bench.pss("idle")
    for n, parallel in ((SERIAL, 1), (MANY, 50)):
        head(f"{parallel} at a time")
        for who in ("bare", "csi"):
            bench.life(who, f"{who}-{parallel}", n, parallel)
    curl_alone()
    bench.pss(f"after {4 * (SERIAL + MANY)} calls")
    sizes(bench)
    for objects in OBJECTS:
        if objects:
            among_others(bench, objects)
    if WAITING and not AT_ONCE:
        while_others_wait(bench)
    if AT_ONCE:
        all_at_once(bench)
    if UNWATCHED:
        without_the_index(bench, UNWATCHED)
    print("bench-kube: done")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
