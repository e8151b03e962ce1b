"""The bill of materials of the program: a CycloneDX document made of what Cargo says.

Ours, because Cargo says all of it: a tool for it would be one more program to build and to trust.
"""

import json
import subprocess
import tomllib
import uuid
from datetime import datetime, timezone
from pathlib import Path


def output(root: Path, *words: str) -> str:
    return subprocess.run(words, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout


def bill(root: Path, version: str, target: str, time: int) -> bytes:
    """The crates whose code is in the program for this target, and who needs whom."""
    # The tree knows the features of this one program; the metadata are those of the workspace.
    words = ["cargo", "tree", "--locked", "--package", "switchboard", "--target", target]
    lines = output(root, *words, "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")
    inside = {tuple(line.split()[:2]) for line in lines.splitlines()}
    metadata = json.loads(output(root, "cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target))
    crates = {it["id"]: it for it in metadata["packages"] if (it["name"], f"v{it['version']}") in inside}
    lock = tomllib.loads((root / "Cargo.lock").read_text())["package"]
    checksums = {(it["name"], it["version"]): it.get("checksum") for it in lock}
    components = sorted((component(it, checksums) for it in crates.values()), key=lambda it: it["bom-ref"])
    program = next(it for it in components if it["name"] == "switchboard")
    components.remove(program)
    nodes = [node for node in metadata["resolve"]["nodes"] if node["id"] in crates]
    links = [{"ref": purl(crates[node["id"]]), "dependsOn": needs(node, crates)} for node in nodes]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**program, "type": "application"},
            "properties": [{"name": "cargo:target", "value": target}],
        },
        "components": components,
        "dependencies": sorted(links, key=lambda it: it["ref"]),
    }
    # The same content has the same number.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    document["serialNumber"] = f"urn:uuid:{number}"
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def needs(node: dict, crates: dict) -> list[str]:
    """What a crate is built of, without what its tests and its build need."""
    own = [it["pkg"] for it in node["deps"] if any(kind["kind"] is None for kind in it["dep_kinds"])]
    return sorted({purl(crates[id]) for id in own if id in crates})


def purl(crate: dict) -> str:
    # A version may say what C library it has inside: 0.7.1+5.3.1.
    return f"pkg:cargo/{crate['name']}@{crate['version'].replace('+', '%2B')}"


def component(crate: dict, checksums: dict) -> dict:
    found = {
        "type": "library",
        "bom-ref": purl(crate),
        "purl": purl(crate),
        "name": crate["name"],
        "version": crate["version"],
        "description": " ".join((crate["description"] or "").split()),
    }
    if crate["license"]:
        found["licenses"] = [{"expression": crate["license"].replace("/", " OR ")}]
    checksum = checksums.get((crate["name"], crate["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if crate["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": crate["repository"]}]
    return found
