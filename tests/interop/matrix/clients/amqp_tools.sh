# amqp-tools: arguments, input and output as in python.py, without the name of the client. Headers are texts; none are shown.
mode=$1 url=${2%/} place=$3 key=$4
[ "$mode" = send ] || exit 0
while read -r line; do
    name=$(printf %s "$line" | perl -MJSON::PP -e 'binmode STDOUT, ":utf8"; print decode_json(<STDIN>)->[0]')
    value=$(printf %s "$line" | perl -MJSON::PP -e '$l = decode_json(<STDIN>); exit 1 if $l->[1] !~ /text|octets/; $v = $l->[2]; if ($l->[1] eq "octets") { $v = pack "H*", $v } else { utf8::encode($v) } print $v') ||
        { printf '%s\n' "$line" | perl -MJSON::PP -ne 'print encode_json([decode_json($_)->[0], "cannot"]), "\n"'; continue; }
    if [ -n "$place" ]; then
        amqp-publish --url "$url" -e "$place" -r "$key" -H "v: $value" -b "$name" 2>/dev/null
    else
        amqp-publish --url "$url" -r "$key" -H "v: $value" -b "$name" 2>/dev/null
    fi
    printf '%s\n' "$line" | perl -MJSON::PP -ne 'print encode_json([decode_json($_)->[0], $ENV{FAULT} // ""]), "\n"'
done
