# Send or receive documents by HTTP: Net::AMQP cannot receive documents. TOKEN is made by `semq token create`.
#   TOKEN=… perl document.pl send URL TARGET KEY < FILE
#   TOKEN=… perl document.pl receive URL COUNT
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP qw(decode_json);
use MIME::Base64 qw(decode_base64);

my ($mode, $url, $first, $key) = @ARGV;
my $http = HTTP::Tiny->new(default_headers => { Authorization => "Bearer $ENV{TOKEN}" }, timeout => 90);

sub ask {
    my ($path, $request) = @_;
    my $answer = $http->post("$url/api/v1/$path", $request);
    die "$answer->{status} $answer->{content}\n" unless $answer->{success};
    return $answer->{content};
}

if ($mode eq 'send') {
    binmode STDIN;
    my $body = do { local $/; <STDIN> };
    # The key makes a repetition harmless.
    my %headers = ('SEMQ-App-Key' => "trade/order//$key", 'Idempotency-Key' => $key, 'Content-Type' => 'application/xml');
    ask("documents?target=$first", { headers => \%headers, content => $body });
    print "accepted\n";
}
else {
    while ($first > 0) {
        my $documents = decode_json(ask("inbox/receive?wait_s=30&max=$first", {}))->{documents};
        for my $document (@$documents) {
            my $body = decode_base64($document->{body_base64});
            print join(' ', $document->{lk0}, $document->{source}, $document->{app_key}, length $body), "\n";
            ask("inbox/leases/$document->{lease}/ack", {});    # only when the document is stored safely
            $first--;
        }
    }
}
