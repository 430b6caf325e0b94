<?php
// php-amqplib: arguments, input and output as in python.py, without the name of the client.
error_reporting(E_ALL & ~E_DEPRECATED);
require_once 'PhpAmqpLib/autoload.php';
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

[, $mode, $url, $place] = $argv;
$parts = parse_url($url);

function built($kind, $value) {
    switch ($kind) {
        case 'int': if ((string)(int)$value !== $value) throw new RangeException(); return (int)$value;
        case 'float': return (float)$value;
        case 'bytes': case 'octets': return hex2bin($value);
        case 'date': return (new DateTime())->setTimestamp((int)$value);
        case 'decimal': $places = strlen(strstr($value, '.')) - 1;
            return new PhpAmqpLib\Wire\AMQPDecimal((int)str_replace('.', '', $value), $places);
        case 'array': return array_map(fn($each) => built(...$each), $value);
        case 'table': return array_map(fn($each) => built(...$each), $value);
    }
    return $value;
}

function shown($value) {
    if ($value === null) return ['null'];
    if (is_bool($value)) return ['bool', $value ? 'true' : 'false'];
    if (is_int($value)) return ['int', (string)$value];
    if (is_float($value)) return ['float', var_export($value, true)];
    if (is_string($value)) return mb_check_encoding($value, 'UTF-8') && !str_contains($value, "\0") ? ['text', $value] : ['bytes', bin2hex($value)];
    if ($value instanceof DateTimeInterface) return ['date', (string)$value->getTimestamp()];
    if ($value instanceof PhpAmqpLib\Wire\AMQPDecimal) return ['decimal', decimal_text($value->getN(), $value->getE())];
    if (is_array($value)) return array_is_list($value) ? ['array', array_map('shown', $value)] : ['table', array_map('shown', $value)];
    return ['other', get_class($value)];
}

function decimal_text($number, $places) {
    $digits = str_pad((string)abs($number), $places + 1, '0', STR_PAD_LEFT);
    return ($number < 0 ? '-' : '') . substr($digits, 0, -$places) . '.' . substr($digits, -$places);
}

function say($name, $what) { echo json_encode([$name, $what]), "\n"; }

function message_of($kind, $value) {
    if ($kind !== 'property') return ['application_headers' => new AMQPTable(['v' => built($kind, $value)])];
    [$name, $type, $given] = $value;
    return [$name => $name === 'timestamp' ? (int)$given : built($type, $given)];
}

$connection = new AMQPStreamConnection($parts['host'], $parts['port'], $parts['user'], $parts['pass']);
$channel = $connection->channel();
if ($mode === 'send') {
    $channel->confirm_select();
    while (($line = fgets(STDIN)) !== false) {
        [$name, $kind, $value] = json_decode($line, true);
        try {
            $channel->basic_publish(new AMQPMessage($name, message_of($kind, $value)), $place, $argv[4]);
            $channel->wait_for_pending_acks(15);
            say($name, '');
        } catch (Throwable $error) {
            say($name, (new ReflectionClass($error))->getShortName());
            exit(3);
        }
    }
} else {
    while ($message = $channel->basic_get($place, true)) {
        $found = $message->get_properties();
        say($message->body, shown($mode === 'receive' ? $found['application_headers']->getNativeData()['v'] ?? null : $found[$message->body] ?? null));
    }
}
$connection->close();
