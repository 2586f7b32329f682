"""MCP servers for tests: one of an old revision without any SDK, which can also misbehave, and one on the SDK."""
