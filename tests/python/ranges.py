"""An HTTP file server for tests. Unlike the server in the standard library, it answers range requests."""

import functools
import http.server
import re
import threading
import zlib


class Handler(http.server.BaseHTTPRequestHandler):

    protocol_version = "HTTP/1.1"

    def __init__(self, folder, seen, *args):
        self.folder, self.seen = folder, seen
        super().__init__(*args)

    def log_message(self, *args):
        """Log nothing, to keep the output of the tests short."""

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body):
        self.seen.append((self.path, self.headers.get("range")))
        path = self.folder / self.path.strip("/")
        if path.parent != self.folder or not path.is_file():
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        data = path.read_bytes()
        start, end, status = 0, len(data), 200
        if found := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("range", "")):
            first, last = found.groups()
            start = int(first) if first else max(0, len(data) - int(last))
            end = min(len(data), int(last) + 1) if first and last else len(data)
            status = 206
        self.send_response(status)
        self.send_header("content-length", str(end - start))
        self.send_header("etag", f'"{zlib.crc32(data):08x}"')
        if status == 206:
            self.send_header("content-range", f"bytes {start}-{end - 1}/{len(data)}")
        self.end_headers()
        if with_body:
            self.wfile.write(data[start:end])


class Server:
    """Serves a folder until the `with` block ends. `url` is the server's address, and `seen` lists the received
    requests."""

    def __init__(self, folder):
        self.seen = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, folder, self.seen))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
