"""A legacy MCP server on stdin and stdout that shows more to whoever has signed in there."""
import json
import os
import sys

rooms = []


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method, params):
    if method == "initialize":
        lists = {"listChanged": True}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": lists, "prompts": lists, "resources": lists, "completions": {}},
            "serverInfo": {"name": "personal", "version": "1"},
            "instructions": "Sign in first.",
        }
    if method == "tools/list":
        names = ["pid", "sign_in"] + ["room_" + room for room in rooms]
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    if method == "prompts/list":
        return {"prompts": [{"name": "prompt_" + room} for room in rooms]}
    if method == "resources/list":
        return {"resources": [{"uri": "room://" + room, "name": room} for room in rooms]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "inside " + params["uri"]}]}
    if method == "completion/complete":
        return {"completion": {"values": [params["ref"]["name"]]}}
    if method == "tools/call":
        name = params["name"]
        if name == "sign_in":
            rooms.append(params["arguments"]["room"])
            for of in ["tools", "prompts", "resources"]:
                send({"method": "notifications/%s/list_changed" % of})
        known = name in ["pid", "sign_in"] or name[5:] in rooms
        text = str(os.getpid()) if known else "no such room"
        return {"content": [{"type": "text", "text": text}], "isError": not known}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        result = answer(request["method"], request.get("params", {}))
        send({"id": request["id"], "result": result})
