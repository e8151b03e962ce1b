"""The fixture server of README.md on the Python SDK 2.x (both eras)."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import warnings
from typing import Any

import anyio
import fixture
import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

warnings.simplefilter("ignore", MCPDeprecationWarning)


def only(era: str) -> Any:
    """A middleware that refuses the other era: the SDK itself always serves both."""

    async def check(ctx: Any, call_next: Any) -> Any:
        modern = fixture.is_modern(ctx) and ctx.method != "initialize"
        if era == "legacy" and modern:
            raise MCPError(types.METHOD_NOT_FOUND, "this server speaks the legacy era only")
        if era == "modern" and not modern:
            data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": ctx.protocol_version}
            raise MCPError(types.UNSUPPORTED_PROTOCOL_VERSION, "this server speaks the modern era only", data)
        return await call_next(ctx)

    return check


class Fixture(Server):
    """The SDK's HTTP manager asks for no notification options, so they are fixed here."""

    def create_initialization_options(self, *_: Any, **__: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(resources_changed=True, tools_changed=True))


def build(era: str) -> Server:
    server = Fixture(
        "peer-fixture",
        version="1.0.0",
        on_list_tools=fixture.list_tools,
        on_call_tool=fixture.call_tool,
        on_list_resources=fixture.list_resources,
        on_read_resource=fixture.read_resource,
        on_subscribe_resource=fixture.subscribe,
        on_unsubscribe_resource=fixture.unsubscribe,
        on_subscriptions_listen=ListenHandler(fixture.bus),
        on_list_prompts=fixture.list_prompts,
        on_get_prompt=fixture.get_prompt,
        on_set_logging_level=fixture.set_level,
    )
    server.add_notification_handler("notifications/initialized", types.NotificationParams, fixture.initialized)
    if era != "both":
        server.middleware.append(only(era))
    return server


def sse_app(server: Server) -> Starlette:
    transport = SseServerTransport("/messages/")

    async def connect(request: Any) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return Starlette(
        routes=[Route("/sse", endpoint=connect), Mount("/messages/", app=transport.handle_post_message)]
    )


async def serve_http(app: Starlette, port: int, path: str) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    print(f"listening http://127.0.0.1:{listener.getsockname()[1]}{path}", file=sys.stderr, flush=True)
    await uvicorn.Server(config).serve(sockets=[listener])


async def serve_stdio(server: Server) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", choices=["stdio", "http", "sse"], default="stdio")
    parser.add_argument("--era", choices=["both", "legacy", "modern"], default="both")
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    server = build(args.era)
    if args.transport == "http":
        anyio.run(serve_http, server.streamable_http_app(), args.port, "/mcp")
    elif args.transport == "sse":
        anyio.run(serve_http, sse_app(server), args.port, "/sse")
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        anyio.run(serve_stdio, server)


if __name__ == "__main__":
    main()
