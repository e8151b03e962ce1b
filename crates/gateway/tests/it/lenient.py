"""A legacy MCP server on stdin and stdout that takes any spelling of a URI, and a list for a name.

Whoever has signed in is listed a template for each room. `hold FILE` makes the
list of templates wait until that file is there."""
import json
import os
import sys
import time
from urllib.parse import unquote, urlsplit

rooms = []


def plain(uri):
    uri = uri[0] if isinstance(uri, list) else uri
    url = urlsplit(unquote(uri.strip()))
    path = os.path.normpath(url.path) if url.path else ""
    return url.scheme.lower() + "://" + url.netloc.lower() + path


def first(name):
    return name[0] if isinstance(name, list) else name


def answer(method, params):
    if method == "initialize":
        lists = {"listChanged": True, "subscribe": True}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": lists, "prompts": lists, "resources": lists, "completions": {}},
            "serverInfo": {"name": "lenient", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ["open", "secret"]]}
    if method == "prompts/list":
        return {"prompts": [{"name": name} for name in ["open", "secret"]]}
    if method == "resources/list":
        return {"resources": [{"uri": uri, "name": uri} for uri in ["box://open/doc", "box://secret/doc"]]}
    if method == "resources/templates/list":
        while sys.argv[1:2] == ["hold"] and not os.path.exists(sys.argv[2]):
            time.sleep(0.01)
        names = ["page"] + rooms
        return {"resourceTemplates": [{"uriTemplate": name + "://{id}", "name": name} for name in names]}
    if method == "resources/read":
        return {"contents": [{"uri": plain(params["uri"]), "text": "inside " + plain(params["uri"])}]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": first(params["name"])}}]}
    if method == "completion/complete":
        of = params["ref"]
        return {"completion": {"values": [first(of.get("name") or of.get("uri"))]}}
    if method == "tools/call":
        name = first(params["name"])
        if params.get("arguments", {}).get("room"):
            rooms.append(params["arguments"]["room"])
            send({"method": "notifications/resources/list_changed"})
        return {"content": [{"type": "text", "text": name}]}
    return {}


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        send({"id": request["id"], "result": answer(request["method"], request.get("params", {}))})
