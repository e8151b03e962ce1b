"""A stdio server with one fault, named by its first argument."""

import json
import sys
import time

FAULT = sys.argv[1]
LEGACY, MODERN = "2025-11-25", "2026-07-28"
IS_MODERN = FAULT.startswith("modern")
TOOL = {"name": "t", "description": "d", "inputSchema": {"type": "object"}}
asked = False


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def capabilities():
    if FAULT == "announces-too-much":
        return {"tools": {}, "prompts": {}}
    if FAULT == "no-templates":
        return {"tools": {}, "resources": {}}
    return {} if FAULT == "announces-too-little" else {"tools": {}}


def welcome():
    result = {
        "protocolVersion": LEGACY,
        "capabilities": capabilities(),
        "serverInfo": {"name": "ill", "version": "1"},
    }
    if FAULT == "strange-version":
        result["protocolVersion"] = "1.0"
    if FAULT == "modern-greeting":
        result["protocolVersion"] = MODERN
    if FAULT == "no-version":
        del result["protocolVersion"]
    if FAULT == "no-capabilities":
        del result["capabilities"]
    if FAULT == "nameless":
        del result["serverInfo"]
    return result


def discovery():
    result = {
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "ill", "version": "1"}},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "public",
    }
    if FAULT == "modern-no-result-type":
        del result["resultType"]
    if FAULT == "modern-nameless":
        del result["_meta"]
    if FAULT == "modern-strange":
        result["supportedVersions"] = ["2031-01-01"]
    return result


def tools(cursor):
    tool = dict(TOOL)
    page = {"tools": [tool]}
    if FAULT == "duplicate":
        page["tools"] = [tool, tool]
    if FAULT == "long-name":
        tool["name"] = "x" * 65
    if FAULT == "odd-name":
        tool["name"] = "a.b c"
    if FAULT == "no-name":
        del tool["name"]
    if FAULT == "no-schema":
        del tool["inputSchema"]
    if FAULT == "schema-of-text":
        tool["inputSchema"] = {"type": "string"}
    if FAULT == "broken-schema":
        tool["inputSchema"] = {"type": "object", "properties": {"a": {"type": "nonsense"}}}
    if FAULT == "bad-annotation":
        tool["inputSchema"] = {
            "type": "object",
            "properties": {"a": {"type": "array", "x-mcp-header": "a"}},
        }
    if FAULT == "no-description":
        del tool["description"]
    if FAULT == "same-cursor":
        page["nextCursor"] = "again"
    if FAULT == "no-end":
        page["nextCursor"] = str(int(cursor or 0) + 1)
    if FAULT == "no-list":
        page = {"things": []}
    if IS_MODERN and FAULT != "modern-no-cache":
        page.update({"ttlMs": 0, "cacheScope": "public", "resultType": "complete"})
    return page


def answer(request):
    method, params = request["method"], request.get("params", {})
    if method == "server/discover" and IS_MODERN and FAULT != "modern-greeting":
        return {"result": discovery()}
    if method == "server/discover" and FAULT == "hates-the-question":
        sys.exit("unknown method")
    if method == "initialize":
        if FAULT == "refuses":
            return {"error": {"code": -32602, "message": "bad version"}}
        return {"result": welcome()}
    if method == "ping" and FAULT != "no-ping":
        return {"result": {}}
    if method == "tools/list" and FAULT == "dies":
        sys.exit("out of tools")
    if method == "tools/list":
        return {"result": tools(params.get("cursor"))}
    if method == "resources/list" and FAULT == "no-templates":
        return {"result": {"resources": []}}
    if FAULT == "knows-everything":
        return {"result": {}}
    if FAULT == "bare-error":
        return {"error": "what?"}
    return {"error": {"code": -32601, "message": "Method not found"}}


def dress(message):
    """The shape of an answer, with its fault."""
    if FAULT == "ids-are-text":
        message["id"] = str(message["id"])
    if FAULT == "no-jsonrpc":
        del message["jsonrpc"]
    if FAULT == "both":
        message.setdefault("error", None)
    return message


if FAULT == "exits":
    sys.exit("KEY is not set")
if FAULT == "banner":
    print("Starting server...", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if FAULT == "silent" or "id" not in request:
        continue
    if FAULT == "answers-twice":
        send({"jsonrpc": "2.0", "id": 999, "result": {}})
    if FAULT == "asks" and request.get("method") == "tools/list" and not asked:
        asked = True
        send({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
    if "method" in request:
        send(dress({"jsonrpc": "2.0", "id": request["id"], **answer(request)}))
if FAULT == "stays":
    time.sleep(60)
