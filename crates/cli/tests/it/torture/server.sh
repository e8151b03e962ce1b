# A legacy MCP server that costs next to nothing: it greets, and answers {}.
while IFS= read -r line; do
    id=${line#*\"id\":}
    [ "$id" = "$line" ] && continue
    id=${id%%[,\}]*}
    case $line in
        *'"initialize"'*)
            info='"serverInfo":{"name":"small","version":"1"}'
            result="{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},$info}" ;;
        *) result='{}' ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
