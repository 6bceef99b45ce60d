#!/bin/bash
# Recounts from the tests' own copy of the logs.
if python3 /tests/check.py; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
