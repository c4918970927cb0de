"""A hub on the loopback: the few routes that `huggingface_hub` uses for repositories of models, in memory.

The real client talks to it, so that what is tested is what is sent. Commits are hashes of what they hold.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_of_ada"


@dataclass
class Repository:
    """Commits, each all of its files, and which branch stands at which."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, branch: str, changes: dict[str, bytes], message: str) -> str:
        files = {**self.files(branch), **changes}
        listed = sorted((name, hashlib.sha256(data).hexdigest()) for name, data in files.items())
        oid = hashlib.sha1(json.dumps([len(self.messages), listed]).encode()).hexdigest()
        self.commits[oid] = files
        self.branches[branch] = oid
        self.messages.append(message)
        return oid

    def files(self, revision: str) -> dict[str, bytes]:
        return self.commits.get(self.branches.get(revision, revision), {})


@dataclass
class Hub:
    """What the server holds, and what it was asked."""

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    uploaded: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes to say in place of the right ones."""

    def put(self, repo_id: str, files: dict[str, bytes], branch: str = "main") -> str:
        """A commit as another program would make it."""
        repository = self.repositories.setdefault(repo_id, Repository(False))
        return repository.commit(branch, files, "by hand")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_HEAD(self) -> None:
        self._resolve()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            repository, oid = self._found(found[1], found[2] or "main")
            if repository is not None:
                siblings = [{"rfilename": name} for name in repository.files(oid)]
                self._json({"id": found[1], "sha": oid, "siblings": siblings, "private": repository.private})
            return
        self._resolve()

    def do_PUT(self) -> None:
        data = self._body()
        oid = self.path.rpartition("/")[2]
        assert hashlib.sha256(data).hexdigest() == oid
        self.hub.uploaded[oid] = data
        self._json({})

    def do_POST(self) -> None:
        path, body = unquote(urlsplit(self.path).path), self._body()
        self.hub.asked.append(f"POST {path}")
        if path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}" and "/paths-info/" not in path:
            self._json({"error": "who are you?"}, 401)
            return
        if path == "/api/repos/create":
            self._create(json.loads(body))
        elif found := re.fullmatch(
            r"/api/models/([^/]+/[^/]+)/(preupload|commit|branch|paths-info)/(.+)", path
        ):
            getattr(self, f"_{found[2].replace('-', '_')}")(found[1], found[3], body)
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._json({"transfer": "basic", "objects": [self._object(o) for o in json.loads(body)["objects"]]})
        else:
            self._json({"error": "no such route"}, 404)

    def _create(self, wanted: dict[str, Any]) -> None:
        name = f"{wanted['organization']}/{wanted['name']}"
        if name in self.hub.repositories:
            self._json({"error": "You already created this model repo", "url": f"{self.hub.url}/{name}"}, 409)
            return
        private = wanted.get("visibility") == "private" or bool(wanted.get("private"))
        repository = self.hub.repositories[name] = Repository(private)
        repository.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"}, "initial commit")
        self._json({"url": f"{self.hub.url}/{name}", "name": name, "id": name})

    def _branch(self, name: str, branch: str, body: bytes) -> None:
        repository = self.hub.repositories[name]
        if branch in repository.branches:
            self._json({"error": "Reference already exists"}, 409)
            return
        repository.branches[branch] = repository.branches["main"]
        self._json({})

    def _paths_info(self, name: str, revision: str, body: bytes) -> None:
        repository, oid = self._found(name, revision)
        if repository is None:
            return
        text = body.decode()
        wanted = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text)["paths"]
        files = repository.files(oid)
        infos = [self._info(path, files[path]) for path in wanted if path in files]
        self._json(infos)

    def _info(self, path: str, data: bytes) -> dict[str, Any]:
        size = self.hub.sizes.get(path, len(data))
        return {"type": "file", "path": path, "size": size, "oid": hashlib.sha1(data).hexdigest()}

    def _preupload(self, name: str, revision: str, body: bytes) -> None:
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                "shouldIgnore": False,
            }
            for file in json.loads(body)["files"]
        ]
        self._json({"files": files})

    def _object(self, wanted: dict[str, Any]) -> dict[str, Any]:
        actions = {"upload": {"href": f"{self.hub.url}/lfs/{wanted['oid']}"}}
        return {"oid": wanted["oid"], "size": wanted["size"], "actions": actions}

    def _commit(self, name: str, branch: str, body: bytes) -> None:
        changes: dict[str, bytes] = {}
        message = ""
        for line in body.splitlines():
            row = json.loads(line)
            key, value = row["key"], row["value"]
            if key == "header":
                message = value["summary"]
            elif key == "file":
                changes[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                changes[value["path"]] = self.hub.uploaded[value["oid"]]
        oid = self.hub.repositories[name].commit(branch, changes, message)
        self._json({"success": True, "commitOid": oid, "commitUrl": f"{self.hub.url}/{name}/commit/{oid}"})

    def _resolve(self) -> None:
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", unquote(urlsplit(self.path).path))
        if found is None:
            self._json({"error": "no such route"}, 404)
            return
        repository, oid = self._found(found[1], found[2])
        if repository is None:
            return
        data = repository.files(oid).get(found[3])
        if data is None:
            self._json(
                {"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": oid}
            )
            return
        self._send(data, 200, {"X-Repo-Commit": oid, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'})

    def _found(self, name: str, revision: str) -> tuple[Repository | None, str]:
        repository = self.hub.repositories.get(name)
        mine = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if repository is None or (repository.private and not mine):
            self._json(
                {"error": "Repository not found"}, 404 if mine else 401, {"X-Error-Code": "RepoNotFound"}
            )
            return None, ""
        oid = repository.branches.get(revision, revision)
        if oid not in repository.commits:
            self._json({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
            return None, ""
        return repository, oid

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            pieces: list[bytes] = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _json(self, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        more = {"X-Error-Message": body["error"]} if isinstance(body, dict) and "error" in body else {}
        self._send(
            json.dumps(body).encode(), status, {"Content-Type": "application/json", **more, **(headers or {})}
        )

    def _send(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def hub_server() -> Generator[Hub]:
    """A hub on a free port, as long as the block lasts."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
