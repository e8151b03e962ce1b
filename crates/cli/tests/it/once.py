"""A legacy MCP server on stdin and stdout that may run once only, and learns tools while it runs."""
import fcntl
import json
import os
import sys

lock = open(sys.argv[1], "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit("it runs already")
tools = ["pid", "grow", "die"]


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(name):
    if name == "die":
        os._exit(1)
    if name == "grow":
        tools.append("grown_%d" % len(tools))
        send({"method": "notifications/tools/list_changed"})
    text = str(os.getpid()) if name in tools else "no such tool"
    return {"content": [{"type": "text", "text": text}], "isError": name not in tools}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "once", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
    if method == "tools/call":
        return call(params["name"])
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        continue
    if request["method"] == "server/discover":
        error = {"code": -32601, "message": "Method not found"}
        send({"id": request["id"], "error": error})
    else:
        result = answer(request["method"], request.get("params", {}))
        send({"id": request["id"], "result": result})
