"""A legacy MCP server on stdin and stdout, for tests: small, honest, and rude on request."""
import json
import os
import signal
import subprocess
import sys
import time


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def log(text):
    print(text, file=sys.stderr, flush=True)


def call(name, arguments):
    if name == "echo":
        return arguments["text"]
    if name == "pid":
        return str(os.getpid())
    if name == "greeted":
        return version
    if name == "folder":
        return os.getcwd()
    if name == "variables":
        return " ".join(sorted(os.environ))
    if name == "wait":
        # Lasts until somebody makes the file.
        log("waiting for " + os.path.basename(arguments["file"]))
        while not os.path.exists(arguments["file"]):
            time.sleep(0.01)
        return "waited"
    if name == "mark":
        # Tells a file what was asked, for whoever counts.
        with open(arguments["file"], "a") as marks:
            marks.write(arguments["text"] + "\n")
        return arguments["text"]
    if name == "large":
        return "x" * arguments["bytes"]
    if name == "noise":
        # A line that is no message, one that is not even text, one without measure.
        sys.stdout.buffer.write(b"hello\n\xff\xfe\x00\n" + b"y" * arguments["bytes"] + b"\n")
        sys.stdout.flush()
        return "after the noise"
    if name == "family":
        # Grandchildren that do not want to end.
        for _ in range(3):
            subprocess.Popen(
                ["sh", "-c", "trap '' TERM; sh -c 'sleep 1000; :'; :"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        return "family"
    if name == "flood":
        # Both streams at once, far more than a pipe holds.
        for number in range(arguments["lines"]):
            sys.stdout.write("stdout {} ".format(number) + "o" * 2000 + "\n")
            print("stderr {} ".format(number) + "e" * 2000, file=sys.stderr)
        return "after the flood"
    if name == "half":
        log("half a line")
        sys.stdout.write('{"jsonrpc": "2.0", "id": ')
        sys.stdout.flush()
        return None
    if name == "hang":
        log("hanging")
        return None
    if name == "garbage":
        sys.stdout.buffer.write(b"".join(os.urandom(997) + b"\n" for _ in range(1000)))
        return "after the garbage"
    if name == "deaf":
        # From here on neither the end of stdin nor SIGTERM ends it, and nothing is said.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        log("deaf")
        os.close(1)
        while True:
            time.sleep(1000)
    if name == "die":
        log("these are my last words")
        os._exit(7)
    raise KeyError(name)


def answer(message):
    # The revision that the client greeted in, for whoever asks.
    global version
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        version = params["protocolVersion"]
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rude", "version": "1"},
        }
    if method == "tools/call":
        if params["name"] == "fail":
            return {"isError": True, "content": [{"type": "text", "text": "it did not work"}]}
        if params["name"] == "arguments":
            return {"content": [], "structuredContent": params["arguments"]}
        text = call(params["name"], params.get("arguments", {}))
        if text is None:
            return None
        return {"content": [{"type": "text", "text": text}]}
    if method == "tools/list":
        # What its user names besides.
        names = ["echo"] + sys.argv[1:]
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    if method == "prompts/list":
        return {"prompts": [{"name": "p", "arguments": [{"name": "a", "required": True}]}]}
    if method == "prompts/get":
        text = params["arguments"]["a"]
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "of " + params["uri"]}]}
    if method == "resources/list":
        return {"resources": [{"uri": "file:///a", "name": "A"}]}
    if method == "completion/complete":
        return {"completion": {"values": [params["ref"]["name"], params["argument"]["name"]]}}
    return {}


log("server started")
for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "notifications/cancelled":
        log("told to give up")
    if "id" in request and "method" in request:
        result = answer(request)
        if result is not None:
            send({"jsonrpc": "2.0", "id": request["id"], "result": result})
log("server saw the end of stdin")
