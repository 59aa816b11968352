"""Waits for the samples of all rollouts, and takes their mean."""

import json
import os
import time
from http.client import HTTPConnection

WANTED = 40
server = HTTPConnection(os.environ["HPCKIT_SERVER_HOST"], int(os.environ["HPCKIT_SERVER_PORT"]))
samples: list[int] = []
while len(samples) < WANTED:
    time.sleep(0.2)
    server.request("GET", "/samples")
    samples = json.load(server.getresponse())
print(f"trainer {os.environ['RANK']}: mean {sum(samples) / len(samples)}", flush=True)
