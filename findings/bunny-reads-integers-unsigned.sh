#!/bin/sh
# bunny 2.19.0 of Debian 12 (ruby-amq-protocol 2.3.2) reads the signed letters b and I as unsigned: -1 of pika 1.4.4 (letter I) is
# 4294967295. Its own integers have letter l, which it reads as signed, so it shows only when another client sends.
# Expected: -1, as every other client reads it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check pika==1.4.4
apt-get download -qq ruby-amq-protocol=2.3.2-1
dpkg -x ruby-amq-protocol_*.deb .
cat >expected <<'EXPECTED'
1 I 1
-1 I 4294967295
-2000000000 I 2294967296
-3000000000 l -3000000000
EXPECTED
venv/bin/python >tables <<'PYTHON'
import pika.data
for number in (1, -1, -2_000_000_000, -3_000_000_000):
    pieces = []
    pika.data.encode_table(pieces, {'n': number})
    print(number, b''.join(pieces).hex())
PYTHON
cat >run.rb <<'RUBY'
require 'amq/protocol'
File.foreach('tables') do |line|
  number, hex = line.split
  table = [hex].pack('H*')
  puts "#{number} #{table[6]} #{AMQ::Protocol::Table.decode(table)['n']}"
end
RUBY
ruby -I usr/share/rubygems-integration/all/gems/amq-protocol-2.3.2/lib run.rb >seen
cat seen
diff expected seen
