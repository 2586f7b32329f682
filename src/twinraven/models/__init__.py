"""Provides the model port: the one place where a language model is asked.

Whoever wants a model's words asks `Models`. The question is a call of the built-in tool `twinraven.ask_model` on the
one call path, so it is governed by policy, recorded with its answer, its tokens and its cost, and retried like every
other call. `ScriptedModel` serves scripted answers over HTTP, for tests, demos and examples.

Names are resolved on first use: whoever asks no model loads nothing that speaks to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.connectors import ModelToolCall, OfferedTool, PromptTurn
    from twinraven.models.errors import ModelNotConfigured
    from twinraven.models.json_mending import MendedJson, mend_json
    from twinraven.models.model import ModelAnswer, ModelQuestion
    from twinraven.models.script import ModelScript, read_script
    from twinraven.models.scripted import ScriptedExchange, ScriptedModel
    from twinraven.models.service import Models, ModelStream, problems_of
    from twinraven.models.settings import ModelSettings
    from twinraven.models.tool import ASK_MODEL, ModelTool

__all__ = [
    "ASK_MODEL",
    "MendedJson",
    "ModelAnswer",
    "ModelNotConfigured",
    "ModelQuestion",
    "ModelScript",
    "ModelSettings",
    "ModelStream",
    "ModelTool",
    "ModelToolCall",
    "Models",
    "OfferedTool",
    "PromptTurn",
    "ScriptedExchange",
    "ScriptedModel",
    "mend_json",
    "problems_of",
    "read_script",
]


__getattr__ = lazy_names(__name__)
