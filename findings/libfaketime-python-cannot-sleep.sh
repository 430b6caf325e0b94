#!/bin/sh
# libfaketime 0.9.10 (Debian 12) with FAKETIME_DONT_FAKE_MONOTONIC=1, which programs with timeouts need: time.sleep() of Python 3.11
# raises OSError (EINVAL) at once. Since 3.11 it sleeps until a time of the monotonic clock (clock_nanosleep with TIMER_ABSTIME), which
# libfaketime takes for a time of the faked clock. Expected: it sleeps, as without this variable.
set -eu
library=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1
sleep_with() {
    env "$@" FAKETIME=+1h LD_PRELOAD="$library" python3 -c '
import time
before = time.perf_counter()
try:
    time.sleep(0.5)
    print("sleeps:", time.perf_counter() - before > 0.4)
except OSError as error:
    print(error)'
}
seen=$(
    echo "alone: $(sleep_with A=1)"
    echo "with FAKETIME_DONT_FAKE_MONOTONIC: $(sleep_with FAKETIME_DONT_FAKE_MONOTONIC=1)"
)
expected='alone: sleeps: True
with FAKETIME_DONT_FAKE_MONOTONIC: [Errno 22] Invalid argument'
echo "$seen"
[ "$seen" = "$expected" ]
