import sys

print("said before the end")
sys.exit("no licence")
