"""Each package is built, installed as users install it, and used: a tool is called with what was installed.

`./test.sh packages` runs this. SWITCHBOARD names the program that is packed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from registry import Registry

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "dist"))
import build  # noqa: E402
MINUTE = 60
ADD = ["call", "add", "a=1", "b=2", "--", "switchboard", "demo"]


def run(*words: str | Path, path: str = "", folder: Path | None = None, status: int = 0, **environment: str | Path) -> str:
    """What a command prints. It sees a home of its own, and nothing of the user's settings."""
    variables = {"HOME": PLACE / "home", "PATH": f"{path}{os.pathsep}{os.environ['PATH']}", **environment}
    done = subprocess.run(
        words, cwd=folder or PLACE, timeout=5 * MINUTE, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={name: str(value) for name, value in variables.items()},
    )
    if done.returncode != status:
        line = " ".join(map(str, words))
        raise AssertionError(f"{line} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def one(pattern: str) -> Path:
    [found] = OUT.glob(pattern)
    return found


def setUpModule():
    global PLACE, OUT
    PLACE = Path(tempfile.mkdtemp(prefix="switchboard-packages-"))
    unittest.addModuleCleanup(shutil.rmtree, PLACE, ignore_errors=True)
    (PLACE / "home").mkdir()
    # Where the Containerfile finds it, and not where a release is made.
    OUT = ROOT / ".cache/packages-test/target/packages"
    shutil.rmtree(OUT, ignore_errors=True)
    program = PLACE / "switchboard"
    subprocess.run(["strip", "-o", program, os.environ["SWITCHBOARD"]], check=True)
    build = [sys.executable, ROOT / "dist/build.py", "--binary", program, "--out", OUT]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL, timeout=5 * MINUTE)


class Compiling(unittest.TestCase):
    """Panics tell where they happened, in programs that are shipped too."""

    def test_no_path_of_the_builder_is_in_a_program(self):
        with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
            source, program = Path(folder, "main.rs"), Path(folder, "main")
            source.write_text("fn main() { assert!(std::env::args().count() > 9) }")
            for flags, expected in [([], [str(ROOT)]), (build.rust_flags(), [])]:
                # The home may be above.
                subprocess.run(["rustc", "-Cstrip=symbols", *flags, "-o", program, source], check=True)
                told = [found for found in build.told_folders(program.read_bytes()) if found != str(Path.home())]
                self.assertEqual(told, expected)


class Tarball(unittest.TestCase):
    def setUp(self):
        self.prefix = PLACE / "prefix"
        self.prefix.mkdir()
        self.addCleanup(shutil.rmtree, self.prefix)
        run("tar", "-xzf", one("*.tar.gz"), "--strip-components", "1", "-C", self.prefix)

    def test_program_calls_a_tool(self):
        self.assertEqual(run("switchboard", *ADD, path=f"{self.prefix}/bin"), "3\n")

    def test_manual_has_a_page_for_each_command(self):
        pages = {page.name for page in (self.prefix / "share/man/man1").iterdir()}
        self.assertLessEqual({"switchboard.1.gz", "switchboard-serve.1.gz", "switchboard-config-check.1.gz"}, pages)
        shown = run("man", "--local-file", self.prefix / "share/man/man1/switchboard-serve.1.gz", MANWIDTH="80", LC_ALL="C")
        for words in ["switchboard-serve - ", "--config <FILE>", "EXAMPLES"]:
            self.assertIn(words, shown)

    def test_shells_complete(self):
        share, path = self.prefix / "share", f"{self.prefix}/bin"
        bash = (
            "source bash-completion/completions/switchboard; COMP_WORDS=(switchboard doc); COMP_CWORD=1; COMP_TYPE=9;"
            "_switchboard switchboard doc switchboard; echo ${COMPREPLY[@]}"
        )
        self.assertEqual(run("bash", "-c", f"cd {share}; {bash}", path=path), "doctor\n")
        fish = f"source {share}/fish/vendor_completions.d/switchboard.fish; complete -C 'switchboard doc'"
        self.assertTrue(run("fish", "--no-config", "-c", fish, path=path).startswith("doctor"))
        # The first press of Tab loads the function; it has to complete already.
        zsh = (
            f"fpath=({share}/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D;"
            "_describe() { print -l ${(P)3} }; words=(switchboard doc); CURRENT=2; _switchboard"
        )
        self.assertTrue(run("zsh", "-f", "-c", zsh, path=path).startswith("doctor"))


class Debian(unittest.TestCase):
    def test_package_is_installed_used_and_removed(self):
        root = PLACE / "debian"
        (root / "var/lib/dpkg").mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        dpkg = ["dpkg", f"--root={root}", "--force-not-root", "--force-depends", "--force-script-chrootless"]
        package = one("*.deb")
        about = run("dpkg-deb", "--field", package)
        self.assertRegex(about, r"Depends: libc6 \(>= 2\.\d+\), libgcc-s1\n")
        run(*dpkg, "--install", package, path="/usr/sbin:/sbin")
        self.assertEqual(run("switchboard", *ADD, path=f"{root}/usr/bin"), "3\n")
        self.assertEqual(run(*dpkg, "--verify", "switchboard"), "")
        listed = run(*dpkg, "--listfiles", "switchboard").splitlines()
        for file in ["man/man1/switchboard.1.gz", "bash-completion/completions/switchboard", "doc/switchboard/copyright"]:
            self.assertIn(f"/usr/share/{file}", listed)
        self.assertIn("/usr/lib/systemd/system/switchboard.service", listed)
        run(*dpkg, "--purge", "switchboard", path="/usr/sbin:/sbin")
        self.assertEqual([file for file in root.glob("usr/**/*") if file.is_file()], [])


class Npm(unittest.TestCase):
    def npm(self, registry: Registry) -> dict:
        options = {"registry": registry.url, "cache": PLACE / "npm-cache", "audit": "false", "fund": "false", "update_notifier": "false"}
        return {f"npm_config_{name}": value for name, value in options.items()}

    def test_npx_fetches_the_package_and_calls_a_tool(self):
        with Registry([*OUT.glob("*.tgz")]) as registry:
            said = run("npx", "-y", "switchboard-cli", *ADD, **self.npm(registry))
            self.assertEqual(said, "3\n")

    def test_installed_package_passes_arguments_status_and_signals(self):
        folder = PLACE / "project"
        folder.mkdir()
        (folder / "package.json").write_text("{}")
        with Registry([*OUT.glob("*.tgz")]) as registry:
            run("npm", "install", "--prefix", folder, "switchboard-cli", **self.npm(registry))
        installed = {package.name for package in (folder / "node_modules").glob("switchboard*")}
        self.assertEqual(len(installed), 2, f"one for all systems, one for this: {installed}")
        path = f"{folder}/node_modules/.bin"
        self.assertRegex(run("npx", "--offline", "switchboard", "--version", folder=folder), r"^switchboard \d")
        run("switchboard", "call", path=path, status=2)
        serving = subprocess.Popen(
            [f"{path}/switchboard", "demo", "--http", "--port", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )
        self.addCleanup(serving.stdout.close)
        self.addCleanup(serving.kill)
        url = serving.stdout.readline().strip()
        self.assertEqual(run("switchboard", "call", url, "add", "a=1", "b=2", path=path), "3\n")
        serving.send_signal(signal.SIGTERM)
        self.assertEqual(serving.wait(MINUTE), 0)

    def test_missing_package_of_the_system_is_named(self):
        folder = PLACE / "without"
        folder.mkdir()
        [whole] = [file for file in OUT.glob("*.tgz") if "linux" not in file.name and "darwin" not in file.name]
        run("tar", "-xzf", whole, "-C", folder)
        done = subprocess.run(["node", folder / "package/switchboard.cjs"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not installed\nhint: there are switchboard-cli-", done.stderr)


class Wheel(unittest.TestCase):
    def test_pip_installs_the_program_and_the_command_of_the_package(self):
        venv = PLACE / "venv"
        run(sys.executable, "-m", "venv", "--without-pip", venv)
        pip = [sys.executable, "-m", "pip", "--python", venv / "bin/python"]
        run(*pip, "install", "--no-index", "--find-links", OUT, "switchboard-cli")
        for command in ["switchboard", "switchboard-cli"]:
            self.assertEqual(run(command, *ADD, path=f"{venv}/bin"), "3\n")
        self.assertEqual(run(venv / "bin/python", "-m", "switchboard_cli", "--version").split()[0], "switchboard")
        run(*pip, "check")
        run(*pip, "uninstall", "--yes", "switchboard-cli")
        self.assertFalse((venv / "bin/switchboard").exists())

    def test_uvx_runs_the_package_by_its_name(self):
        uvx = Path(sys.executable).parent / "uvx"
        options = ["--no-index", "--find-links", OUT, "--python", sys.executable, "--no-config"]
        said = run(uvx, *options, "switchboard-cli", *ADD, UV_CACHE_DIR=PLACE / "uv")
        self.assertEqual(said, "3\n")


class Papers(unittest.TestCase):
    def test_sums_are_those_of_all_files(self):
        checked = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=OUT, capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout)
        files = [file for file in OUT.iterdir() if file.is_file() and file.name != "SHA256SUMS"]
        self.assertEqual(checked.stdout.count(": OK\n"), len(files))

    def test_bill_of_materials_holds_its_schema_and_what_is_in_the_program(self):
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator

        text = one("*.cdx.json").read_text()
        self.assertIsNone(JsonStrictValidator(SchemaVersion.V1_6).validate_str(text))
        bill = json.loads(text)
        names = {it["name"] for it in bill["components"]}
        self.assertLessEqual({"hyper", "rustls", "switchboard-net", "tikv-jemalloc-sys", "tokio"}, names)
        for name in ["cc", "proptest", "serde_derive", "switchboard-testkit", "windows-sys"]:
            self.assertNotIn(name, names)
        for it in bill["components"]:
            self.assertIn("licenses", it, it["name"])
        known = {it["bom-ref"] for it in [bill["metadata"]["component"], *bill["components"]]}
        self.assertEqual({link["ref"] for link in bill["dependencies"]}, known)

    def test_same_program_gives_the_same_bytes(self):
        again = PLACE / "again"
        build = [sys.executable, ROOT / "dist/build.py", "--binary", PLACE / "switchboard", "--out", again]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL, timeout=5 * MINUTE)
        self.assertEqual((again / "SHA256SUMS").read_text(), (OUT / "SHA256SUMS").read_text())


if __name__ == "__main__":
    unittest.main()
