#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the panels of a Grafana dashboard as one SVG, from a Prometheus' query_range over the last seconds. No Grafana is needed: the
picture is for docs, and shows what each panel answers.

Usage: picture.py --prometheus URL --seconds N --dashboard FILE --out FILE
"""
import argparse
import html
import json
import math
import re
import sys
import time
import urllib.parse
import urllib.request

COLUMNS, WIDTH, PLOT, GAP = 3, 400, 130, 16
STATS, STAT_HIGH, HEADING = 5, 84, 30  # panels of one number in a line, their height, that of a row's title
LEFT, TOP, LEGEND, NARROW = 54, 28, 12, 30  # of a panel: for the axis, for the title, a line of the legend; letters of a name in half of it
POINTS, SHOWN = 60, 6          # of a line; lines of a panel, the highest ones
COLOURS = ("#3274d9", "#e02f44", "#299c46", "#ff9830", "#8f3bb8", "#0a8a9f")
SIZES = ("", "k", "M", "G", "T")


def ask(url, query, start, end):
    """[(labels, [(seconds from start, value)])]"""
    step = max(0.5, (end - start) / POINTS)
    asked = urllib.parse.urlencode({"query": query, "start": start, "end": end, "step": step})
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{asked}", timeout=10) as answer:
        found = json.load(answer)["data"]["result"]
    return [(series["metric"], [(at - start, float(value)) for at, value in series["values"] if value not in ("NaN", "+Inf", "-Inf")])
            for series in found]


def name_of(legend, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda m: labels.get(m[1], ""), legend).strip() or "value"


def number(value, unit):
    """As an axis says it: short, with its unit."""
    if unit == "percentunit":
        return f"{value * 100:.2g} %" if value < 1 else f"{value * 100:.0f} %"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    size = 0
    base = 1024 if unit in ("bytes", "Bps") else 1000
    while abs(value) >= base and size < len(SIZES) - 1:
        value, size = value / base, size + 1
    text = f"{value:.3g} {SIZES[size]}".rstrip()
    return text + {"bytes": "B", "Bps": "B/s", "reqps": "/s"}.get(unit, "") if size else text + {"bytes": " B", "Bps": " B/s", "reqps": "/s"}.get(unit, "")


def lines_of(panel, options, start, end):
    """[(name, points)], the highest first."""
    found = []
    for target in panel["targets"]:
        query = target["expr"].replace("$__rate_interval", "10s").replace("$__range", "1m").replace("$node", ".*")
        found += [(name_of(target.get("legendFormat", ""), labels), points) for labels, points in ask(options.prometheus, query, start, end)]
    found = [(re.sub(r"127\.0\.0\.1:\d+", "the driver", name), points) for name, points in found if points]
    # A line that is always 0 says less than the room it takes, unless there is no other.
    found = [line for line in found if any(value for _, value in line[1])] or found
    return sorted(found, key=lambda line: -max(value for _, value in line[1]))


def nice(most):
    """The next round number, so that an axis can be read."""
    if most <= 0:
        return 1
    power = 10 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 4, 5, 6, 8, 10) if step * power >= most * 0.999)


def draw(panel, lines, x, y, seconds):
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    most = nice(max([value for _, points in lines for _, value in points] + [0]))
    left, top, wide = x + LEFT, y + TOP, WIDTH - LEFT - 12
    out = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{height()}" rx="3" fill="#fff" stroke="#d8d9da"/>',
           f'<text x="{x + 10}" y="{y + 18}" class="t">{html.escape(panel["title"])}</text>']
    for part in (0, 0.5, 1):
        at = top + PLOT * (1 - part)
        out.append(f'<path d="M{left} {at:.0f}h{wide}" class="g"/><text x="{left - 4}" y="{at + 3:.0f}" class="y">{number(most * part, unit)}</text>')
    for at in (0, seconds / 2, seconds):
        anchor = "start" if at == 0 else "end" if at == seconds else "middle"
        out.append(f'<text x="{left + wide * at / seconds:.0f}" y="{top + PLOT + 12}" text-anchor="{anchor}" class="x">{at:.0f} s</text>')
    shown = lines[:SHOWN]
    for i, (name, points) in reversed(list(enumerate(shown))):
        path, before = [], None
        for at, value in points:
            gap = before is None or at - before > 2.5 * max(0.5, seconds / POINTS)
            path.append(f'{"M" if gap else "L"}{left + wide * at / seconds:.0f} {top + PLOT * (1 - max(value, 0) / most):.1f}')
            before = at
        out.append(f'<path d="{"".join(path)}" class="l" stroke="{COLOURS[i]}"/>')
    columns = 1 if any(len(name) > NARROW for name, _ in shown) else 2
    for i, (name, _) in enumerate(shown):
        at = top + PLOT + 27 + (i // columns) * (LEGEND if columns == 1 else LEGEND + 4)
        across = x + 12 + (i % columns) * (WIDTH // 2 - 6)
        out.append(f'<rect x="{across}" y="{at - 7}" width="10" height="3" fill="{COLOURS[i]}"/>'
                   f'<text x="{across + 14}" y="{at - 2}" class="k">{html.escape(name)}</text>')
    if len(lines) > SHOWN:
        out.append(f'<text x="{x + WIDTH - 10}" y="{y + 18}" text-anchor="end" class="x">and {len(lines) - SHOWN} lower ones</text>')
    return out


def draw_stat(panel, lines, x, y, wide):
    """The highest value of each line: the state at the worst moment of the run."""
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    out = [f'<rect x="{x}" y="{y}" width="{wide}" height="{STAT_HIGH}" rx="3" fill="#fff" stroke="#d8d9da"/>',
           f'<text x="{x + 10}" y="{y + 18}" class="t">{html.escape(panel["title"])}</text>']
    for i, (name, points) in enumerate(lines):
        worst = (min if name == "fullest node" else max)(value for _, value in points)
        across = x + 10 + i * (wide - 20) // len(lines)
        out.append(f'<text x="{across}" y="{y + 52}" class="s">{number(worst, unit)}</text>'
                   f'<text x="{across}" y="{y + 70}" class="k">{html.escape(name)}</text>')
    return out


def places(panels):
    """[(panel, x, y, width)] and the height of all: a row's title above its panels, numbers in one line, graphs in COLUMNS."""
    found, y, across, high = [], GAP, 0, 0
    for panel in panels:
        kind = panel["type"]
        most = STATS if kind == "stat" else COLUMNS
        if kind == "row" or across == most:
            y, across = y + (high + GAP if across else 0), 0
        if kind == "row":
            found.append((panel, GAP, y, 0))
            y += HEADING
            continue
        wide = (COLUMNS * (WIDTH + GAP) - GAP * most) // most
        high = STAT_HIGH if kind == "stat" else height()
        found.append((panel, GAP + across * (wide + GAP), y, wide))
        across += 1
    return found, y + high + GAP


def height():
    return TOP + PLOT + 20 + LEGEND * SHOWN + 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prometheus", required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--dashboard", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    end = time.time()
    start = end - options.seconds
    with open(options.dashboard, encoding="utf-8") as f:
        panels, high = places(json.load(f)["panels"])
    wide = COLUMNS * (WIDTH + GAP) + GAP
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" font-family="DejaVu Sans, Arial, sans-serif">',
           '<style>.t{font-size:13px;font-weight:600;fill:#222}.x,.y,.k{font-size:9.5px;fill:#555}.y{text-anchor:end}.h{font-size:15px;font-weight:600;fill:#444}.s{font-size:26px;font-weight:600;fill:#222}'
           '.g{stroke:#e7e8e9;fill:none}.l{fill:none;stroke-width:1.4;stroke-linejoin:round}</style>',
           f'<rect width="{wide}" height="{high}" fill="#f4f5f5"/>']
    empty = []
    for panel, x, y, width in panels:
        if panel["type"] == "row":
            out.append(f'<text x="{x}" y="{y + 19}" class="h">{html.escape(panel["title"])}</text>')
            continue
        lines = lines_of(panel, options, start, end)
        if not lines:
            empty.append(panel["title"])
        elif panel["type"] == "stat":
            out += draw_stat(panel, lines, x, y, width)
        else:
            out += draw(panel, lines, x, y, options.seconds)
    out.append("</svg>")
    with open(options.out, "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")
    if empty:
        print("panels without data: " + ", ".join(empty))
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main())
