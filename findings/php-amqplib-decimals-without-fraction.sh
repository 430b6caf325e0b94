#!/bin/sh
# php-amqplib 3.5.3 of Debian 12: AMQPDecimal(1250, 2)->asBCvalue(), the value of a decimal as a text for bcmath, is "12": it divides
# integers. Expected: "12.50". The number of places is known, and getN() and getE() are right.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq php-amqplib=3.5.3-1 php-phpseclib3 php-constant-time
for package in *.deb; do dpkg -x "$package" .; done
cat >expected <<'EXPECTED'
12
1250 2
EXPECTED
cat >run.php <<'PHP'
<?php
error_reporting(E_ALL & ~E_DEPRECATED);
spl_autoload_register(function ($name) {
    if ($file = stream_resolve_include_path(str_replace('\\', '/', $name) . '.php')) require $file;
});
$price = new PhpAmqpLib\Wire\AMQPDecimal(1250, 2);
echo $price->asBCvalue(), "\n";
echo $price->getN(), ' ', $price->getE(), "\n";
PHP
php -d include_path=usr/share/php run.php >seen
cat seen
diff expected seen
