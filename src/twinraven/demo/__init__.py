"""A small honest world to try TwinRaven on: a support desk, its customers, and an agent that serves them.

`create_desk` makes a shop with a database of its own, `desk_tools` gives the functions that read and change it, which
take time and sometimes fail, `generate_tickets` the customers, and `solve` lets a scripted agent work a ticket through
any `ToolDoor`. Everything follows from a seed.
"""

from __future__ import annotations

from twinraven.demo.agent import Resolution, solve
from twinraven.demo.desk import SupportDesk, create_desk
from twinraven.demo.tickets import Ticket, generate_tickets
from twinraven.demo.tools import EFFECTS, desk_tools
from twinraven.demo.worker import Habits, InnerCall, LearnedTool, ToolDoor

__all__ = [
    "EFFECTS",
    "Habits",
    "InnerCall",
    "LearnedTool",
    "Resolution",
    "SupportDesk",
    "Ticket",
    "ToolDoor",
    "create_desk",
    "desk_tools",
    "generate_tickets",
    "solve",
]
