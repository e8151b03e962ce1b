"""The handlers of the fixture server (README.md) on the Python SDK 2.x."""

from __future__ import annotations

import os
from typing import Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

PAGE_SIZE = 3
# The TypeScript clients drop a progress note that arrives in one read with the response.
NOTE_PAUSE = 0.05
WATCHED = "peer://watched"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
SHAPES: dict[str, dict[str, Any]] = {
    "ask": {"kind": {"type": "string", "enum": ["form", "url", "sampling", "tools", "roots"]}},
    "big": {"bytes": INTEGER},
    "die": {},
    "echo": {"text": TEXT},
    "grow": {},
    "log": {"level": {"type": "string", "enum": LEVELS}},
    "progress": {"steps": INTEGER},
    "slow": {"ms": INTEGER, "tag": TEXT},
    "touch": {},
    "was_cancelled": {"tag": TEXT},
    "whoami": {},
}
FORM = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
QUESTIONS: dict[str, tuple[Any, Any]] = {
    "form": (
        types.ElicitRequest(
            params=types.ElicitRequestFormParams(message="What is your name?", requested_schema=FORM)
        ),
        types.ElicitResult,
    ),
    "url": (
        types.ElicitRequest(
            params=types.ElicitRequestURLParams(
                message="Please sign in.", url="https://peer.test/sign-in?a=1&b=%20", elicitation_id="visit-1"
            )
        ),
        types.ElicitResult,
    ),
    "tools": (
        types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(
                messages=[
                    types.SamplingMessage(
                        role="user", content=types.TextContent(type="text", text="How is the weather?")
                    )
                ],
                max_tokens=100,
                tools=[types.Tool(name="weather", input_schema={"type": "object", "properties": {"city": TEXT}})],
                tool_choice=types.ToolChoice(mode="required"),
            )
        ),
        types.CreateMessageResultWithTools,
    ),
    "sampling": (
        types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(
                messages=[
                    types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say something"))
                ],
                max_tokens=100,
            )
        ),
        types.CreateMessageResult,
    ),
    "roots": (types.ListRootsRequest(), types.ListRootsResult),
}

# Process-wide on purpose: the modern era has no session to hang it on.
cancelled: set[str] = set()
grown: list[str] = []
bus = InMemorySubscriptionBus()
legacy_sessions: list[Any] = []
watchers: list[Any] = []
levels: dict[int, str] = {}


def saying(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def is_modern(ctx: Any) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def bad(message: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, message)


async def tell(sessions: list[Any], send: Any) -> None:
    """Sends to every session; one that has gone away is forgotten."""
    for session in list(sessions):
        try:
            await send(session)
        except Exception:  # the session ended; nobody is left to tell
            sessions.remove(session)


async def ask(ctx: Any, params: Any, kind: str) -> Any:
    question, answer_type = QUESTIONS[kind]
    if is_modern(ctx):
        answer = (params.input_responses or {}).get("answer")
        if answer is None:
            if kind == "url":  # the modern era has no name for a visit
                bare = question.params.model_copy(update={"elicitation_id": None})
                question = types.ElicitRequest(params=bare)
            return types.InputRequiredResult(input_requests={"answer": question}, request_state="peer state")
    else:
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        answer = await ctx.session.send_request(question, answer_type, metadata=related)
    return saying(answer.model_dump_json(by_alias=True, exclude_none=True))


async def log(ctx: Any, level: str) -> types.CallToolResult:
    floor = levels.get(id(ctx.session._connection), "debug")
    for n in (1, 2, 3):
        # The SDK filters in the modern era and leaves `logging/setLevel` to the server.
        if is_modern(ctx) or LEVELS.index(level) >= LEVELS.index(floor):
            await ctx.session.send_log_message(level, f"log {n}", "peer", related_request_id=ctx.request_id)
    return saying("logged")


async def slow(ms: int, tag: str) -> types.CallToolResult:
    try:
        await anyio.sleep(ms / 1000)
    except anyio.get_cancelled_exc_class():
        cancelled.add(tag)
        raise
    return saying("slept")


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    args = params.arguments or {}
    match params.name:
        case "ask":
            return await ask(ctx, params, args["kind"])
        case "big":
            return saying(("0123456789abcdef" * (args["bytes"] // 16 + 1))[: args["bytes"]])
        case "die":
            os._exit(7)
        case "echo":
            return saying(args["text"])
        case "grow":
            grown.append(f"grown_{len(grown) + 1}")
            await bus.publish(ToolsListChanged())
            await tell(legacy_sessions, lambda session: session.send_tool_list_changed())
            return saying(grown[-1])
        case "log":
            return await log(ctx, args["level"])
        case "progress":
            for n in range(1, args["steps"] + 1):
                await ctx.session.report_progress(n, args["steps"], f"step {n}")
                await anyio.sleep(NOTE_PAUSE)
            return saying(f"done {args['steps']}")
        case "slow":
            return await slow(args["ms"], args["tag"])
        case "touch":
            await bus.publish(ResourceUpdated(uri=WATCHED))
            await tell(watchers, lambda session: session.send_resource_updated(WATCHED))
            return saying("touched")
        case "was_cancelled":
            return saying("true" if args["tag"] in cancelled else "false")
        case "whoami":
            return saying(str(os.getpid()))
        case name if name in grown:
            return saying(name)
    raise bad(f"unknown tool {params.name}")


async def list_tools(_: Any, params: Any) -> types.ListToolsResult:
    every = [*SHAPES.items(), *((name, {}) for name in grown)]
    cursor = params.cursor if params else None
    starts = {f"page-{n}": n for n in range(0, len(every), PAGE_SIZE)}
    if cursor is not None and cursor not in starts:
        raise bad(f"unknown cursor {cursor}")
    start = starts.get(cursor or "page-0", 0)
    end = start + PAGE_SIZE
    tools = [
        types.Tool(
            name=name,
            description=f"The {name} tool of the fixture.",
            input_schema={"type": "object", "properties": shape, "required": list(shape)},
        )
        for name, shape in every[start:end]
    ]
    return types.ListToolsResult(tools=tools, next_cursor=f"page-{end}" if end < len(every) else None)


async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
    names = ("watched", "static")
    return types.ListResourcesResult(
        resources=[types.Resource(uri=f"peer://{name}", name=name, mime_type="text/plain") for name in names]
    )


async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri not in (WATCHED, "peer://static"):
        raise bad(f"unknown resource {uri}")
    text = uri.removeprefix("peer://")
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)]
    )


async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
    argument = types.PromptArgument(name="name", required=True)
    prompt = types.Prompt(name="greet", description="Greets somebody.", arguments=[argument])
    return types.ListPromptsResult(prompts=[prompt])


async def get_prompt(_: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    name = (params.arguments or {}).get("name")
    if params.name != "greet" or not name:
        raise bad(f"unknown prompt {params.name}, or no name")
    content = types.TextContent(type="text", text=f"Hello, {name}!")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def subscribe(ctx: Any, _: Any) -> types.EmptyResult:
    watchers.append(ctx.session)
    return types.EmptyResult()


async def unsubscribe(ctx: Any, _: Any) -> types.EmptyResult:
    mine = ctx.session._connection
    watchers[:] = [session for session in watchers if session._connection is not mine]
    return types.EmptyResult()


async def set_level(ctx: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    levels[id(ctx.session._connection)] = params.level
    return types.EmptyResult()


async def initialized(ctx: Any, _: Any) -> None:
    legacy_sessions.append(ctx.session)
