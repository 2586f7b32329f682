"""Traces any post, message, payment, task, decision, run, call or audit entry to everything before and after it.

A trace is one walk over stored links, in one read transaction: up to where something comes from, and down to what came
of it. Nothing is guessed from times or texts. It is drawn as a tree for people, as JSON for programs, and as SVG.
"""

from __future__ import annotations

from twinraven.tracing.calls import CallTraces
from twinraven.tracing.drawing import draw_trace, trace_lines
from twinraven.tracing.effects import EffectTraces
from twinraven.tracing.model import Trace, TraceLink, TraceNode
from twinraven.tracing.service import Tracer, TraceSource
from twinraven.tracing.work import WorkTraces

__all__ = [
    "CallTraces",
    "EffectTraces",
    "Trace",
    "TraceLink",
    "TraceNode",
    "TraceSource",
    "Tracer",
    "WorkTraces",
    "draw_trace",
    "trace_lines",
]
