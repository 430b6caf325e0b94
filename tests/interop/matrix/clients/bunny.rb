# bunny: arguments, input and output as in python.py, without the name of the client.
require "bunny"
require "json"
require "bigdecimal"

mode, url, place, key = ARGV

def built(kind, value)
  case kind
  when "int" then Integer(value)
  when "float" then Float(value)
  when "bytes", "octets" then [value].pack("H*")
  when "date" then Time.at(Integer(value))
  when "decimal" then BigDecimal(value)
  when "array" then value.map { |each| built(*each) }
  when "table" then value.transform_values { |each| built(*each) }
  else value
  end
end

def shown(value)
  case value
  when nil then ["null"]
  when true, false then ["bool", value.to_s]
  when Integer then ["int", value.to_s]
  when Float then ["float", value.to_s]
  when BigDecimal then ["decimal", value.to_s("F")]
  when Time then ["date", value.to_i.to_s]
  when String
    text = value.dup.force_encoding("UTF-8")
    text.valid_encoding? && !text.include?("\0") ? ["text", text] : ["bytes", value.unpack1("H*")]
  when Array then ["array", value.map { |each| shown(each) }]
  when Hash then ["table", value.transform_values { |each| shown(each) }]
  else ["other", value.class.name]
  end
end

def say(name, what)
  puts JSON.generate([name, what])
  $stdout.flush
end

def message_of(kind, value)
  return { headers: { "v" => built(kind, value) } } unless kind == "property"

  name, *typed = value
  { name.to_sym => name == "timestamp" ? Integer(typed[1]) : built(*typed) }
end

connection = Bunny.new(url, automatically_recover: false, log_level: 6, continuation_timeout: 15_000)
connection.start
channel = connection.create_channel
if mode == "send"
  channel.confirm_select
  STDIN.each_line do |line|
    name, kind, value = JSON.parse(line)
    begin
      channel.basic_publish(name, place, key, **message_of(kind, value))
      raise "nacked" unless channel.wait_for_confirms
      say(name, "")
    rescue StandardError => e
      say(name, e.class.name)
      exit!(3)
    end
  end
else
  loop do
    delivery, properties, body = channel.basic_get(place, manual_ack: false)
    break if delivery.nil?
    say(body, shown(mode == "receive" ? properties[:headers]["v"] : properties[body.to_sym]))
  end
end
connection.close
