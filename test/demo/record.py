#!/usr/bin/env python3
"""Runs a command on its own terminal and draws its output as an SVG: a window that scrolls as the lines arrive.
Usage: record.py FILE.svg TITLE COMMAND [ARG...]. The command's output is passed on; the exit status is the command's, or 125:
the picture is unfit for a page (too large, too wide, empty).

The picture is text, one element per line, moved by one CSS animation: no script, no image, no font of its own. Viewers who
prefer reduced motion, and programs that do not animate, see the end. A line stays at least SHORTEST seconds, so that it can
be read, and a wait is drawn as at most LONGEST; times in the lines are those of the run."""
import os
import pty
import re
import select
import sys
import time
import unicodedata
import xml.etree.ElementTree
from xml.sax.saxutils import escape

COLUMNS, ROWS = 118, 30  # of the terminal, and of the picture
CELL, LINE, SIZE = 7.22, 17, 12  # a column, a row and the letters, in pixels; CELL is 0.602 of SIZE, as in common fonts
MARGIN, BAR, TOP = 14, 30, 6
SHORTEST, LONGEST, END = 0.28, 1.2, 8.0  # seconds
MOST = 100 * 1000  # bytes
STYLES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c"}  # SGR -> class
CSS = ("text{white-space:pre;fill:#d6deeb}.b{font-weight:bold;fill:#ffffff}.d{fill:#8593a8}.r{fill:#ff8a80}.g{fill:#9ccc65}"
       ".y{fill:#ffd166}.c{fill:#66d9e8}")


def run(command):
    """[(seconds, line)] of what it prints, and its exit status."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        try:
            os.execvp(command[0], command)
        except OSError as failure:
            os.write(2, f"{command[0]}: {failure.strerror}\n".encode())
            os._exit(127)
    lines, rest, began = [], b"", time.monotonic()
    while True:
        select.select([terminal], [], [])
        try:
            read = os.read(terminal, 65536)
        except OSError:  # its last holder has closed it
            read = b""
        now = time.monotonic() - began
        sys.stdout.buffer.write(read)
        sys.stdout.buffer.flush()
        *whole, rest = (rest + read).split(b"\n")
        lines += [(now, line.decode("utf-8", "replace").rstrip("\r")) for line in whole]
        if not read:
            break
    if rest:
        lines.append((now, rest.decode("utf-8", "replace")))
    return lines, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def spans(line):
    """[(class, text)] of a line with colours; other sequences of a terminal, and what cannot be shown, are left out."""
    found, style = [], ""
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z])", line):
        if part.startswith("\x1b["):
            if part.endswith("m"):
                style = STYLES.get(part[2:-1].split(";")[-1], "")
            continue
        shown = "".join(c for c in part.expandtabs() if unicodedata.category(c) not in ("Cc", "Cs", "Co", "Cn"))
        if shown:
            found.append((style, shown))
    return found


def times(lines):
    """When each line is drawn: as it came, but no faster than one can read, and no wait without end."""
    drawn, now, before = [], 0.6, lines[0][0]
    for came, text in lines:
        now += min(max(came - before, SHORTEST if text.strip() else 0.05), LONGEST)
        before = came
        drawn.append(now)
    return drawn


def picture(title, lines):
    """The SVG. All lines stand below each other; the group moves up by one line when the next is due."""
    drawn = times(lines)
    whole = drawn[-1] + END
    width, height = round(COLUMNS * CELL + 2 * MARGIN), BAR + TOP + ROWS * LINE + MARGIN
    steps = [f"0%{{transform:translateY({ROWS * LINE}px)}}"]
    steps += [f"{100 * at / whole:.2f}%{{transform:translateY({(ROWS - number) * LINE}px)}}" for number, at in enumerate(drawn, 1)]
    end = (ROWS - len(lines)) * LINE
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" xml:space="preserve" '
        f'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="{SIZE}">',
        f"<title>{escape(title)}</title>",
        f"<style>{CSS}@keyframes s{{{''.join(steps)}to{{transform:translateY({end}px)}}}}"
        f"#s{{animation:s {whole:.1f}s step-end infinite}}@media(prefers-reduced-motion:reduce){{#s{{animation:none}}}}</style>",
        f'<clipPath id="w"><rect x="0" y="{BAR}" width="{width}" height="{TOP + ROWS * LINE}"/></clipPath>',
        f'<rect width="{width}" height="{height}" rx="8" fill="#10161f"/>',
        f'<path d="M0 {BAR}V8a8 8 0 0 1 8-8H{width - 8}a8 8 0 0 1 8 8V{BAR}z" fill="#1d2633"/>',
        *(f'<circle cx="{18 + 18 * number}" cy="{BAR // 2}" r="5.5" fill="{colour}"/>'
          for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))),
        f'<text x="{width / 2:g}" y="{BAR // 2 + 4}" text-anchor="middle" class="d">{escape(title)}</text>',
        f'<g clip-path="url(#w)"><g id="s" transform="translate(0 {end})">',
    ]
    for number, (_, line) in enumerate(lines):
        parts = spans(line)
        if not parts:
            continue
        if len(parts) == 1:
            style, text = parts[0]
            indent = len(text) - len(text.lstrip(" "))  # as a place: not every program keeps leading spaces
            body, kind = escape(text.strip(" ")), style
        else:
            text = "".join(part for _, part in parts)
            indent = len(text) - len(text.lstrip(" "))
            parts[0] = (parts[0][0], parts[0][1].lstrip(" "))
            body = "".join(f'<tspan class="{style}">{escape(part)}</tspan>' if style else escape(part) for style, part in parts)
            kind = ""
        if body:
            out.append(f'<text x="{MARGIN + indent * CELL:.4g}" y="{BAR + TOP + number * LINE + SIZE}"' +
                       (f' class="{kind}"' if kind else "") + f">{body}</text>")
    return "\n".join(out) + "\n</g></g></svg>\n"


def main():
    file, title, *command = sys.argv[1:]
    lines, status = run(command)
    if status:
        return status
    if not lines:
        print(f"record: {command[0]} printed nothing", file=sys.stderr)
        return 125
    widest = max(lines, key=lambda at: sum(len(text) for _, text in spans(at[1])))[1]
    columns = sum(len(text) for _, text in spans(widest))
    if columns > COLUMNS:
        print(f"record: a line of {columns} columns does not fit into {COLUMNS}: {widest}", file=sys.stderr)
        return 125
    drawn = picture(title, [(0.0, f"$ {title}")] + lines)
    if len(drawn.encode()) > MOST:
        print(f"record: {file} would have {len(drawn.encode())} bytes, more than {MOST}", file=sys.stderr)
        return 125
    xml.etree.ElementTree.fromstring(drawn)  # it is what a browser takes
    with open(file, "w", encoding="utf-8") as out:
        out.write(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main())
