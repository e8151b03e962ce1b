"""The checks of README.md for the Python client."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

BOUND = 10
RESTART_BOUND = 25
FIXTURE_TOOLS = 11
MIB = 1 << 20
ODD_TEXT = 'naïve 日本語 🦀 \u0000\u2028\u2029 "quotes" \\ \r\n\t end'
ELICITED = {"action": "accept", "content": {"name": "Ada Ünï 🦀"}}
ROOT = {"uri": "file:///peer/root", "name": "peer root"}
PAGE = "https://peer.test/sign-in?a=1&b=%20"
USED = {"type": "tool_use", "id": "use-1", "name": "weather", "input": {"city": "Ulm"}}
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


def same(got: Any, wanted: Any, what: str) -> None:
    if got != wanted:
        raise AssertionError(f"{what}: {str(got)[:300]} instead of {str(wanted)[:300]}")


async def until(holds: Callable[[], Awaitable[bool]], what: str, seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not await holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {seconds} s")
        await anyio.sleep(0.05)


async def text_of(peer: Any, name: str, args: dict[str, Any], **options: Any) -> str:
    result = await peer.client.call_tool(name, args, **options)
    if result.is_error:
        raise AssertionError(f"{name} answered with isError: {result.content}")
    return result.content[0].text


async def every_tool(peer: Any) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor = None
    while len(pages) < 20:
        page = await peer.client.list_tools(cursor=cursor)
        pages.append([tool.name for tool in page.tools])
        cursor = page.next_cursor
        if cursor is None:
            break
    return pages


async def asked(peer: Any, kind: str) -> Any:
    return json.loads(await text_of(peer, "ask", {"kind": kind}))


async def check_list(peer: Any) -> None:
    pages = await every_tool(peer)
    names = [name for page in pages for name in page]
    same(len(pages) > 1, True, "more than one page of tools")
    same(len(names) >= FIXTURE_TOOLS, True, f"enough tools in {names}")
    same(len(set(names)), len(names), f"each tool once in {names}")
    resources = await peer.client.list_resources()
    same(sorted(str(r.uri) for r in resources.resources), ["peer://static", "peer://watched"], "resources")
    same([p.name for p in (await peer.client.list_prompts()).prompts], ["greet"], "prompts")
    same((await peer.client.read_resource("peer://static")).contents[0].text, "static", "resource text")
    prompt = await peer.client.get_prompt("greet", {"name": "Ada"})
    same(prompt.messages[0].content.text, "Hello, Ada!", "prompt text")


async def check_echo(peer: Any) -> None:
    same(await text_of(peer, "echo", {"text": "hello"}), "hello", "echo")


async def check_unicode(peer: Any) -> None:
    same(await text_of(peer, "echo", {"text": ODD_TEXT}), ODD_TEXT, "echo")


async def check_big(peer: Any) -> None:
    got = await text_of(peer, "big", {"bytes": MIB})
    same(len(got), MIB, "length")
    same(got == "0123456789abcdef" * (MIB // 16), True, "the pattern")


async def check_progress(peer: Any) -> None:
    notes: list[tuple[float, float | None]] = []

    async def seen(progress: float, total: float | None, _: str | None) -> None:
        notes.append((progress, total))

    same(await text_of(peer, "progress", {"steps": 5}, progress_callback=seen), "done 5", "result")
    same(notes, [(n, 5) for n in range(1, 6)], "notes before the result")


async def check_cancel(peer: Any) -> None:
    tag = f"cancel-{os.getpid()}-{time.time_ns()}"
    with anyio.move_on_after(0.3) as scope:
        await text_of(peer, "slow", {"ms": 8000, "tag": tag})
    same(scope.cancelled_caught, True, "the call ended by the cancellation")

    async def seen() -> bool:
        return await text_of(peer, "was_cancelled", {"tag": tag}) == "true"

    await until(seen, "the cancellation at the server")


async def check_elicit(peer: Any) -> None:
    answer = await asked(peer, "form")
    same({key: answer.get(key) for key in ("action", "content")}, ELICITED, "elicited")


async def check_visit(peer: Any) -> None:
    same((await asked(peer, "url"))["action"], "accept", "visited")


async def check_sample_tools(peer: Any) -> None:
    answer = await asked(peer, "tools")
    content = answer["content"][0] if isinstance(answer["content"], list) else answer["content"]
    got = [answer.get("stopReason"), {key: content.get(key) for key in USED}]
    same(got, ["toolUse", USED], "sampled with tools")


async def check_sample(peer: Any) -> None:
    answer = await asked(peer, "sampling")
    content = answer["content"][0] if isinstance(answer["content"], list) else answer["content"]
    got = [answer["role"], answer["model"], content["text"]]
    same(got, ["assistant", "peer-model", "sampled: Say something"], "sampled")


async def check_roots(peer: Any) -> None:
    roots = (await asked(peer, "roots"))["roots"]
    same([{"uri": root["uri"], "name": root["name"]} for root in roots], [ROOT], "roots")


async def check_log(peer: Any) -> None:
    peer.logs.clear()
    options: dict[str, Any] = {}
    if peer.modern:
        options["meta"] = {LOG_LEVEL: "info"}
    else:
        await peer.client.session.set_logging_level("info")
    same(await text_of(peer, "log", {"level": "warning"}, **options), "logged", "result")

    async def three() -> bool:
        return len(peer.logs) >= 3

    await until(three, "three log notes")
    same(await text_of(peer, "log", {"level": "debug"}, **options), "logged", "result")
    await anyio.sleep(0.2)
    same(peer.logs, [("warning", "peer", f"log {n}") for n in (1, 2, 3)], "log notes")


async def check_subscribe(peer: Any) -> None:
    async with peer.watch(resource="peer://watched") as events:
        same(await text_of(peer, "touch", {}), "touched", "result")

        async def arrived() -> bool:
            return bool(events)

        await until(arrived, "notifications/resources/updated")
        same(events, ["peer://watched"], "updates")


async def check_list_changed(peer: Any) -> None:
    async with peer.watch(tools=True) as events:
        name = await text_of(peer, "grow", {})

        async def arrived() -> bool:
            return bool(events)

        await until(arrived, "notifications/tools/list_changed")
        names = [name for page in await every_tool(peer) for name in page]
        same(name in names, True, f"{name} is listed in {names}")
        same(await text_of(peer, name, {}), name, "the new tool")


async def check_parallel(peer: Any) -> None:
    wanted = {n: f"parallel {n} {'x' * (n * 100)}" for n in range(20)}
    got: dict[int, str] = {}

    async def one(n: int) -> None:
        got[n] = await text_of(peer, "echo", {"text": wanted[n]})

    async with anyio.create_task_group() as group:
        for n in wanted:
            group.start_soon(one, n)
    same(got, wanted, "answers")


async def refused(peer: Any, name: str) -> bool:
    try:
        return (await peer.client.call_tool(name, {})).is_error is True
    except Exception:  # any error of the SDK is the refusal that was asked for
        return True


async def check_unknown_tool(peer: Any) -> None:
    same(await refused(peer, "no_such_tool"), True, "no_such_tool was refused")
    same(await text_of(peer, "echo", {"text": "after"}), "after", "the next echo")


async def check_restart(peer: Any) -> None:
    before = await text_of(peer, "whoami", {})
    same(await refused(peer, "die"), True, "die failed")
    state: dict[str, Any] = {}

    async def back() -> bool:
        try:
            state["after"] = await text_of(peer, "whoami", {}, read_timeout_seconds=2)
        except Exception as error:  # not back yet; kept for the message
            state["last"] = error
            return False
        return True

    try:
        await until(back, "an answer after the restart", 10)
    except AssertionError as error:
        raise AssertionError(f"{error}; the last error was: {state.get('last')}") from None
    same(state["after"] != before, True, f"another process id than {before}")


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}
DEFAULT = ["connect", *(name for name in CHECKS if name != "restart")]


async def bounded(work: Callable[[], Awaitable[Any]], seconds: float) -> dict[str, Any]:
    try:
        with anyio.fail_after(seconds):
            await work()
        return {"ok": True}
    except TimeoutError:
        return {"ok": False, "detail": f"no end within {seconds} s"}
    except Exception as error:  # the verdict of the check
        return {"ok": False, "detail": f"{type(error).__name__}: {error}"[:600]}


shown: set[str] = set()


def show(check: str, verdict: dict[str, Any]) -> bool:
    shown.add(check)
    print(json.dumps({"check": check, **verdict}, ensure_ascii=False), flush=True)
    return verdict["ok"]


async def run_checks(peer: Any, wanted: list[str]) -> bool:
    """Runs the checks on a connected peer and prints a line for each."""
    good = True
    for check in wanted:
        if check == "connect":
            good &= show(check, {"ok": True})
            continue
        bound = RESTART_BOUND if check == "restart" else BOUND
        good &= show(check, await bounded(lambda: CHECKS[check](peer), bound))
    return good
