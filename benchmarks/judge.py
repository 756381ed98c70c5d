"""Judge throughput against a loopback server of known latency, and from stored replies.

    python benchmarks/judge.py [--concurrency 16] [--latency 1.0] [--tasks 24] [--repeats 2]

The ideal is concurrency / latency. What is missing from it is the client's own work: rendering, HTTP, reading,
guarding, and storing every reply durably.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from trustvid.captioning.checklist import Checklist
from trustvid.judge.base import JudgeTask
from trustvid.judge.openai_compatible import OpenAICompatibleJudge
from trustvid.judge.replay import ReplayJudge

ITEMS = 20
REPLY = '{"content": ["a red car"], "answer": "yes", "result_explanation": "a red car", "result_confidence": 5}'


def serve(latency: float, ready: Connection) -> None:
    """A server that answers every request after ``latency`` seconds; sends its port once it listens."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": REPLY}}
    body = json.dumps(
        {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await reader.readline()).strip():
            length = 0
            while (line := await reader.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            await reader.readexactly(length)
            await asyncio.sleep(latency)
            writer.write(head + body)
            await writer.drain()
        writer.close()
        del request

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def tasks(number: int, run: int) -> Iterator[JudgeTask]:
    """Responses with as many items as a real instruction has; ``run`` keeps the runs' requests apart."""
    rules = [
        {
            "check_id": f"rule-{place:03}",
            "constraint_id": "length",
            "check_description": f"the description has at most {place + 10} words",
            "parameters": {"content": None, "unit": "word", "max_len": place + 10},
        }
        for place in range(ITEMS // 4)
    ]
    questions = [
        {
            "check_id": f"open-{place:03}",
            "check_type": "attempt",
            "question": f"Is thing {place} described?",
            "options": ["yes", "no"],
            "correct_answer": "yes",
        }
        for place in range(ITEMS - len(rules))
    ]
    groups = [{"check_content": "things", "check_items": questions}]
    checklist = Checklist.from_json({"ruled_based_check": rules, "open_ended_check": groups})
    for name in range(number):
        yield JudgeTask(f"clip_{run}_{name}/01", "Describe it.", f"Run {run}, {name}: a red car passes.", checklist)


def rate(judge: OpenAICompatibleJudge | ReplayJudge, number: int, run: int) -> float:
    """Calls per second over ``number`` responses."""
    started = time.perf_counter()
    judged = sum(len(j.strict.extractions) + len(j.strict.answers) for j in judge.judge_many(tasks(number, run)))
    return judged / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds the server takes for each reply")
    parser.add_argument("--tasks", type=int, default=24, help=f"responses of {ITEMS} items each")
    parser.add_argument("--repeats", type=int, default=2, help="the best of these counts: others share the machine")
    arguments = parser.parse_args()
    ideal = arguments.concurrency / arguments.latency
    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(arguments.latency, sender), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{receiver.recv()}/v1"
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "replies.sqlite")
        judge = OpenAICompatibleJudge(
            "m", url, None, store=store, concurrency=arguments.concurrency, upstream=False, max_retries=0
        )
        rate(judge, 1, run=-1)  # imports and connections
        served = [rate(judge, arguments.tasks, run) for run in range(arguments.repeats)]
        replay = ReplayJudge(store, upstream=False)
        rate(replay, 1, run=-1)
        replayed = max(rate(replay, arguments.tasks, run) for run in range(arguments.repeats))
    server.terminate()
    print(f"{'path':<28}{'calls/s':>10}{'of ideal':>10}")
    print(f"{'concurrency / latency':<28}{ideal:>10.1f}{1:>10.2f}")
    for number, calls in enumerate(served, 1):
        print(f"{f'served and stored, run {number}':<28}{calls:>10.1f}{calls / ideal:>10.2f}")
    print(f"{'replayed':<28}{replayed:>10.1f}{'':>10}")


if __name__ == "__main__":
    main()
