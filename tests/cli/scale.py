"""scale.py FILE: what scale.test wants to know of `lockstep scale --json`, in a few lines."""
import json
import sys

found = json.load(open(sys.argv[1]))
model = found["models"][0]
measured = model["measured"]
two = [p for p in measured if p["workers"] == 2]
parts = [p["compute_s"] + p["sync_s"] + p["idle_s"] + p["overhead_s"] - p["step_s"] for p in measured]
print("sizes", len(measured), "link", found["link_latency_s"], found["link_bytes_per_s"])
print("latency", all(p["sync_s"] + p["hidden_s"] > 0.02 for p in two), "kinds", sorted(two[0]["kinds"]))
print("parts", all(abs(left) < 0.02 * p["step_s"] for left, p in zip(parts, measured)))
print("message", 0.001 < model["fit"]["message_s"] < 0.02, "slower", all(p["speedup"] < 0.5 for p in two if p["speedup"]))
print("best", model["best_workers"], "bandwidth", model["crossovers"][0]["bandwidth"])
