# A legacy MCP server for a container that has nothing but a shell: a tool, a prompt, a resource.
while IFS= read -r line; do
    id=${line#*\"id\":}
    [ "$id" = "$line" ] && continue
    id=${id%%[,\}]*}
    case $line in
        *'"initialize"'*)
            info='"serverInfo":{"name":"box","version":"1"}'
            can='"capabilities":{"tools":{},"prompts":{},"resources":{}}'
            result="{\"protocolVersion\":\"2025-11-25\",$can,$info}" ;;
        *'"tools/list"'*) result='{"tools":[{"name":"inside","inputSchema":{"type":"object"}}]}' ;;
        *'"tools/call"'*) result="{\"content\":[{\"type\":\"text\",\"text\":\"process $$ in a container\"}]}" ;;
        *'"prompts/list"'*) result='{"prompts":[{"name":"boxed"}]}' ;;
        *'"prompts/get"'*) result='{"messages":[{"role":"user","content":{"type":"text","text":"boxed"}}]}' ;;
        *'"resources/list"'*) result='{"resources":[{"uri":"box://shell","name":"shell"}]}' ;;
        *'"resources/read"'*) result='{"contents":[{"uri":"box://shell","text":"a shell"}]}' ;;
        *'"ping"'*) result='{}' ;;
        *) # An id that is not ours to answer, or a method that nobody here has.
            printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id"
            continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
