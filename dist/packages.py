"""The formats of packages: a tarball, a Debian package, npm packages, a Python wheel.

Each function takes the files that are installed and gives the packages by their file names. They are
written by hand, since each is an archive with a file or two about it. So one script makes all of them
on any system, and the same files give the same bytes.
"""

import base64
import gzip
import hashlib
import io
import json
import re
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ABOUT = "Connects any MCP client to any MCP server"
DETAILS = """\
Over stdio, Streamable HTTP, HTTP+SSE or a WebSocket, in any revision of the protocol: as a bridge to one
server, as a gateway with keys and limits for many, and as a command line that calls tools.
"""
# On npm and PyPI: `switchboard` is the name of something else on PyPI.
NAME = "switchboard-cli"
MAINTAINER = "Switchboard maintainers <maintainers@switchboard.invalid>"


class Platform(NamedTuple):
    """What package managers call a system."""

    npm: tuple[str, str]
    debian: str
    wheel: str


PLATFORMS = {
    "aarch64-apple-darwin": Platform(("darwin", "arm64"), "", "macosx_11_0_arm64"),
    "aarch64-unknown-linux-gnu": Platform(("linux", "arm64"), "arm64", "manylinux_{glibc}_aarch64"),
    "x86_64-apple-darwin": Platform(("darwin", "x64"), "", "macosx_11_0_x86_64"),
    "x86_64-unknown-linux-gnu": Platform(("linux", "x64"), "amd64", "manylinux_{glibc}_x86_64"),
}


class Entry(NamedTuple):
    """A file of a package."""

    data: bytes
    mode: int = 0o644


Tree = dict[str, Entry]


class Release(NamedTuple):
    """What is packed, and for which system."""

    version: str
    license: str
    target: str
    # Of the commit, and so of each file.
    time: int

    @property
    def platform(self) -> Platform:
        return PLATFORMS[self.target]


def glibc(program: bytes) -> tuple[int, int]:
    """The oldest C library of Linux that the program runs with."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", program)
    return max((int(major), int(minor)) for major, minor in found)


def tar_gz(tree: Tree, time: int, prefix: str = "") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        folders = {str(parent) for path in tree for parent in Path(prefix + path).parents} - {"."}
        # dpkg wants each folder before what is in it.
        for path in sorted(folders) + sorted(tree):
            about = tarfile.TarInfo(path if path in folders else prefix + path)
            about.mtime = time
            if path in folders:
                about.type, about.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(about)
            else:
                about.size, about.mode = len(tree[path].data), tree[path].mode
                tar.addfile(about, io.BytesIO(tree[path].data))
    return gzip.compress(packed.getvalue(), 6, mtime=0)


def tarball(tree: Tree, release: Release) -> dict[str, bytes]:
    """The files under one folder: `tar -xz --strip-components 1 -C /usr/local` installs them."""
    name = f"switchboard-{release.version}-{release.target}"
    return {f"{name}.tar.gz": tar_gz(tree, release.time, f"{name}/")}


# --- Debian -------------------------------------------------------------------

MOVES = [
    ("share/doc/switchboard/switchboard.service", "lib/systemd/system/switchboard.service"),
    ("share/zsh/site-functions/", "share/zsh/vendor-completions/"),
]


# The new program of a service that runs, and the end of one that is removed.
POSTINST = """#!/bin/sh
[ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ] || { systemctl daemon-reload; systemctl try-restart switchboard; }
"""
PRERM = """#!/bin/sh
[ "$1" != remove ] || [ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ] || systemctl disable --now switchboard
"""


def debian(tree: Tree, release: Release) -> dict[str, bytes]:
    """An `ar` archive of two tarballs: what is installed under /usr, and what dpkg is told of it."""
    files = {}
    for path, entry in tree.items():
        for ours, theirs in MOVES:
            path = path.replace(ours, theirs)
        # Debian's names for these.
        if path.endswith("CHANGELOG.md"):
            path, entry = path.replace("CHANGELOG.md", "changelog.gz"), Entry(gzip.compress(entry.data, mtime=0))
        if not path.endswith(("LICENSE-APACHE", "LICENSE-MIT")):
            files[f"usr/{path}"] = entry
    files["usr/share/doc/switchboard/copyright"] = Entry(copyright_file(tree, release))
    sums = {path: hashlib.md5(entry.data, usedforsecurity=False).hexdigest() for path, entry in files.items()}
    control = {
        "control": Entry(control_file(tree, files, release).encode()),
        "postinst": Entry(POSTINST.encode(), 0o755),
        "prerm": Entry(PRERM.encode(), 0o755),
        "md5sums": Entry("".join(f"{sum}  {path}\n" for path, sum in sums.items()).encode()),
    }
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": tar_gz(control, release.time),
        "data.tar.gz": tar_gz(files, release.time),
    }
    archive = b"!<arch>\n"
    for name, data in members.items():
        archive += f"{name:<16}{release.time:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        archive += data + b"\n" * (len(data) % 2)
    return {f"switchboard_{release.version}_{release.platform.debian}.deb": archive}


def control_file(tree: Tree, files: Tree, release: Release) -> str:
    major, minor = glibc(tree["bin/switchboard"].data)
    kilobytes = sum(-(-len(entry.data) // 1024) for entry in files.values())
    details = "".join(f" {line}\n" for line in DETAILS.splitlines())
    return (
        f"Package: switchboard\nVersion: {release.version}\nArchitecture: {release.platform.debian}\n"
        f"Maintainer: {MAINTAINER}\nInstalled-Size: {kilobytes}\n"
        f"Depends: libc6 (>= {major}.{minor}), libgcc-s1\nRecommends: ca-certificates\n"
        f"Section: net\nPriority: optional\nDescription: {ABOUT}\n{details}"
    )


def copyright_file(tree: Tree, release: Release) -> bytes:
    mit = tree["share/doc/switchboard/LICENSE-MIT"].data.decode().rstrip()
    apache = "On Debian systems it is in /usr/share/common-licenses/Apache-2.0."
    return f"Switchboard: {release.license}, as you like.\n\nApache-2.0: {apache}\n\nMIT:\n\n{mit}\n".encode()


# --- npm ----------------------------------------------------------------------


def npm(tree: Tree, release: Release) -> dict[str, bytes]:
    """The program in a package of its system, and a package for all systems that needs one of those."""
    system, processor = release.platform.npm
    shared = {"version": release.version, "license": release.license, "description": ABOUT}
    packed = {
        "name": f"{NAME}-{system}-{processor}",
        **shared,
        "os": [system],
        "cpu": [processor],
        # Package managers that keep packages in archives must unpack this one.
        "preferUnplugged": True,
    }
    if system == "linux":
        packed["libc"] = ["glibc"]
    systems = [f"{NAME}-{'-'.join(platform.npm)}" for platform in PLATFORMS.values()]
    whole = {
        "name": NAME,
        **shared,
        "keywords": ["mcp", "model context protocol", "gateway", "bridge", "proxy"],
        "bin": {"switchboard": "switchboard.cjs"},
        "engines": {"node": ">=18"},
        "optionalDependencies": {name: release.version for name in systems},
    }
    licences = {name: tree[f"share/doc/switchboard/{name}"] for name in ["LICENSE-APACHE", "LICENSE-MIT"]}
    readme = {"README.md": Entry((HERE / "registries.md").read_bytes())}
    program = {"bin/switchboard": tree["bin/switchboard"]}
    start = {"switchboard.cjs": Entry((HERE / "npm/switchboard.cjs").read_bytes(), 0o755)}
    return {
        f"{about['name']}-{release.version}.tgz": tar_gz(
            {"package.json": Entry((json.dumps(about, indent=2) + "\n").encode()), **files, **licences, **readme},
            release.time,
            "package/",
        )
        for about, files in [(packed, program), (whole, start)]
    }


# --- Python -------------------------------------------------------------------


def wheel(tree: Tree, bill: bytes, release: Release) -> dict[str, bytes]:
    """The program as a script, which installers put beside Python's own, and a command of the package's name."""
    version = release.version
    module, about = NAME.replace("-", "_"), f"{NAME.replace('-', '_')}-{version}.dist-info"
    library = "_".join(map(str, glibc(tree["bin/switchboard"].data))) if "linux" in release.target else ""
    tag = f"py3-none-{release.platform.wheel.format(glibc=library)}"
    metadata = (
        f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {version}\nSummary: {ABOUT}\n"
        f"License-Expression: {release.license}\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n"
        "Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
        f"{(HERE / 'registries.md').read_text()}"
    )
    wheel_file = f"Wheel-Version: 1.0\nGenerator: switchboard dist/build.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = {
        f"{module}-{version}.data/scripts/switchboard": tree["bin/switchboard"],
        f"{module}/__init__.py": Entry(b""),
        f"{module}/__main__.py": Entry((HERE / "python/__main__.py").read_bytes()),
        f"{about}/METADATA": Entry(metadata.encode()),
        f"{about}/WHEEL": Entry(wheel_file.encode()),
        f"{about}/entry_points.txt": Entry(f"[console_scripts]\n{NAME} = {module}.__main__:main\n".encode()),
        f"{about}/sboms/switchboard.cdx.json": Entry(bill),
    }
    for name in ["LICENSE-APACHE", "LICENSE-MIT"]:
        files[f"{about}/licenses/{name}"] = tree[f"share/doc/switchboard/{name}"]
    record = "".join(f"{path},sha256={url_safe_sum(entry.data)},{len(entry.data)}\n" for path, entry in files.items())
    files[f"{about}/RECORD"] = Entry(f"{record}{about}/RECORD,,\n".encode())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, entry in files.items():
            # The first day that a zip archive knows: the same bytes each time.
            item = zipfile.ZipInfo(path)
            item.external_attr = (0o100000 | entry.mode) << 16
            archive.writestr(item, entry.data, zipfile.ZIP_DEFLATED)
    return {f"{module}-{version}-{tag}.whl": packed.getvalue()}


def url_safe_sum(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
