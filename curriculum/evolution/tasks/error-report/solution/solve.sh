#!/bin/bash
set -euo pipefail
cd /app
{
  echo service,errors
  { cat logs/service.log logs/service.log.1; gzip -dc logs/service.log.2.gz; } |
    awk '$3 == "ERROR" { n[$2]++ } END { for (s in n) print s "," n[s] }' | LC_ALL=C sort -t, -k2,2nr -k1,1
} > report.csv
