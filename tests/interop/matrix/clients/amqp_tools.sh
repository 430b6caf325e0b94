# amqp-tools: arguments, input and output as in python.py, without the name of the client. Headers are texts; no values are shown.
mode=$1 url=${2%/} place=$3 key=$4
[ "$mode" = send ] || exit 0
field() { printf %s "$line" | perl -MJSON::PP -e "binmode STDOUT, ':utf8'; \$l = decode_json(<STDIN>); print $1"; }
answer() { printf '%s\n' "$line" | perl -MJSON::PP -e 'print encode_json([decode_json(<STDIN>)->[0], $ARGV[0] // ""]), "\n"' "$1"; }
while read -r line; do
    name=$(field '$l->[0]')
    case $(field '$l->[1]') in
    text) set -- -H "v: $(field '$l->[2]')" ;;
    octets) set -- -H "v: $(printf %s "$line" | perl -MJSON::PP -e 'print pack "H*", decode_json(<STDIN>)->[2]')" ;;
    property)
        value=$(field '$l->[2][2]')
        case $(field '$l->[2][0]') in
        content_type) set -- -C "$value" ;;
        content_encoding) set -- -E "$value" ;;
        reply_to) set -- -t "$value" ;;
        delivery_mode) set -- -p ;;
        *) answer cannot; continue ;;
        esac ;;
    *) answer cannot; continue ;;
    esac
    [ -z "$place" ] || set -- -e "$place" "$@"
    amqp-publish --url "$url" -r "$key" -b "$name" "$@" 2>/dev/null
    answer ""
done
