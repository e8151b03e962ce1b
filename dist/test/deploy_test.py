"""The examples of deployments hold their schemas, and the image that they name is built and used.

`./test.sh packages` runs this, after `packages_test.py` has made the packages.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "examples/deploy"
CONTEXT = ROOT / ".cache/packages-test"
PROGRAM = CONTEXT / "target/packages/root/bin/switchboard"
MINUTE = 60
KEY = "of-nobody-at-all-0"


def run(*words: str | Path, **options) -> str:
    done = subprocess.run(words, timeout=5 * MINUTE, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def tool(name: str) -> Path:
    """A program of dist/requirements.txt."""
    return Path(sys.executable).parent / name


class Files(unittest.TestCase):
    def test_unit_is_one_that_systemd_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            # systemd looks whether the program is there.
            unit = (DEPLOY / "switchboard.service").read_text().replace("/usr/bin/switchboard", str(PROGRAM))
            file = Path(folder) / "switchboard.service"
            file.write_text(unit)
            said = run("sh", "-c", 'exec "$@" 2>&1', "sh", "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", file)
            self.assertNotIn("switchboard.service:", said)
            # 0 is locked away, 100 is not at all.
            run("systemd-analyze", "security", "--offline=true", "--threshold=25", file)

    def test_compose_file_and_workflow_hold_their_schemas(self):
        for schema, file in [
            ("vendor.compose-spec", DEPLOY / "compose.yaml"),
            ("vendor.github-workflows", ROOT / ".github/workflows/release.yml"),
        ]:
            run(tool("check-jsonschema"), "--builtin-schema", schema, file)

    def test_kubernetes_takes_the_manifest(self):
        run(tool("kubernetes-validate"), "--strict", DEPLOY / "kubernetes.yaml")

    def test_configurations_have_no_mistakes(self):
        parts = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
        [config] = [part["data"]["servers.json"] for part in parts if part["kind"] == "ConfigMap"]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "servers.json"
            file.write_text(config)
            path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
            for file in [file, DEPLOY / "servers.json"]:
                run(PROGRAM, "config", "check", file, env={**os.environ, "PATH": path, "SWITCHBOARD_KEY": KEY})


class Image(unittest.TestCase):
    """With an engine that has a storage of its own. No registry is asked: the base is made of this system."""

    @classmethod
    def setUpClass(cls):
        os.umask(0o022)  # Others must find the programs of the image.
        cls.place = Path(tempfile.mkdtemp(prefix="switchboard-image-"))
        cls.addClassCleanup(cls.clean)
        cls.storage = ["--root", f"{cls.place}/root", "--runroot", f"{cls.place}/run", "--storage-driver", "vfs"]
        cls.podman = ["podman", *cls.storage]
        # A container must not ask for higher limits than a test may have.
        limits = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
        (cls.place / "containers.conf").write_text(limits)
        os.environ["CONTAINERS_CONF"] = f"{cls.place}/containers.conf"
        run("tar", "-C", cls.base(), "-cf", cls.place / "base.tar", ".")
        run(*cls.podman, "import", cls.place / "base.tar", "localhost/base")
        arguments = ["--target", "packed", "--build-arg", "DEBIAN=localhost/base"]
        where = ["--file", ROOT / "dist/Containerfile", "--tag", "localhost/switchboard:0.1.0", CONTEXT]
        run(*cls.podman, "build", "--isolation", "chroot", "--pull-never", *arguments, *where)

    @classmethod
    def base(cls) -> Path:
        """What the image starts from: a shell, the libraries of the program, and nothing to install."""
        base = cls.place / "base"
        for folder in ["bin", "tmp", "var/lib"]:
            (base / folder).mkdir(parents=True)
        (base / "tmp").chmod(0o1777)
        shutil.copy(shutil.which("busybox"), base / "bin/busybox")
        for applet in ["chown", "mkdir", "rm", "sh"]:
            (base / "bin" / applet).symlink_to("busybox")
        (base / "bin/apt-get").write_text("#!/bin/sh\n")
        (base / "bin/apt-get").chmod(0o755)
        for library in [word for word in run("ldd", PROGRAM).split() if word.startswith("/")]:
            (base / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, base / library[1:])
        return base

    @classmethod
    def clean(cls):
        for words in [["pod", "rm", "-fa", "-t", "0"], ["rm", "-fa", "-t", "0"], ["rmi", "-fa"]]:
            subprocess.run([*cls.podman, *words], capture_output=True, timeout=MINUTE)
        subprocess.run(["sh", "-c", 'umount "$0"/root/* 2>/dev/null; rm -rf "$0"', cls.place])

    def check_gateway(self, container: str):
        inside = [*self.podman, "exec", container]
        call = ["switchboard", "call", "http://127.0.0.1:3001/mcp", "demo__add", "a=1", "b=2"]
        self.until_ready(inside)
        said = run(*inside, *call, "--header", f"Authorization: Bearer {KEY}")
        self.assertEqual(said, "3\n")
        refused = subprocess.run([*inside, *call], capture_output=True, text=True, timeout=MINUTE)
        self.assertIn("a key is needed", refused.stderr)
        self.assertIn("uid=65532", run(*inside, "busybox", "id"))
        run(*inside, "busybox", "touch", "/var/lib/switchboard/kept", "/tmp/not-kept")

    def until_ready(self, inside: list[str]):
        """As a kubelet asks: by the address of the pod."""
        page = ["-q", "-O", "-", "--header", "Host: 10.1.2.3:3001", "http://127.0.0.1:3001/readyz"]
        deadline = time.monotonic() + MINUTE
        answer = ""
        while answer != "ok" and time.monotonic() < deadline:
            ask = [*inside, "busybox", "wget", *page]
            answer = subprocess.run(ask, capture_output=True, text=True, timeout=MINUTE).stdout
        self.assertEqual(answer, "ok")

    def test_image_calls_a_tool(self):
        words = ["call", "add", "a=1", "b=2", "--", "switchboard", "demo"]
        said = run(*self.podman, "run", "--rm", "--network", "none", "localhost/switchboard:0.1.0", *words)
        self.assertEqual(said, "3\n")

    def test_gateway_of_the_compose_file_serves_who_has_the_key(self):
        folder = self.place / "compose"
        shutil.copytree(DEPLOY, folder)
        service = yaml.safe_load((folder / "compose.yaml").read_text())
        ours = service["services"]["switchboard"]
        # The image is there, and this machine has no network for containers.
        del ours["build"], ours["ports"]
        ours.update({"image": "localhost/switchboard:0.1.0", "network_mode": "none"})
        (folder / "compose.yaml").write_text(yaml.safe_dump(service))
        (folder / ".env").write_text(f"SWITCHBOARD_KEY={KEY}\n")
        compose = [tool("podman-compose"), "--podman-args", " ".join(self.storage)]
        run(*compose, "up", "--detach", cwd=folder)
        self.check_gateway("compose_switchboard_1")
        run(*self.podman, "stop", "--time", "20", "compose_switchboard_1")
        [about] = json.loads(run(*self.podman, "inspect", "compose_switchboard_1"))
        self.assertEqual(about["State"]["ExitCode"], 0)

    def test_pod_of_the_manifest_serves_who_has_the_key(self):
        parts = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
        [container] = parts[1]["spec"]["template"]["spec"]["containers"]
        # As above; and podman asks no probes by the name of a port.
        # Not every machine lets a test limit memory.
        del container["ports"], container["livenessProbe"], container["readinessProbe"], container["resources"]
        container["image"] = "localhost/switchboard:0.1.0"
        file = self.place / "kubernetes.yaml"
        file.write_text(yaml.safe_dump_all(parts))
        # podman's form of a Secret.
        secret = self.place / "secret.json"
        secret.write_text(json.dumps({"key": base64.b64encode(KEY.encode()).decode()}))
        run(*self.podman, "secret", "create", "switchboard", secret)
        run(*self.podman, "kube", "play", "--network", "none", file)
        self.check_gateway("switchboard-pod-0-switchboard")
        run(*self.podman, "kube", "down", file)


if __name__ == "__main__":
    unittest.main()
