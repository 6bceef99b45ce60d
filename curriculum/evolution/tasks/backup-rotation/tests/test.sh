#!/bin/bash
python3 -I /tests/check.py
status=$?
if [ $status = 0 ]; then
  echo 1 > /logs/verifier/reward.txt
elif [ $status = 10 ]; then
  echo 0 > /logs/verifier/reward.txt
else
  exit $status
fi
