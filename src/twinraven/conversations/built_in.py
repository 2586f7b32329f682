"""Defines the two built-in processes, so that a new conversation works at once: a plain chat, and a chat with tools.

They are processes like any other: saved in a tenant when they are first needed, shown, versioned, and replaced by
whoever saves another under the same id.
"""

from __future__ import annotations

from typing import Final

from twinraven.conversations.chat_tools import REPLY, REPLY_WITH_TOOLS
from twinraven.processes import Process, ProcessStep, StepOutput

DEFAULT_PROCESS: Final = "chat"


def _chat(process_id: str, name: str, description: str, tool_id: str) -> Process:
    step = ProcessStep(
        id="reply", output=StepOutput(variable="reply"), tool=tool_id, inputs={"messages": "{step.messages}"}
    )
    return Process(
        id=process_id,
        name=name,
        description=description,
        initial_context=("messages",),
        steps=(step,),
        output_template="{{reply}}",
    )


BUILT_IN: Final = {
    process.id: process
    for process in (
        _chat(DEFAULT_PROCESS, "Chat", "Answers from the working memory with the configured model.", REPLY),
        _chat(
            "chat_with_tools",
            "Chat with tools",
            "Answers with the configured model, which may call the tools of the catalogue on the caller's behalf.",
            REPLY_WITH_TOOLS,
        ),
    )
}
