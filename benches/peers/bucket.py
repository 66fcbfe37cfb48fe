"""A loopback server with the part of S3 that readers need: GET and HEAD with ranges, and listings. It checks no access
keys.

    python3 benches/peers/bucket.py FOLDER [--delay SECONDS]

The folders in FOLDER are the buckets. The server prints its port. `--delay` delays each answer by SECONDS.
"""

import argparse
import email.utils
import functools
import http.server
import os
import re
import socket
import time
import urllib.parse
from pathlib import Path
from xml.sax.saxutils import escape


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, root, delay, *args):
        self.root, self.delay = root, delay
        super().__init__(*args)

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, *args):
        """Logs nothing."""

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body):
        time.sleep(self.delay)
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        path = self.root / urllib.parse.unquote(url.path).strip("/")
        if path.is_dir():
            return self.list(path, query)
        if not path.is_file():
            return self.body(404, b"<Error><Code>NoSuchKey</Code></Error>", with_body)
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            start, end, code = 0, status.st_size, 200
            if found := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("range", "")):
                first, last = found.groups()
                start = int(first) if first else max(0, end - int(last))
                end, code = min(end, int(last) + 1) if first and last else end, 206
            self.send_response(code)
            self.send_header("content-length", str(end - start))
            self.send_header("etag", f'"{status.st_mtime_ns:x}-{status.st_size:x}"')
            self.send_header("last-modified", email.utils.formatdate(status.st_mtime, usegmt=True))
            self.send_header("accept-ranges", "bytes")
            if code == 206:
                self.send_header("content-range", f"bytes {start}-{end - 1}/{status.st_size}")
            self.end_headers()
            if with_body and end > start:
                self.wfile.flush()
                self.connection.sendfile(file, start, end - start)

    def list(self, bucket, query):
        prefix, after = query.get("prefix", ""), query.get("start-after", query.get("continuation-token", ""))
        keys = sorted(path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file())
        found = [key for key in keys if key.startswith(prefix) and key > after]
        page, parts = found[:1000], []
        for key in page:
            status = (bucket / key).stat()
            when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(status.st_mtime))
            tag = f"&quot;{status.st_mtime_ns:x}-{status.st_size:x}&quot;"
            parts.append(f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified><ETag>{tag}</ETag><Size>{status.st_size}</Size></Contents>")
        more = len(found) > len(page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        head = f"<Name>{bucket.name}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount><MaxKeys>1000</MaxKeys>"
        head += f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        text = f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{head}{"".join(parts)}</ListBucketResult>'
        self.body(200, text.encode(), True)

    def body(self, code, body, with_body):
        self.send_response(code)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "application/xml")
        self.end_headers()
        if with_body:
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request, client_address):
        """Logs nothing, because a reader may exit before the end of an answer. That is not an error."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()
    server = Server(("127.0.0.1", 0), functools.partial(Handler, options.folder.resolve(), options.delay))
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
