<?php
// Send or receive documents with php-amqplib (Debian: php-amqplib).
//   php document.php send URL TARGET KEY < FILE
//   php document.php receive URL COUNT
error_reporting(E_ALL & ~E_DEPRECATED);
require_once 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

[, $mode, $url, $first] = $argv;
$at = parse_url($url);
$connection = new AMQPStreamConnection($at['host'], $at['port'], $at['user'], $at['pass'], '/');
$channel = $connection->channel();

if ($mode === 'send') {
    $key = $argv[4];
    $channel->confirm_select();
    $channel->set_nack_handler(function () {
        throw new RuntimeException('the node did not accept the document');
    });
    // The token makes a repetition harmless.
    $headers = new AMQPTable(['@AppKey' => "trade/order//$key", '@Token' => $key]);
    $properties = ['content_type' => 'application/xml', 'application_headers' => $headers];
    $channel->basic_publish(new AMQPMessage(stream_get_contents(STDIN), $properties), 'semq', $first);
    $channel->wait_for_pending_acks();
    echo "accepted\n";
} else {
    $wanted = (int)$first;
    $channel->basic_qos(0, 16, false);
    $channel->basic_consume('semq.inbox', '', false, false, false, false, function ($message) use (&$wanted) {
        if ($wanted-- <= 0) {
            return; // not acknowledged: the node delivers it again
        }
        $headers = $message->get('application_headers')->getNativeData();
        echo implode(' ', [$message->get('message_id'), $headers['@Source'], $headers['@AppKey'], strlen($message->body)]), "\n";
        $message->ack(); // only when the document is stored safely
    });
    while ($wanted > 0) {
        $channel->wait();
    }
}
$connection->close();
