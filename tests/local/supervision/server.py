"""A server to supervise: answers 200 on its port and has a worker process; `PORT DEAF_FILE`."""

import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if Path(sys.argv[2]).exists():
            time.sleep(3600)
        self.send_response(200)
        self.end_headers()


worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], process_group=0)
Path(f"worker-{os.getpid()}").write_text(str(worker.pid))
HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
