"""A chat that remembers: what has been answered once is never paid for again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from trustvid.errors import ConfigError
from trustvid.llm.chat import Chat
from trustvid.llm.loop import PerLoop
from trustvid.llm.messages import ChatRequest, Failure, Outcome, Reply, canonical_json, identity_digest, key_of
from trustvid.llm.store import Claims, Received, RequestStore

# How often to look whether somebody else's request has been answered.
_LOOK_AGAIN_S = (0.02, 0.5)


class StoredChat(Chat):
    """Answers from the store, else asks the chat behind it and stores the reply before handing it out.

    Only replies are remembered; a request that failed is asked again next time. Two askers of the same question, in
    one process or in several, share one reply: the second waits for the first. Failures are noted in the store too,
    so that a replay ends every item as the run did.

    Args:
        chat: who is asked.
        store: where the replies are.
        offline: never ask: a request without a stored reply ends with the failure that was noted for it, else with
            one of kind "not_stored".
    """

    def __init__(self, chat: Chat, store: RequestStore, offline: bool = False):
        self.chat, self.store, self.offline = chat, store, offline
        self.parallel = chat.parallel
        self._claims = Claims.of(store)
        self._writers = PerLoop(_Writer)
        self._asking: PerLoop[dict[str, asyncio.Future[Outcome]]] = PerLoop(dict)

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.chat.identity

    @cached_property
    def _who(self) -> str:
        return identity_digest(self.identity)

    async def complete(self, request: ChatRequest, *, fresh: bool = False) -> Outcome:
        key = key_of(self._who, request)
        if not self.offline:
            return await self._shared(key, request, fresh)
        return (
            self.store.reply(key)
            or self.store.failure(key)
            or Failure(
                "not_stored", f"no reply is stored for this request to {_shown(self.identity)}, and nobody may be asked"
            )
        )

    async def _shared(self, key: str, request: ChatRequest, fresh: bool) -> Outcome:
        """One outcome for all who ask the same at the same time in this process, failures included."""
        asking = self._asking.get()
        while (other := asking.get(key)) is not None:
            await asyncio.wait([other])
            if not other.cancelled():
                return other.result()
        asking[key] = mine = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._claimed(key, request, fresh)
            mine.set_result(outcome)
            return outcome
        finally:
            mine.cancel()
            del asking[key]

    async def _claimed(self, key: str, request: ChatRequest, fresh: bool) -> Outcome:
        """The stored reply, else ask, when no other process is asking the same."""
        pause, longest = _LOOK_AGAIN_S
        while not self._claims.claim(key):
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)
        try:
            found = None if fresh else await self._look(key)
            return found or await self._ask(key, request)
        finally:
            self._claims.release(key)

    async def _look(self, key: str) -> Reply | None:
        # A commit waits for the disk; looking meanwhile, in this thread, would hold up everybody's replies.
        return await asyncio.to_thread(self.store.reply, key) if self.store.busy else self.store.reply(key)

    async def reject(self, request: ChatRequest, reason: str) -> None:
        if not self.offline:
            writer = self._writers.get()
            writer.rejected[key_of(self._who, request)] = reason
            await writer.commit(self.store)

    async def _ask(self, key: str, request: ChatRequest) -> Outcome:
        outcome = await self.chat.complete(request)
        writer = self._writers.get()
        writer.received.append(Received(key, self.identity, request.to_json(), outcome))
        # Shielded: an interrupt must not lose a reply that has been paid for.
        await asyncio.shield(asyncio.ensure_future(writer.commit(self.store)))
        return outcome


@dataclass(eq=False)
class _Writer:
    """Commits whatever has come in since the last commit in one step: one wait for the disk serves many replies."""

    received: list[Received] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def commit(self, store: RequestStore) -> None:
        """Returns when everything that was waiting when it was called is on disk."""
        async with self.turn:
            received, self.received = self.received, []
            rejected, self.rejected = self.rejected, {}
            try:
                if received:
                    await asyncio.to_thread(store.add, received)
                if rejected:
                    await asyncio.to_thread(store.reject, rejected)
            except BaseException:
                # The others who wait for this batch try for themselves, and fail with the reason.
                self.received, self.rejected = received + self.received, {**rejected, **self.rejected}
                raise


class Replay(Chat):
    """Stands for a chat whose replies are in a store; asks nobody. Used inside a :class:`StoredChat`.

    Args:
        store: the replies of earlier runs.
        model: which chat's replies; None = the only one there.

    Raises:
        ConfigError: the store holds no such chat, or several; the message lists them.
    """

    def __init__(self, store: RequestStore, model: str | None = None):
        known = store.identities()
        chosen = [identity for identity in known if model in (None, identity.get("model"))]
        if len(chosen) != 1:
            raise ConfigError([_choice_fault(store.path, model, known, chosen)])
        self._identity = chosen[0]

    @property
    def identity(self) -> Mapping[str, Any]:
        return self._identity

    async def complete(self, request: ChatRequest, *, fresh: bool = False) -> Outcome:
        return Failure("not_stored", "a replay asks nobody")


def _choice_fault(
    path: Path | None, model: str | None, known: list[dict[str, Any]], chosen: list[dict[str, Any]]
) -> str:
    """Why a replay cannot tell whose replies it is to give."""
    if len(chosen) > 1 and len({_shown(identity) for identity in chosen}) == 1:
        listed = "; ".join(sorted(map(canonical_json, chosen)))
        return (
            f"{path}: {_shown(chosen[0])} was asked with several settings ({listed}); expected one: give the run's own "
            "judge with offline=true instead of the replay"
        )
    wanted = "a store of one model (or model=…)" if model is None else f"replies of model={model}"
    listed = "; ".join(sorted(map(_shown, known))) or "nothing"
    return f"{path}: expected {wanted}; it holds {listed}"


def remembered(chat: Chat, path: Path | str | None, offline: bool = False) -> StoredChat:
    """``chat`` with a store at ``path``; None = it remembers until the process ends."""
    return StoredChat(chat, RequestStore(path), offline)


def _shown(identity: Mapping[str, Any]) -> str:
    name = identity.get("model") or canonical_json(identity)
    return f"{name} ({identity['served_by']})" if identity.get("served_by") else str(name)
