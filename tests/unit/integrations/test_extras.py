"""Nothing is loaded before it is needed, and what is missing is named with its cure."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = ("langchain_core", "agents", "openai", "pydantic_ai", "httpcore2", "pydantic", "numpy")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_costs_nothing() -> None:
    """The public names can be imported, and the client made known, without any library being loaded."""
    code = (
        "import sys, twinraven, twinraven.integrations, twinraven.sdk; from twinraven import Client; "
        f"print([name for name in {_HEAVY!r} if name in sys.modules])"
    )
    assert run(code) == "[]"


@pytest.mark.parametrize(
    ("adapter", "module", "extra"),
    [
        ("LangChainAdapter", "langchain_core", "langchain"),
        ("OpenAIAgentsAdapter", "agents", "openai-agents"),
        ("PydanticAIAdapter", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_a_missing_library_is_named_with_its_cure(adapter: str, module: str, extra: str) -> None:
    """Whoever asks for an adapter without its library reads what to install."""
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from twinraven.foundation.errors import InvalidSetting\n"
        f"try:\n    from twinraven.integrations import {adapter}\n"
        "except InvalidSetting as error:\n    print(error.message, '|', error.details['fix'])"
    )
    said, _, fix = run(code).partition(" | ")
    assert module in said
    assert fix == f"pip install 'twinraven[{extra}]'"


def test_a_client_without_its_library_says_so() -> None:
    """The client names its extra when it is made, not when it is imported."""
    code = (
        "import sys; sys.modules['httpcore2'] = None\n"
        "from twinraven import Client\n"
        "from twinraven.foundation.errors import InvalidSetting\n"
        "try:\n    Client('http://localhost')\nexcept InvalidSetting as error:\n    print(error.details['fix'])"
    )
    assert run(code) == "pip install 'twinraven[sdk]'"
