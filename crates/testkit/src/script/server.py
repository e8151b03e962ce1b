# A legacy stdio server for tests: each tool is one way to behave or to misbehave.
# Modern requests are answered too; it does not look at their envelope.
import json, os, signal, subprocess, sys, threading, time

journal = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
writing = threading.Lock()
asked = {}
state = {"asks": 0, "hellos": 0, "tools": ["echo"], "able": {}}


def note_down(text):
    os.write(journal, (text + "\n").encode())


def say(message):
    raw((json.dumps(message) + "\n").encode())


def raw(data):
    with writing:
        while data:
            data = data[os.write(1, data):]


def result(id, content):
    say({"jsonrpc": "2.0", "id": id, "result": {"content": [], "structuredContent": content}})


def ask(tag):
    state["asks"] += 1
    number = state["asks"]
    done = threading.Event()
    asked[number] = [done, None]
    params = {"message": tag, "requestedSchema": {"type": "object", "properties": {}}}
    say({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params})
    done.wait()
    return asked.pop(number)[1]


def work(id, arguments, token):
    for step in range(arguments.get("steps", 0)):
        params = {"progressToken": token, "progress": step, "message": arguments["tag"]}
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        time.sleep(0.001)
    asks = arguments.get("ask") == True or arguments.get("ask") in state["able"]
    got = ask(arguments["tag"]) if asks else None
    result(id, {"tag": arguments["tag"], "got": got, "pid": os.getpid()})


def call(id, name, arguments, token):
    if name == "pid":
        result(id, {"pid": os.getpid(), "hellos": state["hellos"], "able": state["able"]})
    elif name == "echo":
        result(id, arguments)
    elif name == "big":
        result(id, {"text": "x" * arguments["size"]})
    elif name == "place":
        result(id, {"cwd": os.getcwd(), "environment": dict(os.environ)})
    elif name == "die":
        os.write(2, arguments.get("words", "").encode())
        os._exit(arguments["code"])
    elif name == "leave":
        # Started in a session of its own, it keeps our stdin, stdout and stderr.
        left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        note_down("left %d" % left.pid)
        os._exit(arguments["code"])
    elif name == "wait":
        note_down("waiting %s" % arguments.get("tag"))
    elif name == "work":
        threading.Thread(target=work, args=(id, arguments, token), daemon=True).start()
    elif name == "raw":
        raw(arguments["text"].encode("latin-1"))
        result(id, {})
    elif name == "answer as":
        raw(arguments["text"].replace("$id", str(id)).encode("latin-1"))
    elif name == "long line":
        raw(b'{"jsonrpc":"2.0","x":"' + b"x" * arguments["size"] + b'"}\n')
        result(id, {})
    elif name == "change":
        state["tools"].append(arguments["tool"])
        for _ in range(arguments.get("times", 1)):
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        result(id, {})
    elif name == "stderr":
        for _ in range(arguments["lines"]):
            os.write(2, b"y" * 1000 + b"\n")
        result(id, {})
    elif name == "flood":
        for number in range(arguments["count"]):
            data = {"level": "info", "data": "z" * arguments["size"]}
            say({"jsonrpc": "2.0", "method": "notifications/message", "params": data})
            note_down("flooded %d" % number)
        result(id, {})
    elif name == "pings":
        for number in range(arguments["count"]):
            say({"jsonrpc": "2.0", "id": "p%d" % number, "method": "ping"})
        note_down("pinged")
        time.sleep(1000)
    elif name == "deaf":
        note_down("deaf")
        time.sleep(1000)
    elif name == "close stdout":
        os.close(1)
        os.dup2(2, 1)
        time.sleep(1000)
    elif name == "close stdin":
        os.close(0)
        result(id, {})
        time.sleep(1000)
    elif name == "answer and exit":
        os.close(0)
        result(id, {"last": True})
        os._exit(0)
    else:
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "no tool " + name}})


def handle(message):
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    note_down("%d %s" % (os.getpid(), method or "answer"))
    if method is None:
        done = asked[id]
        done[1] = message.get("result", message.get("error"))
        done[0].set()
    elif method == "initialize" and (state.get("pinned") or "newest" in sys.argv):
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "too late"}})
    elif method == "server/discover" and "pins" in sys.argv:
        state["pinned"] = True
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
    elif method == "initialize":
        state["hellos"] += 1
        state["able"] = params.get("capabilities") or {}
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}
        welcome = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities,
                   "serverInfo": {"name": "scripted", "version": "1"}}
        say({"jsonrpc": "2.0", "id": id, "result": welcome})
    elif method == "server/discover" and "modern" in sys.argv:
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}
        say({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete",
             "capabilities": capabilities if "newest" in sys.argv else {},
             "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private"}})
    elif method == "server/discover" and "mute" in sys.argv:
        pass
    elif method == "server/discover" and "fragile" in sys.argv:
        os._exit(3)
    elif method == "tools/list" and "lists" in sys.argv:
        # Spaces and all, as some servers write it.
        tools = ", ".join('{ "name" :"%s", "inputSchema":{"type":"object"},"x":1.0e2 }' % tool
                          for tool in state["tools"])
        raw(('{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}\n' % (json.dumps(id), tools)).encode())
    elif method == "tools/call":
        token = (params.get("_meta") or {}).get("progressToken")
        call(id, params["name"], params.get("arguments") or {}, token)
    elif method == "notifications/cancelled":
        note_down("cancelled %s" % params.get("reason"))
    elif id is not None:
        say({"jsonrpc": "2.0", "id": id, "result": {}})


note_down("start %d" % os.getpid())
if "dies" in sys.argv:
    os.write(2, b"no configuration\n")
    os._exit(4)
if "moody" in sys.argv and os.path.exists(os.environ["JOURNAL"] + ".hang"):
    time.sleep(1000)
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin.buffer:
    handle(json.loads(line))
if "stubborn" in sys.argv:
    time.sleep(1000)
