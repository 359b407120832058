#!/usr/bin/env python3
"""sbom.py ROOT NAME: are the bills of materials of an image whole? What SPDX 2.3 and CycloneDX 1.5 require of a document, that
both name the same parts, and that these are the packages of the image and what is linked into the driver."""
import json
import re
import sys
from pathlib import Path

root, name = Path(sys.argv[1]), sys.argv[2]
folder = root / "usr/share/sbom"
spdx = json.loads((folder / f"{name}.spdx.json").read_text())
cdx = json.loads((folder / f"{name}.cdx.json").read_text())
wrong = []


def check(right, what):
    if not right:
        wrong.append(what)


PURL = re.compile(r"pkg:(deb/debian|generic)/([a-z0-9.+-]|%[0-9A-F]{2})+@[A-Za-z0-9.%~-]+\?arch=[a-z0-9]+(&[a-z]+=[A-Za-z0-9.%~-]+)*")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# SPDX 2.3, clauses 6, 7 and 11.
for key in ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships"):
    check(key in spdx, f"SPDX document without {key}")
check(spdx["spdxVersion"] == "SPDX-2.3" and spdx["dataLicense"] == "CC0-1.0" and spdx["SPDXID"] == "SPDXRef-DOCUMENT", "SPDX header")
check(re.fullmatch(r"[a-z]+:[^#]+", spdx["documentNamespace"]), "namespace is no URI")
check(TIME.fullmatch(spdx["creationInfo"]["created"]), "SPDX time")
check(all(re.match("(Tool|Person|Organization): ", one) for one in spdx["creationInfo"]["creators"]), "SPDX creators")
ids = [package["SPDXID"] for package in spdx["packages"]]
check(len(ids) == len(set(ids)), "an SPDXID twice")
for package in spdx["packages"]:
    for key in ("name", "SPDXID", "downloadLocation"):
        check(package.get(key), f"{package}: no {key}")
    check(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", package["SPDXID"]), package["SPDXID"])
    for reference in package.get("externalRefs", []):
        check(reference["referenceCategory"] == "PACKAGE-MANAGER" and reference["referenceType"] == "purl", f"{reference}")
        check(PURL.fullmatch(reference["referenceLocator"]), reference["referenceLocator"])
for relation in spdx["relationships"]:
    check(relation["relationshipType"] in ("DESCRIBES", "CONTAINS", "STATIC_LINK"), f"{relation}")
    for end in relation["spdxElementId"], relation["relatedSpdxElement"]:
        check(end in ids or end == "SPDXRef-DOCUMENT", f"a relationship with {end}, which is nothing")
check(any(r["relationshipType"] == "DESCRIBES" for r in spdx["relationships"]), "it describes nothing")

# CycloneDX 1.5.
check(cdx["bomFormat"] == "CycloneDX" and cdx["specVersion"] == "1.5" and cdx["version"] == 1, "CycloneDX header")
check(re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", cdx["serialNumber"]), "serial number")
check(TIME.fullmatch(cdx["metadata"]["timestamp"]), "CycloneDX time")
refs = [cdx["metadata"]["component"]["bom-ref"]] + [component["bom-ref"] for component in cdx["components"]]
check(len(refs) == len(set(refs)), "a bom-ref twice")
for component in cdx["components"]:
    check(component["type"] in ("application", "library", "operating-system") and component["name"], f"{component}")
    check(component["type"] == "operating-system" or PURL.fullmatch(component["purl"]), f"{component}")
for dependency in cdx["dependencies"]:
    for ref in [dependency["ref"], *dependency.get("dependsOn", [])]:
        check(ref in refs, f"a dependency on {ref}, which is nothing")

# The same parts, and all of them.
in_spdx = {r["referenceLocator"] for p in spdx["packages"] for r in p.get("externalRefs", [])}
in_cdx = {component["purl"] for component in cdx["components"] if "purl" in component}
check(in_spdx == in_cdx, f"only one of the two has {in_spdx ^ in_cdx}")
for entry in (root / "var/lib/dpkg/status.d").iterdir():
    if entry.suffix != ".md5sums":
        fields = dict(re.findall(r"^(\w+): (.*)", entry.read_text(), re.M))
        check(any(c["name"] == fields["Package"] and c.get("version") == fields["Version"] for c in cdx["components"]),
              f"{entry.name} is in the image and not in the bill")
static = {p["name"]: p["versionInfo"] for p in spdx["packages"] if "linked into the driver" in p.get("comment", "")}
for package in ("libgrpc-dev", "libabsl-dev", "libc-ares-dev", "libprotobuf-c-dev", "libstdc++-12-dev"):
    check(static.get(package), f"{package} is linked into the driver, and not in the bill")
    check((root / "var/lib/dpkg/status.d" / package).exists(), f"{package} is linked into the driver, and scanners do not learn it")
print(f"{len(in_cdx)} parts, of them {len(static)} linked into the driver")
for what in wrong:
    print(what)
sys.exit(bool(wrong))
