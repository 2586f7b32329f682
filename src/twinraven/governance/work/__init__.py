"""The work under governance: planning tasks, attempting them, and judging what came of them."""
