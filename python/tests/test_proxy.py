"""The rollout's side of the model proxy: state, wrapped clients, streams, cheap clients."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from paddock import (
    InferenceProxy,
    Mode,
    RolloutInferenceProxy,
    wrap_async_client_inplace,
    wrap_client_inplace,
)

SAMPLE = {"messages": [{"role": "user", "content": "hi"}], "top_k": 3}
ASKED = [{"role": "user", "content": "hi"}]


def answer(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3},
    }


def chunks() -> list[dict[str, Any]]:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a"'}}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "he"},
        {"content": "y"},
        {"reasoning_content": "hm"},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
    ]
    out = [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    out.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    out.append({"choices": [], "usage": {"total_tokens": 9}})
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return [{**head, **chunk} for chunk in out]


class Client:
    """The least that is OpenAI-shaped."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.chat = SimpleNamespace(completions=self)

    def create(self, **kwargs: Any) -> Any:
        self.seen.append(kwargs)
        if kwargs.get("stream"):
            return iter(chunks())
        if kwargs.get("model") == "broken":
            raise RuntimeError("down")
        return answer(f"reply {len(self.seen)}")


def test_a_wrapped_client_keeps_the_conversation() -> None:
    proxy = RolloutInferenceProxy(SAMPLE, url="http://u", jwt_token="t", headers={"X-A": "1"})
    assert proxy.messages == ASKED
    assert proxy.finish_reason is None
    client = Client()
    assert wrap_client_inplace(client, proxy=proxy) is client
    wrap_client_inplace(client, proxy=proxy)  # twice is once
    reply = client.chat.completions.create(model="m", messages=ASKED)
    assert reply == answer("reply 1")
    assert client.seen[0]["extra_headers"] == {"X-A": "1", "X-Paddock-Main": "1"}
    assert proxy.messages == [*ASKED, {"role": "assistant", "content": "reply 1"}]
    assert proxy.messages[-1].content == "reply 1"
    assert proxy.finish_reason == "stop"
    with pytest.raises(RuntimeError):
        client.chat.completions.create(model="broken", messages=[])
    assert len(proxy.messages) == 2
    client.chat.completions.create(messages=ASKED, extra_headers={"X-A": "2"})
    assert client.seen[2]["extra_headers"] == {"X-A": "2", "X-Paddock-Main": "1"}
    assert proxy.usage.total_tokens == 6
    assert "t" not in repr(proxy).replace("training", "")[30:]


def test_the_low_level_pair() -> None:
    proxy = RolloutInferenceProxy(SAMPLE, url="http://u", jwt_token="t")
    asked = [{"role": "user", "content": "other"}]
    proxy.update_state_from_messages(asked)
    assert proxy.messages == ASKED
    proxy.process_completion(answer("yes"))
    assert [m.content for m in proxy.messages] == ["other", "yes"]
    assert proxy.get_extra_body() == {"top_k": 3}
    assert proxy.headers == {"X-Paddock-Main": "1"}


def test_a_stream_is_recorded_when_it_ends_and_not_when_it_is_cut() -> None:
    proxy = RolloutInferenceProxy(SAMPLE, url="http://u", jwt_token="t")
    client = wrap_client_inplace(Client(), proxy=proxy)
    cut = client.chat.completions.create(messages=ASKED, stream=True)
    next(cut)
    del cut
    assert proxy.messages == ASKED
    with client.chat.completions.create(messages=ASKED, stream=True) as stream:
        assert list(stream) == chunks()
    last = proxy.messages[-1]
    assert last.content == "hey"
    assert last.reasoning_content == "hm"
    assert last.tool_calls[0].function.arguments == '{"a":1}'
    assert proxy.finish_reason == "tool_calls"
    assert proxy.usage.total_tokens == 9


def test_an_async_client_and_one_without_chat() -> None:
    class AsyncClient:
        def __init__(self) -> None:
            self.completions = self

        async def create(self, *, messages: Any, stream: bool = False) -> Any:
            async def streamed() -> Any:
                for chunk in chunks():
                    yield chunk

            return streamed() if stream else answer("async")

    async def main() -> None:
        proxy = RolloutInferenceProxy(SAMPLE)
        client = wrap_async_client_inplace(AsyncClient(), proxy=proxy)
        await client.completions.create(messages=ASKED)  # takes no extra_headers, gets none
        assert proxy.messages[-1].content == "async"
        async for _ in await client.completions.create(messages=ASKED, stream=True):
            pass
        assert proxy.messages[-1].content == "hey"

    asyncio.run(main())


def test_an_answer_of_an_unknown_shape_reaches_the_caller_all_the_same(caplog) -> None:
    proxy = RolloutInferenceProxy(SAMPLE)
    client = Client()
    client.create = lambda **_: SimpleNamespace(choices=[SimpleNamespace(message=3)])
    wrap_client_inplace(client, proxy=proxy)
    assert client.chat.completions.create(messages=ASKED).choices[0].message == 3
    assert "can't be recorded" in caplog.text
    assert proxy.messages == ASKED


def test_what_is_no_client_is_refused() -> None:
    with pytest.raises(TypeError, match="is not OpenAI-shaped"):
        wrap_client_inplace(object(), proxy=RolloutInferenceProxy(SAMPLE))


def test_a_local_run_marks_nothing() -> None:
    proxy = InferenceProxy({"messages": ASKED}, url="http://u", jwt_token="k", mode=Mode.Inference)
    assert proxy.headers == {}
    assert proxy.get_extra_body() == {}
    assert proxy.messages == ASKED


@pytest.fixture
def service() -> Iterator[tuple[str, list[Any]]]:
    """An OpenAI-shaped service on this machine."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {k.lower(): v for k, v in self.headers.items()}
            seen.append((headers, asked, self.client_address))
            if asked.get("stream"):
                lines = "".join(f"data: {json.dumps(c)}\n\n" for c in chunks())
                raw, kind = (lines + "data: [DONE]\n\n").encode(), "text/event-stream"
            else:
                raw, kind = json.dumps(answer("served")).encode(), "application/json"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", seen
    server.shutdown()
    server.server_close()


def test_ready_clients_mark_the_main_conversation(service) -> None:
    pytest.importorskip("openai")
    url, seen = service
    for token in ("one", "two"):
        proxy = RolloutInferenceProxy(SAMPLE, url=url, jwt_token=token)
        with proxy.rollout_client() as client:
            completion = client.chat.completions.create(model="m", messages=ASKED)
        assert completion.choices[0].message.content == "served"
        assert proxy.messages[-1].content == "served"
        raw = client.chat.completions.with_raw_response.create(model="m", messages=ASKED)
        assert raw.parse().choices[0].message.content == "served"
        assert proxy.finish_reason == "stop"
        stream = client.chat.completions.create(model="m", messages=ASKED, stream=True)
        assert len(list(stream)) == len(chunks())
        assert proxy.messages[-1].content == "hey"
    assert {h["authorization"] for h, _, _ in seen} == {"Bearer one", "Bearer two"}
    assert all(h["x-paddock-main"] == "1" for h, _, _ in seen)
    assert len(seen) == 6


def test_clients_share_their_connections(service) -> None:
    pytest.importorskip("openai")
    url, seen = service
    for _ in range(4):
        proxy = RolloutInferenceProxy(SAMPLE, url=url, jwt_token="t")
        with proxy.rollout_client() as client:
            client.chat.completions.create(model="m", messages=ASKED)
    assert len({address for _, _, address in seen}) == 1


def test_async_clients_belong_to_their_loop(service) -> None:
    pytest.importorskip("openai")
    url, seen = service

    async def main() -> None:
        proxy = RolloutInferenceProxy(SAMPLE, url=url, jwt_token="t")
        client = proxy.async_rollout_client()
        await asyncio.gather(
            *(client.chat.completions.create(model="m", messages=ASKED) for _ in range(5))
        )
        async with client:
            stream = await client.chat.completions.create(model="m", messages=ASKED, stream=True)
            assert len([c async for c in stream]) == len(chunks())
        assert proxy.messages[-1].content == "hey"

    asyncio.run(main())
    asyncio.run(main())
    assert len(seen) == 12
