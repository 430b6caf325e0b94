# Send or receive documents with bunny (Debian: ruby-bunny).
#   ruby document.rb send URL TARGET KEY < FILE
#   ruby document.rb receive URL COUNT
require "bunny"

mode, url, first, key = ARGV
connection = Bunny.new(url, vhost: "/").start
channel = connection.create_channel

if mode == "send"
  channel.confirm_select
  headers = { "@AppKey" => "trade/order//#{key}", "@Token" => key } # the token makes a repetition harmless
  channel.basic_publish($stdin.read, "semq", first, content_type: "application/xml", headers: headers)
  abort "the node did not accept the document" unless channel.wait_for_confirms
  puts "accepted"
else
  waiting = Queue.new
  channel.prefetch(16)
  inbox = channel.queue("semq.inbox", passive: true)
  inbox.subscribe(manual_ack: true) { |*document| waiting << document }
  Integer(first).times do
    delivery, properties, body = waiting.pop
    headers = properties.headers
    puts [properties.message_id, headers["@Source"], headers["@AppKey"], body.bytesize].join(" ")
    channel.ack(delivery.delivery_tag) # only when the document is stored safely
  end
end
connection.close
