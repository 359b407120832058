"""docs/use/kubernetes-life.md: what kubectl showed while the scenarios ran, with what is different each time made equal."""
import re

from kube import NAME, ROOT, kubectl

HEAD = """# A claim's life in Kubernetes

This page shows what a user sees, on Kubernetes 1.36 with the driver and sidecars of manifests/base: written by
`make image-test && UPDATE_DOCS=1 make e2e-kube-pods`. Ages, addresses and the random parts of names are normalized.
"""
sections = []


def same(text, numbers):
    """Random names become short ones that are the same in each run."""
    def number(match):
        kind, key = match.group(1), match.group(0)
        return f"{kind}{numbers.setdefault(key, len(numbers) + 1):04d}"
    text = re.sub(r"\b()[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", number, text)
    text = re.sub(r"\b(csi-)[0-9a-f]{64}\b", number, text)
    text = re.sub(r"(csi\.snap\.nvidia\.com_)\S+", r"\1snap-csi-controller", text)
    text = re.sub(r"\b10\.244\.\d+\.\d+\b", "10.244.0.2", text)
    text = re.sub(r"\be2e-\d+\b", "default", text).replace(NAME, "cluster")
    text = re.sub(r"x\d+ over ", "x2 over ", text)
    return re.sub(r"(?<![^\s])\d+m?\d*s(?=\s|$|\))", "9s", text)


def table(lines, numbers):
    """A table of kubectl, whose columns begin where those of its head do; some cells may be empty."""
    starts = [m.start() for m in re.finditer(r"(?:(?<=  )|^)\S", lines[0])]
    rows = [[same(line[start:end].strip(), numbers) for start, end in zip(starts, starts[1:] + [None])] for line in lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(starts))]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def align(text, numbers):
    """Tables one by one, since what is made equal in them changes the widths of their columns."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.splitlines()
        out.append("\n".join(table(lines, numbers) if lines and lines[0].startswith("NAME") else [same(x, numbers) for x in lines]))
    return "\n\n".join(out)


numbers_of_page = {}


def add(title, command, text):
    sections.append((title, command, align(text, numbers_of_page)))


def show(title, command, *arguments):
    done = kubectl(*arguments)
    add(title, command, done.stdout or done.stderr)


def show_events(title, command, kind, namespace, name):
    """The events of `kubectl describe`, without the age, which is what differs most."""
    lines = kubectl("describe", kind, "-n", namespace, name).stdout
    events = lines[lines.index("\nEvents:") + 1:] if "\nEvents:" in lines else ""
    rows = [re.split(r"  +", line.strip(), maxsplit=4) for line in events.splitlines()[3:]]
    add(title, command, "\n".join(f"{row[0]:8} {row[1]:22} {row[4]}" for row in rows if len(row) == 5))


def write():
    with open(f"{ROOT}/docs/use/kubernetes-life.md", "w", encoding="utf-8") as page:
        page.write(HEAD)
        for title, command, text in sections:
            if title:
                page.write(f"\n## {title}\n")
            page.write(f"\n    $ {command}\n")
            page.writelines(f"    {line}".rstrip() + "\n" for line in text.splitlines())
    print("written: docs/use/kubernetes-life.md")
