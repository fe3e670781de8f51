import os

print("said before the hard end", flush=True)
os._exit(9)
