# SPDX-License-Identifier: Apache-2.0
"""Software bills of materials of an image, SPDX 2.3 and CycloneDX 1.5 (JSON): the Debian packages that have files in it, and
those whose archives are linked into the driver. Same packages, same bytes.

Debian's advisories are about source packages: a package of another name than its source's has it in its address
(purl). Both files lie in the image, in /usr/share/sbom."""
import json
import re
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

NAMESPACE = uuid.UUID("5b0d3a52-6b53-5e0c-9a0e-2f6f5f0b7c11")
PROGRAM = "snap-csi-plugin"


@dataclass(frozen=True)
class Part:
    name: str
    version: str
    arch: str
    note: str = ""
    source: str = ""
    source_version: str = ""
    supplier: str = ""

    def purl(self, distro):
        if self.name == PROGRAM:
            return f"pkg:generic/{PROGRAM}@{quote(self.version, safe='')}?arch={self.arch}"
        upstream = ""
        if self.source and (self.source, self.source_version) != (self.name, self.version):
            upstream = "&upstream=" + quote(self.source if self.source_version == self.version
                                            else f"{self.source}@{self.source_version}", safe="")
        return f"pkg:deb/debian/{quote(self.name, safe='')}@{quote(self.version, safe='')}?arch={self.arch}&distro={distro}{upstream}"

    @property
    def ref(self):
        return re.sub(r"[^A-Za-z0-9.-]", "-", f"{self.name}-{self.version}-{self.arch}")


def static_packages(path):
    """(the driver, the packages that are linked into it): lines of name, version, architecture, source, its version, maintainer;
    the first line is the driver's."""
    rows = [line.split("\t") for line in Path(path).read_text().splitlines()]
    name, version, arch, _, commit, _ = rows[0]
    program = Part(name, version, arch, note=f"built from commit {commit}" if commit else "")
    return program, [Part(name, version, arch, "linked into the driver", source, source_version, maintainer)
                     for name, version, arch, source, source_version, maintainer in rows[1:]]


def installed(package):
    """A package of rootfs.py as a part."""
    version = package.field("Version")
    found = re.fullmatch(r"(\S+)(?: \((.*)\))?", package.field("Source", package.name))
    return Part(package.name, version, package.field("Architecture"), note=package.note, source=found.group(1),
                source_version=found.group(2) or version, supplier=package.field("Maintainer"))


def spdx(name, program, parts, static, distro, created):
    def package(part):
        one = {"SPDXID": "SPDXRef-" + part.ref, "name": part.name, "versionInfo": part.version,
               "supplier": supplier(part.supplier), "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
               "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0" if part == program else "NOASSERTION",
               "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION" if part == program else "LIBRARY",
               "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": part.purl(distro)}]}
        if part.source:
            one["sourceInfo"] = f"built from {part.source} {part.source_version}"
        if part.note:
            one["comment"] = part.note
        return one

    def relation(one, kind, other):
        return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}

    image = {"SPDXID": "SPDXRef-image", "name": name, "versionInfo": program.version, "supplier": "NOASSERTION",
             "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
             "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", "primaryPackagePurpose": "CONTAINER"}
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
            "creationInfo": {"created": created, "creators": ["Tool: snap-csi-sbom-" + program.version]},
            "packages": [image] + [package(part) for part in [program, *parts, *static]],
            "relationships": [relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image")] +
                             [relation("SPDXRef-image", "CONTAINS", "SPDXRef-" + part.ref) for part in [program, *parts]] +
                             [relation("SPDXRef-" + program.ref, "STATIC_LINK", "SPDXRef-" + part.ref) for part in static]}


def supplier(maintainer):
    return "Organization: " + re.sub(r" *<(.*)>", r" (\1)", maintainer) if maintainer else "NOASSERTION"


def cyclonedx(name, program, parts, static, distro, created):
    def component(part):
        one = {"type": "application" if part == program else "library", "bom-ref": part.purl(distro), "name": part.name,
               "version": part.version, "purl": part.purl(distro)}
        if part == program:
            one["licenses"] = [{"license": {"id": "Apache-2.0"}}]
        if part.supplier:
            one["supplier"] = {"name": re.sub(r" *<.*>", "", part.supplier)}
        if part.note:
            one["description"] = part.note
        return one

    everything = [program, *parts, *static]
    release = distro.rpartition("-")[2]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": created,
                         "tools": {"components": [{"type": "application", "name": "snap-csi-sbom", "version": program.version}]},
                         "component": {"type": "container", "bom-ref": name, "name": name, "version": program.version}},
            "components": [{"type": "operating-system", "bom-ref": distro, "name": "debian", "version": release}] +
                          [component(part) for part in everything],
            "dependencies": [{"ref": name, "dependsOn": sorted(part.purl(distro) for part in [program, *parts])},
                             {"ref": program.purl(distro), "dependsOn": sorted(part.purl(distro) for part in static)}]}


def write(root, name, packages, static, epoch):
    """Into ROOT/usr/share/sbom. static is what static_packages() has returned."""
    program, linked = static
    parts = [installed(package) for package in packages]
    distro = "debian-" + re.search(r'^VERSION_ID="?(\w+)', (root / "etc/os-release").read_text(), re.M).group(1)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    folder = root / "usr/share/sbom"
    folder.mkdir(parents=True)
    one = spdx(name, program, parts, linked, distro, created)
    other = cyclonedx(name, program, parts, linked, distro, created)
    # An identity that depends on the contents alone.
    identity = uuid.uuid5(NAMESPACE, json.dumps([one, other], sort_keys=True))
    one["documentNamespace"] = f"urn:uuid:{identity}"
    other["serialNumber"] = f"urn:uuid:{identity}"
    for ending, document in ("spdx", one), ("cdx", other):
        (folder / f"{name}.{ending}.json").write_text(json.dumps(document, indent=1) + "\n")
