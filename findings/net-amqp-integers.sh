#!/bin/sh
# Net::AMQP 0.06 of Debian 12, the codec of AnyEvent::RabbitMQ, has no integers of 64 bits in tables. It writes 2^40 as 0, 3000000000 as
# -1294967296 (letter I), without an error, although Perl has 64 bits; and it cannot read letter l, which other clients write.
# Expected: letter l, or an error.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libnet-amqp-perl=0.06~dfsg-4
dpkg -x libnet-amqp-perl_*.deb .
cat >expected <<'EXPECTED'
5 I 5
3000000000 I -1294967296
1099511627776 I 0
No way to unpack field 'n' type 'l'
EXPECTED
perl -I usr/share/perl5 >seen 2>&1 <<'PERL'
use Net::AMQP::Common qw(:all);
for my $number (5, 3_000_000_000, 2**40) {
    my $packed = pack_field_table({ n => $number });
    my ($letter, $seen) = unpack 'x6 a1 l>', $packed;
    print "$number $letter $seen\n";
}
my $of_others = pack('N', 11) . "\x01nl" . pack('q>', 5);
print eval { unpack_field_table(\$of_others); 'read' } || $@ =~ s/ at .*//sr, "\n";
PERL
cat seen
diff expected seen
