"""A client of the Python SDK or of FastMCP: signs in at a URL, lists the tools, calls one, and prints JSON.

    python foreign_client.py mcp|fastmcp URL TOOL ARGUMENTS

A page for a person is opened by $BROWSER, as the module `webbrowser` does.
"""

from __future__ import annotations

import json
import sys
import warnings
import webbrowser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

MOST_SECONDS = 35


class Memory:
    """What the provider of the SDK keeps between runs; here it forgets."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class Callback:
    """A port where the person comes back to, once."""

    def __init__(self, listener: Any) -> None:
        self.listener = listener
        self.uri = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/callback"
        self.query: dict[str, list[str]] = {}
        self.came = anyio.Event()

    async def answer(self, stream: Any) -> None:
        async with stream:
            head = (await stream.receive()).decode()
            self.query = parse_qs(urlsplit(head.split(" ")[1]).query)
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone")
        self.came.set()

    async def wait(self) -> AuthorizationCodeResult:
        await self.came.wait()
        first = {name: values[0] for name, values in self.query.items()}
        return AuthorizationCodeResult(code=first["code"], state=first.get("state"), iss=first.get("iss"))


async def open_page(url: str) -> None:
    webbrowser.open(url)


async def with_sdk(url: str, tool: str, arguments: dict[str, Any]) -> Any:
    callback = Callback(await anyio.create_tcp_listener(local_host="127.0.0.1"))
    metadata = OAuthClientMetadata(client_name="Python SDK", redirect_uris=[callback.uri], token_endpoint_auth_method="none")
    auth = OAuthClientProvider(
        server_url=url,
        client_metadata=metadata,
        storage=Memory(),
        redirect_handler=open_page,
        callback_handler=callback.wait,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(callback.listener.serve, callback.answer)
        async with create_mcp_http_client(auth=auth) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                found = await list_and_call(client, tool, arguments)
        group.cancel_scope.cancel()
    return found


async def with_fastmcp(url: str, tool: str, arguments: dict[str, Any]) -> Any:
    import fastmcp
    from fastmcp.client.auth import OAuth

    async with fastmcp.Client(url, auth=OAuth(callback_host="127.0.0.1")) as client:
        return await list_and_call(client, tool, arguments)


async def list_and_call(client: Any, tool: str, arguments: dict[str, Any]) -> Any:
    listed = await client.list_tools()
    result = await client.call_tool(tool, arguments)
    # FastMCP gives the list itself, the SDK an answer that has it.
    return {"tools": [one.name for one in getattr(listed, "tools", listed)], "text": result.content[0].text}


async def main() -> None:
    library, url, tool, arguments = sys.argv[1:]
    work = {"mcp": with_sdk, "fastmcp": with_fastmcp}[library]
    with anyio.fail_after(MOST_SECONDS):
        print(json.dumps(await work(url, tool, json.loads(arguments))))


warnings.simplefilter("ignore")
anyio.run(main)
