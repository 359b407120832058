# SPDX-License-Identifier: Apache-2.0
"""Resource use of the drivers: samples, the rule by which they count as flat, a CSV and a plot."""
import csv
import os
import threading
import time

FIELDS = ("anonymous_kb", "pss_kb", "threads", "fds")
# The rule: of the values at rest, the minimum of the last third may exceed the maximum of the first third by so much.
# Variation by heap fragmentation and the number of connections between rests is smaller (600 kB and 4 were seen), and goes
# down as well as up; a leak raises every value of the last third. The PSS is recorded without a limit: it grows when other
# processes of the machine that share the libraries end.
BOUNDS = {"anonymous_kb": 1024, "threads": 2, "fds": 6}
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e")


def sample(pid):
    """{field: value}; None for a process that has ended."""
    found = {}
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            for line in f:
                words = line.split()
                if words[0] in ("Pss:", "Anonymous:"):
                    found["pss_kb" if words[0] == "Pss:" else "anonymous_kb"] = int(words[1])
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            found["threads"] = int(next(line.split()[1] for line in f if line.startswith("Threads:")))
        found["fds"] = len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, StopIteration):
        return None
    return found if len(found) == len(FIELDS) else None


class Recorder(threading.Thread):
    """A sample of every driver each `pause` seconds."""

    def __init__(self, drivers, book, pause):
        super().__init__(daemon=True)
        self.drivers, self.book, self.pause = drivers, book, pause
        self.began, self.rows, self.rests, self.ends = time.monotonic(), [], [], threading.Event()

    def run(self):
        while not self.ends.wait(self.pause):
            for name, driver in self.drivers.items():
                figures = driver.process and sample(driver.process.pid)
                if figures:
                    self.rows.append({"seconds": round(time.monotonic() - self.began, 1), "lives": self.book.lives, "driver": name,
                                      "start": driver.starts, **figures})

    def rest(self, began):
        """Keeps what the drivers take when nothing has been asked of them for a while: the least of a few samples."""
        found = {}
        for _ in range(5):
            for name, driver in self.drivers.items():
                figures = sample(driver.process.pid)
                for field, value in (figures or {}).items():
                    at = found.setdefault(name, {})
                    at[field] = min(at.get(field, value), value)
            time.sleep(0.5)
        self.rests.append({"from": began - self.began, "to": time.monotonic() - self.began, "lives": self.book.lives, **found})
        return found

    def growth(self, steady):
        """[(driver, field, most of the first third, least of the last third, bound)] over the rests."""
        third = max(1, len(self.rests) // 3)
        first, last = self.rests[:third], self.rests[-third:]
        return [(name, field, max(r[name][field] for r in first), min(r[name][field] for r in last), BOUNDS[field])
                for name in steady for field in BOUNDS]

    def write_csv(self, path):
        with open(path, "w", encoding="ascii", newline="") as f:
            out = csv.DictWriter(f, ["seconds", "lives", "driver", "start", *FIELDS])
            out.writeheader()
            out.writerows(self.rows)

    def write_svg(self, path, title):
        """A panel for each field over time, a line for each driver; rests are grey."""
        width, height, left, gap = 1000, 150, 70, 30
        end = max([r["seconds"] for r in self.rows] + [1])
        names = list(self.drivers)

        def x(seconds):
            return left + (width - left - 10) * seconds / end
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(FIELDS) * (height + gap) + 60}" '
               'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
               f'<text x="{left}" y="18">{title}</text>']
        for i, name in enumerate(names):
            out.append(f'<text x="{left + 130 * i}" y="36" fill="{COLOURS[i]}">{name}</text>')
        for panel, field in enumerate(FIELDS):
            top = 50 + panel * (height + gap)
            most = max([r[field] for r in self.rows] + [1])
            for rest in self.rests:
                out.append(f'<rect x="{x(rest["from"]):.1f}" y="{top}" width="{x(rest["to"]) - x(rest["from"]):.1f}" height="{height}" fill="#eee"/>')
            out.append(f'<rect x="{left}" y="{top}" width="{width - left - 10}" height="{height}" fill="none" stroke="#999"/>')
            out.append(f'<text x="4" y="{top + 12}">{most}</text><text x="4" y="{top + height}">0</text>'
                       f'<text x="4" y="{top + height // 2}">{field}</text>')
            for i, name in enumerate(names):
                mine = [r for r in self.rows if r["driver"] == name]
                mine = mine[::max(1, len(mine) // 900)]
                points = " ".join(f'{x(r["seconds"]):.1f},{top + height - height * r[field] / most:.1f}' for r in mine)
                out.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[i]}" stroke-width="1"/>')
        out.append(f'<text x="{left}" y="{50 + len(FIELDS) * (height + gap)}">0 to {end:.0f} s; grey: nothing is asked</text></svg>')
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(out) + "\n")
