# SPDX-License-Identifier: Apache-2.0
"""What docs/operate/slo.md promises, from the drivers' own /metrics: the formulas of manifests/monitoring/rules.yaml, over what the counters
of a phase have gained. A phase is calm (lives without faults) or a storm. A driver that is killed is read just before."""
import collections
import http.client
import os
import re
import socket
import threading
import time

from expect import check

LINE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="([^"]*)"')
FAULTS = ("INTERNAL", "UNKNOWN", "DATA_LOSS")
CONTROLLER_CALL = re.compile(r"(Create|Delete|Controller.*)Volume(Health)?|ValidateVolumeCapabilities")
CALM, STORM = "calm", "storm"
# The least share of calls; the most seconds of own time for a call. Pauses before a request is tried
# again are own time, too: in a storm they are the faults' share, and not held against anything.
IN_TIME, WITHOUT_FAULT, OWN_SECONDS = 0.999, 1, 0.010
IN_TIME_STORM = 0.99
RECOVERY_SECONDS = 60  # other faults of the storm continue during this time, except watches that hang


class OverUnix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("driver", timeout=3)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def read(path):
    """{(name, labels): value}, or None if the page is unreachable. labels: sorted (name, value)."""
    connection = OverUnix(path)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    found = {}
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            found[match[1], tuple(sorted(LABEL.findall(match[2] or "")))] = float(match[3])
    return found


def total(page, name, **want):
    """The sum of the series of a name; `want`: a pattern for a label's whole value."""
    found = 0
    for (series, labels), value in page.items():
        if series == name:
            of = dict(labels)
            found += value if all(re.fullmatch(pattern, of.get(label, "")) for label, pattern in want.items()) else 0
    return found


class Service:
    """Adds up what each driver's counters gain in each phase. Any thread."""

    def __init__(self):
        self.lock, self.phase = threading.Lock(), CALM
        self.gained = {}  # (driver, phase) -> page
        self.before = {}  # driver -> (start, page)
        self.outages = collections.defaultdict(list)

    def look(self, driver):
        page = read(driver.http)
        if page is None:
            return
        with self.lock:
            start, before = self.before.get(driver.name, (0, {}))
            if start != driver.starts:
                before = {}
            self.before[driver.name] = (driver.starts, page)
            gained = self.gained.setdefault((driver.name, self.phase), collections.Counter())
            for series, value in page.items():
                gained[series] += value - before.get(series, 0)

    def enter(self, phase, drivers):
        """Counts until now belong to the previous phase."""
        for driver in drivers:
            self.look(driver)
        self.phase = phase

    # -- outages --------------------------------------------------------------------------------
    def recovered(self, what, began):
        with self.lock:
            self.outages[what].append(time.monotonic() - began)

    def follows(self, driver):
        """Does the controller follow both kinds, as far as it knows?"""
        return total(read(driver.http) or {}, "snap_csi_watch_open") == 2

    def wait_for_api(self, what, driver, calm):
        """Starts now, when the network works again, and ends when the controller has received an answer of the API server and
        follows both kinds."""
        began, now, start = time.monotonic(), time.time(), driver.starts
        while time.monotonic() - began < RECOVERY_SECONDS and driver.starts == start:
            page = read(driver.http) or {}
            if total(page, "snap_csi_api_answered_timestamp_seconds") > now and total(page, "snap_csi_watch_open") == 2:
                break
            if calm.wait(0.05):
                return
        if driver.starts == start:
            self.recovered(what, began)

    # -- figures --------------------------------------------------------------------------------
    def figures(self, mode, phase):
        page = collections.Counter()
        for (name, of), gained in self.gained.items():
            if of == phase and mode in name:
                page.update(gained)
        calls = "snap_csi_operation_duration_seconds_count"
        n = total(page, calls, method="(?!Probe$).*")
        late = total(page, "snap_csi_operations_abandoned_total", method="(?!Probe$).*")
        faults = total(page, calls, method="(?!Probe$).*", code="|".join(FAULTS))
        asked = total(page, calls, method=CONTROLLER_CALL.pattern)
        own = (total(page, "snap_csi_operation_duration_seconds_sum", method=CONTROLLER_CALL.pattern) - total(page, "snap_csi_wait_duration_seconds_sum")
               - total(page, "snap_csi_api_request_duration_seconds_sum", verb="create|get|patch|delete"))
        return {"calls": int(n), "in_time": 1 - late / n if n else 1, "faults": int(faults), "without_fault": 1 - faults / n if n else 1,
                "own": own / asked if asked else None}

    def check_calm(self):
        for mode in ("controller", "host"):
            f = self.figures(mode, CALM)
            check(f["calls"] > 20, f"{mode}: only {f['calls']} calls")
            check(f["in_time"] >= IN_TIME, f"{mode}: {f['in_time']:.5f} of {f['calls']} calls in time, objective {IN_TIME}")
            check(f["without_fault"] >= WITHOUT_FAULT, f"{mode}: {f['faults']} of {f['calls']} calls failed by a fault of the driver")
            check(f["own"] is None or f["own"] <= OWN_SECONDS, f"{mode}: {f['own'] or 0:.4f} s of its own for a call, objective {OWN_SECONDS}")

    def check_storm(self, explained):
        """explained: calls that a device which vanished under them let fail; the book has refused all others already."""
        for mode in ("controller", "host"):
            f = self.figures(mode, STORM)
            check(f["in_time"] >= IN_TIME_STORM, f"{mode}: {f['in_time']:.5f} of {f['calls']} calls in time, expected {IN_TIME_STORM}")
            check(f["faults"] <= (explained if mode == "host" else 0), f"{mode}: {f['faults']} calls failed by a fault of the driver, {explained} are explained")

    def check_outages(self):
        check(self.outages, "no outage was measured")
        for what, seconds in self.outages.items():
            check(max(seconds) < RECOVERY_SECONDS, f"{what}: recovered after {max(seconds):.1f} s of {len(seconds)} outages")

    def table(self):
        """The part of test/reports/soak.md that a run writes."""
        out = ["| Phase | Mode | Calls | By their deadline | Without our fault | Own time of a call |", "| --- | --- | --- | --- | --- | --- |"]
        for phase, says in ((CALM, "without faults"), (STORM, "in the storm")):
            for mode, called in (("controller", "controllers"), ("host", "nodes")):
                f = self.figures(mode, phase)
                own = f"{f['own'] * 1000:.1f} ms" if f["own"] is not None else ""
                out.append(f"| {says} | {called} | {f['calls']} | {f['in_time']:.5f} | {f['without_fault']:.5f} | {own} |")
        out += ["", "| Outage | How often | Median until recovered | Longest |", "| --- | --- | --- | --- |"]
        for what, seconds in sorted(self.outages.items()):
            ordered = sorted(seconds)
            out.append(f"| {what} | {len(ordered)} | {ordered[len(ordered) // 2]:.2f} s | {ordered[-1]:.2f} s |")
        return "\n".join(out)

    def write(self, path, about):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        begin, end = "<!-- soak: begin -->\n", "<!-- soak: end -->\n"
        head, rest = text.split(begin)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(f"{head}{begin}{about}\n\n{self.table()}\n{end}{rest.split(end)[1]}")
        os.replace(path + ".new", path)
