#!/bin/sh
# systemd 252 (Debian 12): a timer with OnCalendar=*-*-* 02:15 does not run at all on the day on which summer time begins, because
# 02:15 does not exist in that night. A nightly job in a zone like Europe/Berlin then has no run on that date.
# Expected: a run at 03:00 or 03:15, as Debian's cron does: it runs the jobs of an hour that was skipped at once.
set -eu
seen=$(TZ=Europe/Berlin systemd-analyze calendar --iterations=2 --base-time='2026-03-28 12:00:00' '*-*-* 02:15:00' |
    sed -n 's/.*Next elapse: //p; s/.*Iter. #2: //p')
expected='Mon 2026-03-30 02:15:00 CEST
Tue 2026-03-31 02:15:00 CEST'
echo "the first runs after Saturday 2026-03-28, 12:00:"
echo "$seen"
[ "$seen" = "$expected" ]
