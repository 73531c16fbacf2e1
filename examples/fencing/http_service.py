#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service that refuses a lower fence. usage: http_service.py DATABASE [PORT]

PUT /accounts/ID with the header `Fence` sets the balance: 204; 412 when a later holder has written or there is no
such account; 428 without the header. Listens on 127.0.0.1 and prints its port."""
import re
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WRITE = "UPDATE accounts SET balance = :balance, fence = :fence WHERE id = :id AND fence <= :fence"


class Accounts(BaseHTTPRequestHandler):
    def do_PUT(self):
        account = re.fullmatch(r"/accounts/(\d+)", self.path)
        fence = self.headers.get("Fence", "")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not account or not body.isdigit():
            return self.answer(400, "PUT /accounts/ID with a number")
        if not re.fullmatch(r"\d{1,18}", fence):
            return self.answer(428, "say under which fence: the header Fence")  # not a default: it would be a hole
        database = sqlite3.connect(self.server.database)
        try:
            with database:
                done = database.execute(WRITE, {"id": int(account[1]), "balance": int(body), "fence": int(fence)})
        finally:
            database.close()
        if done.rowcount == 1:
            return self.answer(204, "")
        return self.answer(412, f"refused: fence {fence} is too old, or there is no account {account[1]}\n")

    def answer(self, status, text):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        if status != 204:
            self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Accounts)
    server.database = sys.argv[1]
    print(server.server_address[1], flush=True)
    server.serve_forever()
