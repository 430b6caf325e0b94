#!/bin/sh
# bunny 2.19.0 of Debian 12 (ruby-amq-protocol 2.3.2) reads a 32-bit float (letter f) in the byte order of the machine instead of that of
# the network: 2.75 of aio-pika (pamqp 4.0.1) is 1.730883863134014e-41 on x86. Doubles (letter d), which bunny itself writes, are right.
# Expected: 2.75.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check pamqp==4.0.1
apt-get download -qq ruby-amq-protocol=2.3.2-1
dpkg -x ruby-amq-protocol_*.deb .
cat >expected <<'EXPECTED'
1.730883863134014e-41
2.75
EXPECTED
venv/bin/python -c "import pamqp.encode; print(pamqp.encode.field_table({'weight': 2.75}).hex())" >table
cat >run.rb <<'RUBY'
require 'amq/protocol'
p AMQ::Protocol::Table.decode([File.read('table').strip].pack('H*'))['weight']
p AMQ::Protocol::Table.decode(AMQ::Protocol::Table.encode('weight' => 2.75))['weight']
RUBY
ruby -I usr/share/rubygems-integration/all/gems/amq-protocol-2.3.2/lib run.rb >seen
cat seen
diff expected seen
