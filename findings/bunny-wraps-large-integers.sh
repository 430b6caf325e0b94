#!/bin/sh
# bunny 2.19.0 of Debian 12 (ruby-amq-protocol 2.3.2) writes the lowest 64 bits of larger integers, without an error: 2^63 arrives as
# -2^63, 2^64 + 5 as 5. Ruby has integers of any size. Expected: an error, as pika, amqp (py-amqp) and amqp091-go raise.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq ruby-amq-protocol=2.3.2-1
dpkg -x ruby-amq-protocol_*.deb .
cat >expected <<'EXPECTED'
9223372036854775807 9223372036854775807
9223372036854775808 -9223372036854775808
18446744073709551621 5
EXPECTED
ruby -I usr/share/rubygems-integration/all/gems/amq-protocol-2.3.2/lib >seen <<'RUBY'
require 'amq/protocol'
[2**63 - 1, 2**63, 2**64 + 5].each { |n| puts "#{n} #{AMQ::Protocol::Table.decode(AMQ::Protocol::Table.encode('n' => n))['n']}" }
RUBY
cat seen
diff expected seen
