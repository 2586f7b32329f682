"""Holds runnable examples of TwinRaven; they are no part of the package."""
