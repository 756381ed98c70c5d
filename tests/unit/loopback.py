"""A stand-in for an OpenAI-compatible server on the loopback interface; the model's name picks the behaviour.

yes | no | ok-json         normal replies
429x2-then-yes             two times 429 with Retry-After: 1, then yes
500-forever | 401          always that status (the 401 repeats the key it was sent, as careless gateways do)
slow-N                     waits N seconds, then yes
content-null | refusing    no content; a refusal
no-choices | html-200 | cut-json | drop    odd or broken bodies
anything else              what ``reply`` makes of the request's body; 404 without one. The words "as MODEL" for a
                           reply mean the behaviour of that model
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[dict[str, Any]], str | None]


class LoopbackServer(ThreadingHTTPServer):
    """Counts requests by model and the greatest number in flight; keeps the bodies it was sent."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, reply: Reply | None = None):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.requests: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        """Scheme, host and port, without a path."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        """The API's root."""
        return f"{self.address}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that cut the line are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        model = body.get("model", "")
        with self.server.lock:
            self.server.requests[model] += 1
            number = self.server.requests[model]
            self.server.bodies.append(body)
            self.server.paths.append(self.path)
            self.server.in_flight += 1
            self.server.most_in_flight = max(self.server.most_in_flight, self.server.in_flight)
        try:
            self._act(body, model, number)
        finally:
            with self.server.lock:
                self.server.in_flight -= 1

    def _act(self, body: dict[str, Any], model: str, number: int) -> None:
        if self.path != "/v1/chat/completions":
            self._send(404, {"error": {"message": f"no such path {self.path}"}})
        elif model in ("yes", "no"):
            self._say(model, model)
        elif model == "ok-json":
            self._say(model, '```json\n{"judgement": "yes"}\n```')
        elif model == "429x2-then-yes":
            if number > 2:
                self._say(model, "yes")
            else:
                self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": "1"})
        elif model == "500-forever":
            self._send(500, {"error": {"message": "code 1"}})
        elif model == "401":
            self._send(401, {"error": {"message": f"bad key: {self.headers.get('Authorization')}"}})
        elif model.startswith("slow-"):
            time.sleep(float(model[5:]))
            self._say(model, "yes")
        else:
            self._act_oddly(body, model)

    def _act_oddly(self, body: dict[str, Any], model: str) -> None:
        if model == "content-null":
            self._say(model, None)
        elif model == "refusing":
            self._say(model, None, refusal="I cannot help with that.")
        elif model == "no-choices":
            self._send(200, {"id": "x", "object": "chat.completion", "created": 0, "model": model, "choices": []})
        elif model == "html-200":
            self._send(200, "<html>gateway</html>", content_type="text/html")
        elif model == "cut-json":
            self._say(model, '{"judgement": "ye')
        elif model == "drop":
            self.connection.close()
        elif self.server.reply is not None:
            text = self.server.reply(body)
            if text and text.startswith("as "):
                self._act({}, text.removeprefix("as "), number=1)
            else:
                self._say(model, text)
        else:
            self._send(404, {"error": {"message": f"no such model {model}"}})

    def _say(self, model: str, text: str | None, **more: Any) -> None:
        message = {"role": "assistant", "content": text, **more}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        record = {"id": "x", "object": "chat.completion", "created": 0, "model": model}
        self._send(200, {**record, "choices": [choice], "usage": usage})

    def _send(
        self, status: int, body: Any, headers: dict[str, str] | None = None, content_type: str = "application/json"
    ) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(reply: Reply | None = None) -> Iterator[LoopbackServer]:
    """A server that runs inside the block."""
    server = LoopbackServer(reply)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
