"""A small honest world to try TwinRaven on: a support desk, its customers, and an agent that serves them.

`create_desk` makes a shop with a database of its own, `desk_tools` gives the functions that read and change it, which
take time and sometimes fail, `generate_tickets` the customers, and `solve` lets a scripted agent work a ticket through
any `ToolDoor`, with or without learned tools. The rest shows people what came of it. Everything follows from a seed.
"""

from __future__ import annotations

from examples.support_desk.agent import Resolution, solve
from examples.support_desk.charts import Canvas, bar_chart, canvas_for, heading, table
from examples.support_desk.desk import SupportDesk, create_desk
from examples.support_desk.drawings import ChainStep, Wire, chain_svg, transition_svg
from examples.support_desk.report import (
    Effort,
    SessionLine,
    count_transitions,
    effort_of,
    render_latencies,
    render_saving,
    render_sessions,
    render_transitions,
)
from examples.support_desk.tickets import Ticket, generate_tickets
from examples.support_desk.tools import EFFECTS, desk_tools
from examples.support_desk.worker import Habits, InnerCall, LearnedTool, ToolDoor

__all__ = [
    "EFFECTS",
    "Canvas",
    "ChainStep",
    "Effort",
    "Habits",
    "InnerCall",
    "LearnedTool",
    "Resolution",
    "SessionLine",
    "SupportDesk",
    "Ticket",
    "ToolDoor",
    "Wire",
    "bar_chart",
    "canvas_for",
    "chain_svg",
    "count_transitions",
    "create_desk",
    "desk_tools",
    "effort_of",
    "generate_tickets",
    "heading",
    "render_latencies",
    "render_saving",
    "render_sessions",
    "render_transitions",
    "solve",
    "table",
    "transition_svg",
]
