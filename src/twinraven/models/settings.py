"""Declares the settings of the configured model: the section `model` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Choice, Integer, Number, Text
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelSettings:
    """The model that plans, conversations, judges and learning ask; without `name` there is none."""

    name: str | None = setting(None, Text(optional=True), "Model that may be asked, such as gpt-5-mini; none: nobody.")
    protocol: str = setting("openai", Choice("openai", "anthropic"), "How the model is spoken to.")
    url: str | None = setting(
        None, Text(optional=True), "Where it is, such as http://127.0.0.1:8080/v1; none: its provider's own address."
    )
    secret: str | None = setting(
        None, Text(optional=True), "Name of the secret in the vault that holds its key; none: it asks for no key."
    )
    timeout_s: float = setting(60.0, Number(0.1, 600), "How long one question may take.")
    max_tokens: int = setting(2_048, Integer(64, 100_000), "Longest answer, in tokens.")
    temperature: float | None = setting(
        None, Number(0, 2, optional=True), "How freely it speaks; none: the provider's own."
    )
    input_price: float | None = setting(
        None, Number(0, optional=True), "What a million tokens of a question cost; needs output_price."
    )
    output_price: float | None = setting(
        None, Number(0, optional=True), "What a million tokens of an answer cost; needs input_price."
    )
    currency: str = setting("USD", Text(), "The currency of both prices.")
