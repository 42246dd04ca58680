"""Write what this image is made of: every Python distribution and Debian package in it, as CycloneDX 1.6 JSON.

Run inside the image, by the Python of its environment; the name of the image is the argument. Reads what pip and dpkg
have written down, so that nothing has to be installed for it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from importlib import metadata
from urllib.parse import quote

_FIELDS = ("Package", "Version", "Architecture")


def list_python() -> list[dict[str, object]]:
    found = {}
    for one in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()
        purl = f"pkg:pypi/{name}@{quote(one.version)}"
        found[purl] = _describe(name, one.version, purl, one.metadata.get("License-Expression"))
    return list(found.values())


def list_debian() -> list[dict[str, object]]:
    form = "\\t".join(f"${{{name}}}" for name in _FIELDS) + "\\t${db:Status-Status}\\n"
    try:
        told = subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        return []
    rows = [line.split("\t") for line in told.splitlines()]
    return [
        _describe(name, version, f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}")
        for name, version, architecture, status in rows
        if status == "installed"
    ]


def _describe(name: str, version: str, purl: str, license_expression: str | None = None) -> dict[str, object]:
    found: dict[str, object] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if license_expression:
        found["licenses"] = [{"expression": license_expression}]
    return found


def write_sbom(image: str) -> dict[str, object]:
    parts = sorted([*list_python(), *list_debian()], key=lambda one: str(one["purl"]))
    mark = hashlib.sha256("\n".join(str(one["purl"]) for one in parts).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # By what is inside and not by chance: the same image has the same list.
        "serialNumber": f"urn:uuid:{mark[:8]}-{mark[8:12]}-5{mark[13:16]}-8{mark[17:20]}-{mark[20:32]}",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": image, "version": metadata.version("belljar")}},
        "components": parts,
    }


if __name__ == "__main__":
    json.dump(write_sbom(sys.argv[1]), sys.stdout, indent=1)
