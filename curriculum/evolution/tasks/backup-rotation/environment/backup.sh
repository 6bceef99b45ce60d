#!/bin/bash
# backup.sh SOURCE TARGET
source=$1
target=$2
mkdir -p $target
last=$(ls $target/backup-* 2>/dev/null | sort | tail -n 1 | tr -dc 0-9)
next=$((last + 1))
tar -czf $target/backup-$next.tar.gz $source
ls -t $target/* | tail -n +4 | xargs rm -f
echo $target/backup-$next.tar.gz
