#!/usr/bin/env python3
"""Builds what people install, for the system that it runs on.

    python3 dist/build.py                        everything, into target/packages
    python3 dist/build.py --binary PATH          the same, with a program that is built already
    python3 dist/build.py --only sums --out DIR  SHA256SUMS of what is in a folder

The parts: the tree that is installed (`root/`, for the Containerfile too), a tarball of it, a Debian
package, npm packages, a Python wheel, a bill of materials (CycloneDX), SHA256SUMS. Needs Python 3.11
and Rust, and nothing else. The same program and commit give the same bytes.
"""

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import packages
import sbom
from packages import Entry, Tree

ROOT = Path(__file__).resolve().parent.parent
PARTS = ["root", "tar", "deb", "npm", "wheel", "sbom", "sums"]
# The oldest macOS that the programs run on; the wheels name it.
MACOS = "11.0"


def output(*words: str | Path) -> str:
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def host() -> str:
    lines = output("rustc", "-vV").splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def commit_time() -> int:
    """The time that all files of the packages have."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        return int(epoch or output("git", "log", "-1", "--format=%ct"))
    except subprocess.CalledProcessError:
        sys.exit("build.py: git does not tell the time of the commit; set SOURCE_DATE_EPOCH")


def builder_folders() -> dict[str, str]:
    """The folders of whoever builds, and what stands for each in the program. The last that fits counts."""
    home = Path.home()
    folders = {
        home: "/home",
        ROOT: "/switchboard",
        # As cargo names it, links and all.
        Path(os.environ.get("CARGO_HOME", home / ".cargo")).absolute(): "/cargo",
        Path(output("rustc", "--print", "sysroot").strip()): "/rust",
    }
    # The home of a build in a container may be the root of its files, which says nothing.
    named = [(str(folder), name) for folder, name in folders.items() if len(folder.parts) > 1]
    return dict(sorted(named, key=lambda pair: len(pair[0])))


def rust_flags() -> list[str]:
    """What the compiler is told: the builder's own flags, and that panics name no folder of theirs."""
    own = os.environ.get("CARGO_ENCODED_RUSTFLAGS")
    own = own.split("\x1f") if own else os.environ.get("RUSTFLAGS", "").split()
    return own + [f"--remap-path-prefix={folder}={name}" for folder, name in builder_folders().items()]


def told_folders(program: bytes) -> list[str]:
    """The folders of whoever builds that the program has in it."""
    return [folder for folder in builder_folders() if f"{folder}/".encode() in program]


def compile_program(target: str) -> Path:
    """The program as it is shipped: optimised as a whole, without symbols, and without paths of ours."""
    environment = {
        **os.environ,
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(rust_flags()),
        "CARGO_PROFILE_DIST_STRIP": "symbols",
        "MACOSX_DEPLOYMENT_TARGET": MACOS,
    }
    words = ["cargo", "build", "--profile", "dist", "--locked", "--package", "switchboard", "--target", target]
    subprocess.run(words, cwd=ROOT, check=True, env=environment)
    folder = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    program = Path(folder) / target / "dist" / "switchboard"
    told = told_folders(program.read_bytes())
    if told:
        sys.exit(f"build.py: {program} has paths in it that begin with {' and '.join(told)}")
    return program


def installed_tree(program: Path, version: str) -> Tree:
    """What belongs under a prefix such as /usr/local: the program, its manual and its completions."""
    said = output(program, "--version").split()
    if said != ["switchboard", version]:
        sys.exit(f"build.py: {program} says {' '.join(said)}, and Cargo.toml has version {version}")
    tree = {"bin/switchboard": Entry(program.read_bytes(), 0o755)}
    with tempfile.TemporaryDirectory() as folder:
        output(program, "man", folder)
        for page in sorted(Path(folder).iterdir()):
            # No name and no time inside: the same bytes each time.
            tree[f"share/man/man1/{page.name}.gz"] = Entry(gzip.compress(page.read_bytes(), mtime=0))
    for shell, path in [
        ("bash", "bash-completion/completions/switchboard"),
        ("fish", "fish/vendor_completions.d/switchboard.fish"),
        ("zsh", "zsh/site-functions/_switchboard"),
    ]:
        tree[f"share/{path}"] = Entry(output(program, "completion", shell).encode())
    for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"]:
        tree[f"share/doc/switchboard/{name}"] = Entry((ROOT / name).read_bytes())
    unit = (ROOT / "examples/deploy/switchboard.service").read_bytes()
    tree["share/doc/switchboard/switchboard.service"] = Entry(unit)
    return tree


def write_tree(tree: Tree, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for path, entry in tree.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(entry.data)
        file.chmod(entry.mode)


def write_sums(folder: Path) -> None:
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Builds what people install.")
    parser.add_argument("--binary", type=Path, help="a program of this version that is built already")
    parser.add_argument("--target", help="the system that the program is for (default: this one)")
    parser.add_argument("--out", type=Path, default=ROOT / "target/packages", help="the folder for all of it")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of the parts {','.join(PARTS)}")
    args = parser.parse_args()
    args.only = args.only.split(",")
    unknown = [part for part in args.only if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return args


def main() -> None:
    args = options()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.only != ["sums"]:
        build(args)
    if "sums" in args.only:
        write_sums(args.out)
    for file in sorted(args.out.iterdir()):
        size = f"{file.stat().st_size / 1e6:7.2f} MB" if file.is_file() else "    folder"
        print(f"{size}  {file.name}")


def build(args: argparse.Namespace) -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    target = args.target or host()
    if target not in packages.PLATFORMS:
        sys.exit(f"build.py: no packages for {target}; there are those for {', '.join(packages.PLATFORMS)}")
    release = packages.Release(workspace["version"], workspace["license"], target, commit_time())
    program = (args.binary or compile_program(target)).resolve()
    tree = installed_tree(program, release.version)
    bill = sbom.bill(ROOT, release.version, target, release.time)
    made = {
        "tar": lambda: packages.tarball(tree, release),
        "deb": lambda: packages.debian(tree, release) if "linux" in target else {},
        "npm": lambda: packages.npm(tree, release),
        "wheel": lambda: packages.wheel(tree, bill, release),
        "sbom": lambda: {f"switchboard-{release.version}-{target}.cdx.json": bill},
    }
    for part in args.only:
        for name, data in made.get(part, dict)().items():
            (args.out / name).write_bytes(data)
    if "root" in args.only:
        write_tree(tree, args.out / "root")


if __name__ == "__main__":
    main()
