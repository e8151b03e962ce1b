"""A registry of npm packages on this machine, so that npx does what it does for users."""

import base64
import hashlib
import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def manifest(package: bytes) -> dict:
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        return json.load(tar.extractfile("package/package.json"))


class Registry:
    """Serves `.tgz` files; of the systems that no file is for, only the descriptions."""

    def __init__(self, files: list[Path]):
        self.packages = {manifest(file.read_bytes())["name"]: file.read_bytes() for file in files}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def about(self, name: str) -> dict | None:
        package = self.packages.get(name)
        if package is not None:
            version = manifest(package)
            sum = base64.b64encode(hashlib.sha512(package).digest()).decode()
            version["dist"] = {"tarball": f"{self.url}/-/{name}.tgz", "integrity": f"sha512-{sum}"}
        else:
            version = self.elsewhere(name)
        if version is None:
            return None
        return {"name": name, "dist-tags": {"latest": version["version"]}, "versions": {version["version"]: version}}

    def elsewhere(self, name: str) -> dict | None:
        """What the registry says of a package for another system."""
        for package in self.packages.values():
            version = manifest(package).get("optionalDependencies", {}).get(name)
            if version is not None:
                system, processor = name.split("-")[-2:]
                dist = {"tarball": f"{self.url}/-/{name}.tgz", "shasum": "0" * 40}
                return {"name": name, "version": version, "os": [system], "cpu": [processor], "dist": dist}
        return None

    def handler(self):
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.split("?")[0]
                if path.startswith("/-/"):
                    body = registry.packages.get(path.removeprefix("/-/").removesuffix(".tgz"))
                else:
                    about = registry.about(path.strip("/"))
                    body = None if about is None else json.dumps(about).encode()
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        return Handler
