# Net::AMQP with AnyEvent::RabbitMQ: arguments, input and output as in python.py, without the name of the client.
use strict; use warnings;
use AnyEvent; use AnyEvent::RabbitMQ; use JSON::PP; use B;

my ($mode, $url, $place, $key) = @ARGV;
my ($user, $pass, $host, $port) = $url =~ m{amqp://(.*?):(.*?)@(.*?):(\d+)};
my $json = JSON::PP->new->ascii->canonical->allow_nonref;
$| = 1;

sub built {
    my ($kind, $value) = @_;
    return $value + 0 if $kind eq 'int';
    return $value * 1.0 if $kind eq 'float';
    return pack 'H*', $value if $kind eq 'bytes' || $kind eq 'octets';
    return Net::AMQP::Value::Timestamp->new($value) if $kind eq 'date';
    die "no decimals\n" if $kind eq 'decimal';
    return [map { built(@$_) } @$value] if $kind eq 'array';
    return { map { $_ => built(@{ $value->{$_} }) } keys %$value } if $kind eq 'table';
    utf8::encode($value) if $kind eq 'text';
    return $value;
}

sub shown {
    my ($value) = @_;
    return ['null'] unless defined $value;
    return ['array', [map { shown($_) } @$value]] if ref $value eq 'ARRAY';
    return ['table', { map { $_ => shown($value->{$_}) } keys %$value }] if ref $value eq 'HASH';
    return ['other', ref $value] if ref $value && !JSON::PP::is_bool($value);
    return ['int', "$value"] if $value =~ /^-?\d+\z/;
    return ['float', "$value"] if $value =~ /^-?\d+(\.\d+)?(e[+-]?\d+)?\z/;
    my $text = $value;
    return utf8::decode($text) ? ['text', $text] : ['bytes', unpack 'H*', $value];
}

sub message_of {
    my ($kind, $value) = @_;
    return { headers => { v => built($kind, $value) } } if $kind ne 'property';
    my ($name, $type, $given) = @$value;
    return { $name => $name eq 'timestamp' ? $given + 0 : built($type, $given) };
}

sub say_line { print $json->encode([@_]), "\n" }
sub awaited { my $done = AnyEvent->condvar; $_[0]->($done); $done->recv }

my $connection = AnyEvent::RabbitMQ->new->load_xml_spec;
my $failed = sub { die 'failed: ', (ref $_[0] ? ref $_[0] : $_[0]), "\n" };
awaited(sub { my $cv = shift; $connection->connect(host => $host, port => $port, user => $user, pass => $pass, vhost => '/', timeout => 5,
    on_success => sub { $cv->send }, on_failure => sub { $cv->croak("connect failed: $_[0]") },
    on_read_failure => sub { exit 3 }, on_close => sub { exit 3 }) });
my $channel = awaited(sub { my $cv = shift; $connection->open_channel(on_success => sub { $cv->send($_[0]) }, on_failure => $failed, on_close => sub { exit 3 }) });
if ($mode eq 'send') {
    awaited(sub { my $cv = shift; $channel->confirm(on_success => sub { $cv->send }, on_failure => $failed) });
    while (my $line = <STDIN>) {
        my ($name, $kind, $value) = @{ $json->decode($line) };
        utf8::encode(my $body = $name);
        my $error = eval {
            awaited(sub { my $cv = shift; $channel->publish(exchange => $place, routing_key => $key, body => $body,
                header => message_of($kind, $value),
                on_ack => sub { $cv->send }, on_nack => sub { $cv->croak('nack') }) });
            1;
        } ? '' : 'Error';
        say_line($name, $error);
        exit 3 if $error;
    }
} else {
    while (1) {
        my $got = awaited(sub { my $cv = shift; $channel->get(queue => $place, no_ack => 1, on_success => sub { $cv->send($_[0]) }, on_failure => $failed) });
        last if $got->{empty} || !$got->{body};
        utf8::decode(my $name = $got->{body}->payload);
        say_line($name, shown($mode eq 'receive' ? $got->{header}->headers->{v} : $got->{header}->can($name) ? $got->{header}->$name : undef));
    }
}
exit 0;
