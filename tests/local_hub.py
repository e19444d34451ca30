"""A hub on this machine: it serves a folder as huggingface.co would, for the hub's own client.

It knows one model, one commit of it, and the three requests that a download makes: which commit a
revision is, which files it has, and the files themselves. `asked` lists what was requested; while
`breaks_off` is set, weights end after half of their bytes.
"""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = "someone/tiny"
REVISIONS = ("main", "v1", COMMIT)


class LocalHub:
    """Serve a folder at `address`, as the files of `MODEL`, while inside ``with``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.breaks_off = folder, [], False
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                hub.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request):
        """Answer one request for the model, its list of files, or one of them."""
        path = request.path.split("?")[0].strip("/")
        self.asked.append(f"{request.command} {path}")
        for revision in REVISIONS:
            if path == f"api/models/{MODEL}/revision/{revision}":
                return self._json(request, self._model())
            if path == f"api/models/{MODEL}/tree/{revision}":
                return self._json(request, [self._entry(file) for file in self._files()])
            name = path.removeprefix(f"{MODEL}/resolve/{revision}/")
            if name != path and (self.folder / name).is_file():
                return self._file(request, self.folder / name)
        known = path.startswith((MODEL, f"api/models/{MODEL}"))
        code = "RevisionNotFound" if known else "RepoNotFound"
        return self._send(request, 404, b"{}", {"X-Error-Code": code})

    def _files(self):
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    def _model(self):
        siblings = [{"rfilename": path.name} for path in self._files()]
        return {"id": MODEL, "modelId": MODEL, "sha": COMMIT, "siblings": siblings}

    def _entry(self, file):
        mark = hashlib.sha1(file.read_bytes()).hexdigest()
        return {"type": "file", "oid": mark, "size": file.stat().st_size, "path": file.name}

    def _json(self, request, content):
        kind = {"Content-Type": "application/json", "X-Repo-Commit": COMMIT}
        self._send(request, 200, json.dumps(content).encode(), kind)

    def _file(self, request, file):
        content = file.read_bytes()
        headers = {"ETag": f'"{self._entry(file)["oid"]}"', "X-Repo-Commit": COMMIT}
        cut = self.breaks_off and file.suffix == ".safetensors"
        self._send(request, 200, content, headers, stop=len(content) // 2 if cut else None)

    def _send(self, request, code, content, headers, stop=None):
        request.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(content[:stop])
