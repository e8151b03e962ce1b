"""The checking client of README.md on the Python SDK 2.x (both eras)."""

from __future__ import annotations

import argparse
import math
import os
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import checks
import mcp_types as types
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning

warnings.simplefilter("ignore", MCPDeprecationWarning)
MODERN = "2026-07-28"


class Peer:
    """The SDK's client with what the checks need to see."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.modern = args.era == "modern"
        self.logs: list[tuple[str, str | None, Any]] = []
        self._seen: list[tuple[str, list[str]]] = []
        self.client = Client(
            server_of(args),
            # `auto` asks `server/discover`; a pinned version would skip it.
            mode="auto" if self.modern else "legacy",
            client_info=types.Implementation(name="peer-py", version="1.0.0"),
            elicitation_callback=elicited,
            sampling_callback=sampled,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            list_roots_callback=rooted,
            logging_callback=self._logged,
            message_handler=self._noted,
        )

    async def _logged(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append((params.level, params.logger, params.data))

    async def _noted(self, message: Any) -> None:
        for method, events in self._seen:
            if getattr(message, "method", None) == method:
                events.append(str(getattr(message.params, "uri", method)))

    @asynccontextmanager
    async def watch(self, *, tools: bool = False, resource: str | None = None) -> AsyncIterator[list[str]]:
        """Collects changes by the means of the era until the block ends."""
        events: list[str] = []
        if not self.modern:
            entry = ("notifications/tools/list_changed" if tools else "notifications/resources/updated", events)
            self._seen.append(entry)
            if resource:
                await self.client.subscribe_resource(resource)
            yield events
            if resource:
                await self.client.unsubscribe_resource(resource)
            self._seen.remove(entry)
            return
        async with (
            self.client.listen(
                tools_list_changed=tools, resource_subscriptions=[resource] if resource else []
            ) as subscription,
            anyio.create_task_group() as group,
        ):

            async def collect() -> None:
                async for event in subscription:
                    events.append(event.uri if isinstance(event, ResourceUpdated) else type(event).__name__)

            group.start_soon(collect)
            yield events
            group.cancel_scope.cancel()


async def elicited(_: Any, params: Any) -> types.ElicitResult:
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept" if params.url == checks.PAGE else "decline")
    return types.ElicitResult(**checks.ELICITED)


async def sampled(_: Any, params: types.CreateMessageRequestParams) -> Any:
    if params.tools and params.tools[0].name == "weather":
        used = types.ToolUseContent(**checks.USED)
        return types.CreateMessageResultWithTools(
            role="assistant", model="peer-model", stop_reason="toolUse", content=[used]
        )
    content = params.messages[0].content
    words = (content[0] if isinstance(content, list) else content).text
    answer = types.TextContent(type="text", text=f"sampled: {words}")
    return types.CreateMessageResult(role="assistant", model="peer-model", content=answer)


async def rooted(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(**checks.ROOT)])


def server_of(args: argparse.Namespace) -> Any:
    if args.transport == "http":
        # The default limit of 1 MiB an event is just too small for the check `big`.
        return streamable_http_client(args.url, max_sse_event_size=4 << 20)
    if args.transport == "sse":
        return sse_client(args.url)
    return StdioServerParameters(command=args.command[0], args=args.command[1:])


def arguments() -> argparse.Namespace:
    own, command = sys.argv[1:], []
    if "--" in own:
        own, command = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser()
    parser.add_argument("--era", choices=["legacy", "modern"], required=True)
    parser.add_argument("--transport", choices=["stdio", "http", "sse"], required=True)
    parser.add_argument("--checks")
    parser.add_argument("--url")
    args = parser.parse_args(own)
    args.command = command
    args.checks = args.checks.split(",") if args.checks else checks.DEFAULT
    return args


def wrong_era(peer: Peer, era: str) -> str:
    version = peer.client.protocol_version
    return "" if (version == MODERN) == peer.modern else f"negotiated {version} in the {era} era"


def reasons(error: BaseException) -> str:
    """The leaves of an exception group: the SDK's task groups wrap what went wrong."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(reasons(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"


async def main() -> None:
    args = arguments()
    peer = Peer(args)
    detail, good = f"no end within {checks.BOUND} s", None
    # One scope around everything: it bounds the connecting, then nothing, then the closing.
    with anyio.CancelScope(deadline=anyio.current_time() + checks.BOUND) as scope:
        try:
            async with peer.client:
                scope.deadline = math.inf
                detail = wrong_era(peer, args.era)
                if not detail:
                    detail = "the SDK ended the session"
                    good = await checks.run_checks(peer, args.checks)
                scope.deadline = anyio.current_time() + 5
        except Exception as error:  # the SDK gave up, while connecting or later
            detail = f"{detail}: {reasons(error)}"[:600]
    if good is None:
        for check in args.checks:
            if check not in checks.shown:
                checks.show(check, {"ok": False, "detail": detail})
    sys.stdout.flush()
    os._exit(0 if good else 1)


if __name__ == "__main__":
    anyio.run(main)
