#!/bin/sh
# php-amqplib 3.5.3 of Debian 12 sends a float in AMQPTable as a text (letter S): 0.5 as "0.5", 3.0 as "3", 1e300 as "1.0E+300".
# Expected: letter d. Its reader understands letter d, so the same library shows a float as float or as text, by who sent it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq php-amqplib=3.5.3-1
dpkg -x php-amqplib_*.deb .
cat >expected <<'EXPECTED'
S 0.5
S 3
S 1.0E+300
EXPECTED
cat >run.php <<'PHP'
<?php
error_reporting(E_ALL & ~E_DEPRECATED);
spl_autoload_register(function ($name) {
    if ($file = stream_resolve_include_path(str_replace('\\', '/', $name) . '.php')) require $file;
});
foreach ([0.5, 3.0, 1e300] as $number) {
    $writer = new PhpAmqpLib\Wire\AMQPWriter();
    $writer->write_table(new PhpAmqpLib\Wire\AMQPTable(['v' => $number]));
    $bytes = $writer->getvalue();
    echo substr($bytes, 6, 1), ' ', substr($bytes, 11), "\n";
}
PHP
php -d include_path=usr/share/php run.php >seen
cat seen
diff expected seen
