"""Makes samples, and brings them to the server."""

import os
from http.client import HTTPConnection

server = HTTPConnection(os.environ["HPCKIT_SERVER_HOST"], int(os.environ["HPCKIT_SERVER_PORT"]))
rank = int(os.environ["RANK"])
for sample in range(10):
    server.request("POST", "/samples", str(10 * rank + sample))
    server.getresponse().read()
print(f"rollout {rank} of {os.environ['WORLD_SIZE']} brought 10 samples", flush=True)
