#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many lives of volumes on two hosts, by two controllers, under faults of the API, of DPF, of devices and of the network at once,
with kills of drivers. Each minute and at the end: nothing lost, nothing leaked, no code that is wrong, no call that outlives its
deadline. Between storms everything rests, and what the drivers that were never killed take then must not grow.

Usage: soak.py --out build/release --build build [--seconds 7200] [--lives 10] [--period 600] [--seed N]. Needs root and a mount namespace of its
own (rules.mk). Writes build/soak/soak.csv and soak.svg. Ends with "soak: N passed, N failed".
"""
import argparse
import os
import re
import signal
import sys
import threading
import time

from expect import Failed, check
from figures import Recorder
from lives import CALL_SECONDS, Book, Life
from service import CALM, STORM, Service
from storm import Storm
from world import STEADY, World

REST_SECONDS = 35   # a thread without a call ends after 30 s
PERIOD_SECONDS = 600
CALM_SHARE, CALM_SECONDS = 0.1, 20  # of a period, before its storm
LATE_SECONDS = 15   # what a call may take beyond its deadline on a busy machine, with a device that hangs


class Soak:
    def __init__(self, options):
        self.options, self.book = options, Book()
        self.world = World(os.path.abspath(options.out), os.path.abspath(options.build), options.lives // 2 + 2)
        self.service = Service()
        self.storm, self.go = Storm(self.world, self.book, self.service, options.seed), threading.Event()
        self.lives = []
        self.recorder = Recorder(self.world.drivers, self.book, max(1, options.seconds / 1000))
        self.passed = self.failed = 0

    def case(self, name, function):
        try:
            function()
            self.passed += 1
            print(f"ok   {name}", flush=True)
        except Failed as error:
            self.failed += 1
            print(f"FAIL {name}: {error}", flush=True)

    def say(self, text):
        print(f"     {time.monotonic() - self.recorder.began:6.0f} s, {self.book.lives} lives: {text}", flush=True)

    def period(self, seconds):
        """Lives without faults, a storm, then a rest."""
        end = time.monotonic() + seconds - REST_SECONDS
        self.go.set()
        time.sleep(min(CALM_SECONDS, seconds * CALM_SHARE))
        self.service.enter(STORM, self.world.drivers.values())
        self.storm.begin()
        while time.monotonic() < end:
            time.sleep(max(0, min(60, end - time.monotonic())))
            self.book.compare(self.world)
            self.say(f"{len(self.book.snapshot())} volumes, {sum(self.storm.counts.values())} faults, {len(self.book.wrongs)} wrong")
        self.storm.end()
        self.go.clear()
        for life in self.lives:
            check(life.quiet.wait(600), f"volume of life {life.number} does not end")
        self.case("after the storm nothing is left", self.world.check_empty)
        self.service.enter(CALM, self.world.drivers.values())
        began = time.monotonic()
        time.sleep(REST_SECONDS)
        for name, figures in self.recorder.rest(began).items():
            self.say(f"{name} at rest: {figures}")

    def run(self):
        self.world.start()
        self.recorder.start()
        self.lives = [Life(self.world, self.book, n, self.go, self.options.seed) for n in range(self.options.lives)]
        for life in self.lives:
            life.start()
        periods = max(2, self.options.seconds // self.options.period)
        for _ in range(periods):
            self.period(self.options.seconds / periods)
        for life in self.lives:
            life.ends = True

    def check_flat(self):
        grown = [f"{name}: {field} was {first} at most, is {last} at least, bound {bound}"
                 for name, field, first, last, bound in self.recorder.growth(STEADY) if last > first + bound]
        check(not grown, "; ".join(grown))

    def check_deadlines(self):
        """By the drivers' own log: a line for each call, with its milliseconds."""
        late, seen = [], 0
        for name, driver in self.world.drivers.items():
            with open(driver.log, encoding="utf-8", errors="replace") as f:
                for line in f:
                    ms = re.search(r"\bms=([0-9.]+)", line)
                    seen += bool(ms)
                    if ms and float(ms[1]) > (CALL_SECONDS + LATE_SECONDS) * 1000:
                        late.append(f"{name}: {line.strip()[:300]}")
        check(seen > 0, "no log line tells the time of a call")
        check(not late, f"{len(late)} calls, the first: {late[:1]}")

    def check_all(self):
        self.case("nothing was lost, leaked or answered with a wrong code", lambda: check(not self.book.wrongs, f"{len(self.book.wrongs)}, the first: {self.book.wrongs[:3]}"))
        self.case("lives were lived", lambda: check(self.book.lives >= len(self.lives), f"only {self.book.lives}"))
        self.case("no call outlived its deadline", self.check_deadlines)
        explained = sum(n for name, n in self.book.codes.items() if name.startswith("Node") and name.endswith(" INTERNAL"))
        self.case("without faults the objectives of docs/operate/slo.md are met", self.service.check_calm)
        self.case("in the storm they are, but for the faults' share", lambda: self.service.check_storm(explained))
        self.case("after each outage the driver recovers", self.service.check_outages)
        self.case("what the drivers take at rest is flat", self.check_flat)

    def write(self):
        where = os.path.abspath(self.options.build) + "/soak"
        self.recorder.ends.set()
        self.recorder.join()
        self.recorder.write_csv(where + "/soak.csv")
        self.recorder.write_svg(where + "/soak.svg", f"soak: {self.book.lives} lives, {sum(self.storm.counts.values())} faults, seed {self.options.seed}")
        for name, n in sorted({**self.book.codes, **self.storm.counts}.items()):
            print(f"     {n:7} {name}")
        print(self.service.table())
        print(f"     {where}/soak.csv and soak.svg")
        if os.environ.get("UPDATE_DOCS"):
            self.service.write("test/reports/soak.md", f"{self.options.seconds} s of the soak: {self.book.lives} lives of volumes on two hosts, "
                               f"{sum(self.storm.counts.values())} faults.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=int, default=7200)
    parser.add_argument("--lives", type=int, default=10)
    parser.add_argument("--period", type=int, default=PERIOD_SECONDS)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"     seed {options.seed}", flush=True)
    soak = Soak(options)
    try:
        soak.run()
        soak.check_all()
    except Failed as error:
        soak.case("the storms", lambda: check(False, str(error)))
    finally:
        soak.storm.calm.set()
        if soak.recorder.is_alive():
            soak.write()
        soak.world.close()
    print(f"soak: {soak.passed} passed, {soak.failed} failed")
    return 1 if soak.failed else 0


if __name__ == "__main__":
    sys.exit(main())
