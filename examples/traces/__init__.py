"""A project to start from: recorded calls of billing agents, and the tools they called."""
