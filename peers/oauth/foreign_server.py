"""A FastMCP server that wants access tokens; prints `ready URL`.

    python foreign_server.py verifier|proxy ISSUER [PORT]

`verifier` takes tokens of ISSUER and sends clients there. `proxy` is an authorization server of its own for clients, and
a client of ISSUER itself: `proxy`, with the secret `proxy-secret`, back at /auth/callback.
"""

from __future__ import annotations

import json
import logging
import socket
import sys

from fastmcp import FastMCP
from fastmcp.server.auth import OAuthProxy, RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token
from key_value.aio.stores.memory import MemoryStore
from pydantic import AnyHttpUrl
from uvicorn import Config, Server

SCOPES = ["mcp:read"]


def provider_of(kind: str, issuer: str, base: str) -> RemoteAuthProvider | OAuthProxy:
    verifier = JWTVerifier(
        jwks_uri=f"{issuer}/jwks", issuer=issuer, audience=f"{base}/mcp", algorithm="ES256", required_scopes=SCOPES
    )
    if kind == "verifier":
        return RemoteAuthProvider(verifier, authorization_servers=[AnyHttpUrl(issuer)], base_url=base)
    return OAuthProxy(
        upstream_authorization_endpoint=f"{issuer}/auth",
        upstream_token_endpoint=f"{issuer}/token",
        upstream_revocation_endpoint=f"{issuer}/token/revocation",
        upstream_client_id="proxy",
        upstream_client_secret="proxy-secret",
        token_verifier=verifier,
        base_url=base,
        client_storage=MemoryStore(),
    )


def build(kind: str, issuer: str, base: str) -> FastMCP:
    server = FastMCP("foreign", auth=provider_of(kind, issuer, base))

    @server.tool
    def whoami() -> str:
        """Tells whose token came."""
        token = get_access_token()
        return json.dumps({"sub": token.claims.get("sub"), "scopes": token.scopes})

    return server


def main() -> None:
    kind, issuer, *port = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port[0]) if port else 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = build(kind, issuer, base).http_app(path="/mcp")
    print(f"ready {base}/mcp", flush=True)
    Server(Config(app, log_level="warning")).run(sockets=[listener])


logging.getLogger().setLevel(logging.WARNING)
main()
