#!/bin/sh
# bunny 2.19.0 of Debian 12 (ruby-amq-protocol 2.3.2) writes a BigDecimal of more than 0 places as its integer part: 12.50 is sent as 12,
# 0.05 as 0. Expected: scale 2 and 1250. Its own reader understands that form, which AMQP has for amounts.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq ruby-amq-protocol=2.3.2-1
dpkg -x ruby-amq-protocol_*.deb .
cat >expected <<'EXPECTED'
12.50 12.0
0.05 0.0
123.456 123.0
read 12.5
EXPECTED
ruby -I usr/share/rubygems-integration/all/gems/amq-protocol-2.3.2/lib >seen <<'RUBY'
require 'amq/protocol'
require 'bigdecimal'
%w[12.50 0.05 123.456].each do |text|
  table = AMQ::Protocol::Table.encode('price' => BigDecimal(text))
  puts "#{text} #{AMQ::Protocol::Table.decode(table)['price'].to_s('F')}"
end
by_other_clients = [16].pack('N') + "\x05price" + 'D' + [2, 1250].pack('CN')
by_other_clients[0, 4] = [by_other_clients.bytesize - 4].pack('N')
puts "read #{AMQ::Protocol::Table.decode(by_other_clients)['price'].to_s('F')}"
RUBY
cat seen
diff expected seen
