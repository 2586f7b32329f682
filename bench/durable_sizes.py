"""How much of each kind of durable work is measured, the same for every contender."""

from __future__ import annotations

CHAIN = 50
"""Steps in order, one run."""
RUNS, STEPS = 20, 25
"""Runs at once, and the steps of each."""
JOBS = 400
"""Runs of one step through the queue."""
WIDE = 200
"""Steps beside each other, or in order."""
IDLE_S = 6.0
GOVERNED = 100
"""Tasks that are judged, runs that are not, graphs with an interrupt."""
CROWD = 100
"""Judged tasks for one worker, or for several beside each other."""
TOOL_MS = 500
"""How long a tool takes that waits for a service or a model."""
NOISE = 20_000
"""Audit entries about other things."""
LOOKS = 50
RESUMED = 1_000
"""Runs in flight when their worker is killed."""
DEEP = 50
"""Processes inside each other, or steps in order."""
